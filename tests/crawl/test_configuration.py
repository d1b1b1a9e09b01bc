"""What is wrong with settings is said before the first request, with their names."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import Settings

from llmcrawler.crawl.model_settings import model_of
from llmcrawler.errors import ConfigError

MODEL = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": "http://127.0.0.1:9/v1", "LLM_MAX_TOKENS": 0, "LLM_MAX_COST_USD": 0}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"LLM_MAX_COST_USD": 0.5}, "LLM_PRICE_INPUT"),
        ({"LLM_MAX_COST_USD": "0.5", "LLM_MODEL": "qwen", "LLM_PRICE_INPUT": 1}, "price of qwen is not known"),
        ({"LLM_MAX_TOKENS": "many"}, "LLM_MAX_TOKENS='many'"),
        ({"LLM_MAX_TOKENS": "nan"}, "LLM_MAX_TOKENS='nan'"),
        ({"LLM_MAX_COST_USD": -1, "LLM_MODEL": "gpt-4o-mini"}, "LLM_MAX_COST_USD=-1"),
    ],
)
def test_a_budget_that_cannot_be_held_is_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        model_of(Settings({**MODEL, **settings}))


@pytest.mark.parametrize(
    ("settings", "price"),
    [
        ({"LLM_MODEL": "gpt-4o-mini"}, 0.15),
        ({"LLM_PRICE_INPUT": 2, "LLM_PRICE_OUTPUT": 3}, 2.0),
        ({"LLM_PROVIDER": "embedded"}, 0.0),
    ],
)
def test_a_limit_in_money_is_held_at_a_price_that_is_known(settings: dict[str, Any], price: float) -> None:
    model = model_of(Settings({**MODEL, "LLM_MAX_COST_USD": 0.5, **settings}))
    assert model is not None
    assert model.budget.limits.price is not None
    assert model.budget.limits.price.input == price
