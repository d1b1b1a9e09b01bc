"""What a crawl will come to: calls as the crawl's own parts make them, and ranges that hold together."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from llmcrawler.core.llm import BatchRules, Price
from llmcrawler.core.reporting.planning.estimate import (
    CrawlTerms,
    ExpectedCalls,
    PageArrival,
    make_plan,
    make_plans,
    play,
    retyped_items,
)
from llmcrawler.core.reporting.planning.site_sample import SampledPage, SiteSample
from llmcrawler.core.reporting.terminal_tables import no_page, plan_tables

RULES = BatchRules(max_questions=20, max_tokens=12_000, wait_seconds=2.0, patient_seconds=15.0)


def pages(count: int, template: str = "t", tokens: int = 100) -> list[PageArrival | None]:
    return [PageArrival(template, tokens)] * count


@pytest.mark.parametrize(
    ("arrivals", "pace_seconds", "asked"),
    [
        ([], 0.2, ExpectedCalls(0, 0, 0)),
        ([None] * 50, 0.2, ExpectedCalls(0, 0, 0)),
        # One template: its members 1, 4, 16 and 64 are shown, and more since many wait for its first verdict.
        (pages(64), 0.2, ExpectedCalls(3, 7, 700)),
        (pages(64), 0.0, ExpectedCalls(1, 4, 400)),
        ([PageArrival(f"t{n}", 100) for n in range(60)], 0.0, ExpectedCalls(3, 60, 6000)),
        ([PageArrival("t", 100, is_settled=False)] * 40, 0.0, ExpectedCalls(2, 40, 4000)),
        # Full by tokens.
        ([PageArrival(f"t{n}", 5_000) for n in range(4)], 0.0, ExpectedCalls(2, 4, 20_000)),
    ],
)
def test_calls_follow_from_the_rules_of_sampling_and_batching(
    arrivals: list[PageArrival | None], pace_seconds: float, asked: ExpectedCalls
) -> None:
    assert play(arrivals, pace_seconds, 1.0, RULES) == asked


def a_shop(error: str | None = None) -> SiteSample:
    """Ten of a hundred items, and all five lists; the rules take all of them for lists."""
    lists, items = [f"/list/{n}" for n in range(5)], [f"/item/{n}" for n in range(100)]
    sampled = [
        SampledPage(url, "/list/{n}", frozenset(items[n * 20 : n * 20 + 20]), template="lists", page_type="listing")
        for n, url in enumerate(lists)
    ]
    sampled += [
        SampledPage(
            url, "/item/{n}", template="items", page_type="listing", item_type="product", shown_tokens=300,
            block_tokens=1000, latency_seconds=0.5, error=error,
        )
        for url in items[::10]
    ]  # fmt: skip
    return SiteSample(sampled, {**dict.fromkeys(lists, "/list/{n}"), **dict.fromkeys(items, "/item/{n}")})


TERMS = CrawlTerms(
    max_pages=500,
    gap_seconds=0.2,
    concurrency=5,
    model="m",
    batches=RULES,
    classify_tokens=1_000,
    induce_tokens=1_500,
    price=Price(1.0, 2.0, 1.0),
    record_types={"product"},
    weak_types={"listing", "other"},
)


def test_what_lists_lead_to_is_an_item() -> None:
    types = {page.template: page.page_type for page in retyped_items(a_shop(), {"listing"}).pages}
    assert types == {"lists": "listing", "items": "product"}


def test_a_plan_has_pages_types_time_calls_and_cost() -> None:
    plan = make_plan("http://shop.example/", a_shop(), TERMS)
    assert plan["pages"] == {"low": 105, "likely": 105, "high": 105}
    assert {name: count["likely"] for name, count in plan["page_types"].items()} == {"product": 100, "listing": 5}
    assert plan["seconds"]["low"] == pytest.approx(105 * 0.2 + 3, abs=1)
    assert [one["learned"] for one in plan["templates"]] == [True, False]
    assert plan["llm"]["calls_by_task"]["induce"] == {"low": 1, "likely": 2, "high": 5}
    for amounts in (plan["llm"]["calls"], plan["llm"]["tokens"], plan["llm"]["cost_usd"]):
        assert 0 < amounts["low"] <= amounts["likely"] <= amounts["high"]
    assert plan["llm"]["cost_usd"]["likely"] < plan["llm"]["tokens"]["likely"] * 2 / 1e6


def test_one_sample_is_priced_for_several_models() -> None:
    dear, free = replace(TERMS, model="dear", price=Price(10.0, 20.0, 10.0)), replace(TERMS, model="", batches=None)
    plan = make_plans("http://shop.example/", a_shop(), [TERMS, dear, replace(free, price=None)])
    assert {name: value for name, value in plan.items() if name != "models"} == make_plan(plan["url"], a_shop(), TERMS)
    cheap, dearer, none = plan["models"]
    assert dearer["cost_usd"]["likely"] == pytest.approx(10 * cheap["cost_usd"]["likely"], rel=1e-3)
    assert (none["model"], none["calls"]["high"], none["cost_usd"]) == ("", 0, None)
    assert none["seconds"]["likely"] < cheap["seconds"]["likely"]
    out = StringIO()
    Console(width=200, file=out).print(*plan_tables(plan))
    rows = out.getvalue().partition("\nmodel ")[2].splitlines()[1:4]
    assert [(row.split()[0], row.count("$")) for row in rows] == [("m", 3), ("dear", 3), ("none", 1)]


@pytest.mark.parametrize(
    ("url", "failures", "said"),
    [
        ("http://a.example", {"http_404": "404 Not Found"}, "could be fetched: 404 Not Found"),
        ("http://a.example", {"robots": "forbidden"}, "forbidden (where the site is yours: -s ROBOTSTXT_OBEY=False)"),
        ("a.example", {"tls": "bad"}, "bad. No scheme was given, so https was tried: is http://a.example meant?"),
        ("http://a.example", {}, "could be fetched: stopped"),
        ("http://a.example", {"dns": "a\x1b[2J"}, "could be fetched: a\N{REPLACEMENT CHARACTER}[2J"),
    ],
)
def test_a_plan_without_a_page_says_why(url: str, failures: dict[str, str], said: str) -> None:
    assert no_page(url, failures, "stopped").endswith(said)


def test_a_cap_on_pages_takes_of_all_kinds() -> None:
    plan = make_plan("/", a_shop(), CrawlTerms(max_pages=20, gap_seconds=1.0, concurrency=5))
    assert plan["site_pages"]["likely"] == 105
    assert plan["pages"]["likely"] == 20
    assert [one["pages"]["likely"] for one in plan["templates"]] == [15, 5]
    assert plan["llm"] == {
        "model": "",
        "calls": {"low": 0, "likely": 0, "high": 0},
        "calls_by_task": {task: {"low": 0, "likely": 0, "high": 0} for task in ("classify", "induce")},
        "tokens": {"low": 0, "likely": 0, "high": 0},
        "cost_usd": None,
    }


def test_pages_that_fail_are_errors_and_no_pages() -> None:
    plan = make_plan("/", a_shop(error="http_404"), TERMS)
    assert plan["pages"]["likely"] == 5
    assert plan["errors"]["likely"] == 100


def test_a_model_that_tells_no_page_types_is_asked_for_records_only() -> None:
    calls = make_plan("/", a_shop(), replace(TERMS, classifies=False))["llm"]["calls_by_task"]
    assert calls["classify"] == {"low": 0, "likely": 0, "high": 0}
    assert calls["induce"]["likely"] > 0


def test_without_a_price_there_is_no_cost() -> None:
    plan = make_plan("/", a_shop(), CrawlTerms(500, 0.2, 5, model="m", batches=RULES))
    assert plan["llm"]["cost_usd"] is None
    assert any("LLM_PRICE_INPUT" in note for note in plan["notes"])
