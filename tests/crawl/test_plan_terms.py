"""A plan is priced for models that are not asked, so that no key is needed."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import Settings

from llmcrawler import settings as defaults
from llmcrawler.core.reporting.planning.estimate import CrawlTerms
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.plan_terms import plan_terms
from llmcrawler.errors import ConfigError


def terms(model: str = "", fields: str = "", **given: Any) -> CrawlTerms:
    settings = Settings()
    settings.setmodule(defaults)
    settings.setdict(given)
    return plan_terms(settings, ExploreOptions.of({"url": "http://a.example", "fields": fields}), model)


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LLM_API_KEY", "LLM_BASE_URL", "LLM_MODEL", "LLM_PROVIDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("model", "given", "named", "input_price"),
    [
        ("", {}, "", None),
        ("", {"LLM_PROVIDER": "openai"}, "gpt-6-luna", 0.1),
        ("", {"LLM_PROVIDER": "none"}, "", None),
        ("", {"LLM_MODEL": "gpt-5-mini"}, "gpt-5-mini", 0.25),  # a key will follow
        ("gpt-5-mini", {}, "gpt-5-mini", 0.25),
        ("gpt-5-mini", {"LLM_PROVIDER": "none"}, "gpt-5-mini", 0.25),
        ("none", {}, "", None),
        ("qwen:7b", {}, "qwen:7b", None),
        # The settings' price is that of the settings' model.
        ("m", {"LLM_MODEL": "m", "LLM_PRICE_INPUT": 3, "LLM_PRICE_OUTPUT": 4}, "m", 3),
        ("gpt-5-mini", {"LLM_MODEL": "m", "LLM_PRICE_INPUT": 3, "LLM_PRICE_OUTPUT": 4}, "gpt-5-mini", 0.25),
    ],
)
def test_models_have_their_price_without_a_key(
    model: str, given: dict[str, Any], named: str, input_price: float | None
) -> None:
    planned = terms(model, **given)
    assert planned.model == named
    assert (planned.price and planned.price.input) == input_price
    assert (planned.batches is None) == (not named)


def test_models_that_think_are_paid_for_their_thoughts() -> None:
    thoughts = [terms(model).thought_tokens for model in ("gpt-6-luna", "gpt-5-mini", "gpt-4.1-mini")]
    assert thoughts[0] == thoughts[1] > thoughts[2] == 0


def test_other_mistakes_in_the_settings_are_still_named() -> None:
    with pytest.raises(ConfigError, match="LLM_PROVIDER is 'opnai'"):
        terms("", LLM_PROVIDER="opnai")
