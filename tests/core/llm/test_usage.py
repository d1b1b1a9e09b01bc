from __future__ import annotations

import json

import pytest

from llmcrawler.core.llm.openai_transport import Completion, completion_of
from llmcrawler.core.llm.usage import (
    PRICES,
    Price,
    Tokens,
    Usage,
    charges_cache_writes,
    estimate_tokens,
    price_of,
)


@pytest.mark.parametrize(
    ("model", "own", "expected"),
    [
        ("gpt-6-luna", (), PRICES["gpt-6-luna"]),
        ("gpt-4o-mini-2024-07-18", (), PRICES["gpt-4o-mini"]),
        ("qwen", (), None),
        ("qwen", (1.0,), None),
        ("qwen", (1.0, 2.0), Price(1.0, 2.0, 1.0)),
        ("qwen", (0.0, 0.0), Price(0.0, 0.0, 0.0)),
        ("gpt-4o-mini", (None, 9.0), Price(0.15, 9.0, 0.075)),
        ("gpt-6-luna", (0.4,), Price(0.4, 0.50, 0.4, 0.5)),
        ("openai/gpt-6-sol", (2.0, 10.0), Price(2.0, 10.0, 2.0, 2.5)),
        ("gpt-5.4-mini", (), PRICES["gpt-5.4-mini"]),
    ],
)
def test_a_price_is_known_or_given_or_none(model: str, own: tuple[float | None, ...], expected: Price | None) -> None:
    assert price_of(model, *own) == expected


def test_the_most_that_a_call_can_cost_is_no_less_than_any_use_of_the_cache() -> None:
    price = Price(1.0, 2.0, 0.1, 1.25)
    uses = [Tokens(1000, 100, cached, written) for cached in (0, 500, 1000) for written in (0, 500, 1000, 5000)]
    assert max(price.cost_usd(use.plausible()) for use in uses) == pytest.approx(price.most_usd(1000, 100))


def test_which_models_charge_for_cache_writes() -> None:
    assert all(map(charges_cache_writes, ("gpt-6-luna", "gpt-5.6-luna-2026-07-09", "openai/gpt-5.6", "gpt-10")))
    others = ("gpt-5.4-nano", "gpt-5-mini", "gpt-4o-mini", "qwen2.5:7b", "mygpt-7")
    assert not any(map(charges_cache_writes, others))


def test_an_unknown_cost_is_not_shown_as_nothing() -> None:
    usage = Usage()
    usage.count_answer("classify", Tokens(1000, 1000))
    assert usage.cost_usd is None
    assert "cost_usd" not in usage.as_dict()


def test_the_figures_are_flat_and_by_task_and_fault() -> None:
    usage = Usage(Price(1.0, 2.0, 0.1))
    usage.tasks["classify"].calls += 1
    usage.count_answer("induce", Tokens(1_000_000, 500_000, cached=500_000))
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
    ("said", "cached", "written"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 5}}, 7, 5),
        ({"prompt_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 5}}, 0, 5),
        ({"cache_read_input_tokens": 7, "cache_creation_input_tokens": 5}, 7, 5),
        ({"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 5}, 7, 0),
        ({"prompt_tokens_details": {"cached_tokens": -7, "cache_write_tokens": "5"}}, 0, 0),
        ({"prompt_tokens_details": None}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_servers_say_in_several_ways_what_their_cache_did(said: dict[str, object], cached: int, written: int) -> None:
    reply = {"choices": [{"message": {"content": "{}"}}], "usage": {"prompt_tokens": 20, **said}}
    answer = completion_of(json.dumps(reply).encode(), str)
    assert isinstance(answer, Completion)
    assert (answer.provider_cached_tokens, answer.provider_cache_write_tokens) == (cached, written)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("abc", 1), ("abcd" * 10, 10), ("жж", 1), ("日本語日", 3), ("\ud800", 1)]
)
def test_tokens_are_a_quarter_of_the_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
