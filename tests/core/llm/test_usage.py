from __future__ import annotations

import pytest

from llmcrawler.llm.tokens import estimate_tokens
from llmcrawler.llm.usage import PRICES, Price, Usage, price_of


@pytest.mark.parametrize(
    ("model", "paid_in", "paid_out", "expected"),
    [
        ("gpt-6-luna", None, None, PRICES["gpt-6-luna"]),
        ("gpt-4o-mini-2024-07-18", None, None, PRICES["gpt-4o-mini"]),
        ("qwen", None, None, None),
        ("qwen", 1.0, None, None),
        ("qwen", 1.0, 2.0, Price(1.0, 2.0, 1.0)),
        ("qwen", 0.0, 0.0, Price(0.0, 0.0, 0.0)),
        ("gpt-4o-mini", None, 9.0, Price(0.15, 9.0, 0.075)),
    ],
)
def test_a_price_is_known_or_given_or_none(
    model: str, paid_in: float | None, paid_out: float | None, expected: Price | None
) -> None:
    assert price_of(model, paid_in, paid_out) == expected


def test_an_unknown_cost_is_not_shown_as_nothing() -> None:
    usage = Usage()
    usage.count_tokens("classify", 1000, 1000)
    assert usage.cost_usd is None
    assert "cost_usd" not in usage.as_dict()


def test_the_figures_are_flat_and_by_task_and_fault() -> None:
    usage = Usage(Price(1.0, 2.0, 0.1))
    usage.count_call("classify")
    usage.count_call("induce")
    usage.count_tokens("induce", 1_000_000, 500_000, 500_000)
    usage.faults["timeout"] += 1
    figures = usage.as_dict()
    assert figures["calls"] == 2
    assert figures["calls/induce"] == 1
    assert figures["faults/timeout"] == 1
    assert figures["cost_usd"] == pytest.approx(0.5 + 0.05 + 1.0)
    assert (figures["prompt_tokens/induce"], figures["completion_tokens/induce"]) == (1_000_000, 500_000)
    assert figures["cost_usd/induce"] == figures["cost_usd"]
    assert all(isinstance(figure, int | float) for figure in figures.values())


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abc", 1), ("abcd" * 10, 10), ("жж", 1), ("日本語日", 3), ("\ud800", 1)]
)
def test_tokens_are_a_quarter_of_the_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
