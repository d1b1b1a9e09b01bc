"""What a crawl will come to: calls as the crawl's own parts make them, and ranges that hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from random import Random
from typing import Any

import pytest
from rich.console import Console

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.llm.batching import BatchRules
from llmcrawler.core.llm.usage import Price
from llmcrawler.core.reporting.planning.estimate import (
    CrawlTerms,
    ExpectedCalls,
    PageArrival,
    Range,
    expected_calls,
    make_plan,
    make_plans,
    site_size,
)
from llmcrawler.core.reporting.planning.site_sample import Draw, SampledPage, SiteSample, strata_of
from llmcrawler.core.reporting.terminal_tables import no_page, plan_tables

RULES = BatchRules(max_questions=20, max_tokens=12_000, wait_seconds=2.0, patient_seconds=15.0)


@pytest.mark.parametrize(
    ("arrivals", "pace_seconds", "asked"),
    [
        ([], 0.2, ExpectedCalls(0, 0, 0)),
        ([None] * 50, 0.2, ExpectedCalls(0, 0, 0)),
        # One template: its members 1, 4, 16 and 64 are shown. Nobody waits for the last two, so they share a call.
        ([PageArrival("t", 100)] * 64, 0.2, ExpectedCalls(2, 4, 400)),
        ([PageArrival("t", 100), *[None] * 20, PageArrival("u", 100)], 0.2, ExpectedCalls(2, 2, 200)),
        ([PageArrival("t", 100)] * 64, 0.0, ExpectedCalls(1, 4, 400)),
        ([PageArrival(f"t{n}", 100) for n in range(60)], 0.0, ExpectedCalls(3, 60, 6000)),
        ([PageArrival("t", 100, is_settled=False)] * 40, 0.0, ExpectedCalls(2, 40, 4000)),
        # Full by tokens.
        ([PageArrival(f"t{n}", 5_000) for n in range(4)], 0.0, ExpectedCalls(2, 4, 20_000)),
    ],
)
def test_calls_follow_from_the_rules_of_sampling_and_batching(arrivals, pace_seconds, asked):
    assert expected_calls(arrivals, pace_seconds, RULES) == asked


def a_shop(error: str | None = None) -> SiteSample:
    """Ten of a hundred items, and all five lists."""
    lists, items = [f"/list/{n}" for n in range(5)], [f"/item/{n}" for n in range(100)]
    looks: Any = {"page_type": "product", "shown_tokens": 300, "block_tokens": 1000, "latency_seconds": 0.5}
    sampled = [SampledPage(url, "/item/{n}", template="items", error=error, **looks) for url in items[::10]]
    for n, url in enumerate(lists):
        links = frozenset(items[n * 20 : n * 20 + 20])
        sampled.insert(n, SampledPage(url, "/list/{n}", links, template="lists", page_type="listing"))
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
)


def test_a_plan_has_pages_types_time_calls_and_cost():
    plan = make_plan("http://shop.example/", a_shop(), TERMS)
    assert plan["pages"] == {"low": 105, "likely": 105, "high": 105}
    assert {name: count["likely"] for name, count in plan["page_types"].items()} == {"product": 100, "listing": 5}
    assert plan["seconds"]["low"] == pytest.approx(105 * 0.2 + 3, abs=1)
    assert [one["learned"] for one in plan["templates"]] == [True, False]
    assert plan["llm"]["calls_by_task"]["induce"] == {"low": 1, "likely": 2, "high": 5}
    for amounts in (plan["llm"]["calls"], plan["llm"]["tokens"], plan["llm"]["cost_usd"]):
        assert 0 < amounts["low"] <= amounts["likely"] <= amounts["high"]
    assert plan["llm"]["cost_usd"]["likely"] < plan["llm"]["tokens"]["likely"] * 2 / 1e6


def test_one_sample_is_priced_for_several_models():
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
def test_a_plan_without_a_page_says_why(url, failures, said):
    assert no_page(url, failures, "stopped").endswith(said)


def test_a_cap_on_pages_takes_of_all_kinds():
    plan = make_plan("/", a_shop(), CrawlTerms(max_pages=20, gap_seconds=1.0, concurrency=5))
    assert plan["site_pages"]["likely"] == 105
    assert plan["pages"]["likely"] == 20
    assert [one["pages"]["likely"] for one in plan["templates"]] == [15, 5]
    none = {"low": 0, "likely": 0, "high": 0}
    by_task = dict.fromkeys(("classify", "induce"), none)
    assert plan["llm"] == {"model": "", "calls": none, "calls_by_task": by_task, "tokens": none, "cost_usd": None}
    assert not any("the model" in note for note in plan["notes"])


def test_pages_that_fail_are_errors_and_no_pages():
    plan = make_plan("/", a_shop(error="http_404"), TERMS)
    assert plan["pages"]["likely"] == 5
    assert plan["errors"]["likely"] == 100


def test_a_model_may_have_no_price():
    plan = make_plan("/", a_shop(), CrawlTerms(500, 0.2, 5, model="m", batches=RULES))
    assert plan["llm"]["cost_usd"] is None
    assert any("LLM_PRICE_INPUT" in note for note in plan["notes"])


Graph = Mapping[str, tuple[str, tuple[str, ...]]]  # url -> its pattern and its links


def crawled(graph: Graph, count: int) -> SiteSample:
    """As the frontier does it: a pattern's first urls come before the many of another."""
    pages: list[SampledPage] = []
    known, seen_of, queue = {"/": graph["/"][0]}, Counter([graph["/"][0]]), [(0, 0, "/")]
    while queue and len(pages) < count:
        _rank, _number, url = min(queue)
        queue.remove((_rank, _number, url))
        pattern, links = graph[url]
        pages.append(SampledPage(url, pattern, frozenset(links), template=pattern))
        for link in links:
            if link not in known:
                known[link] = kind = graph[link][0]
                queue.append((seen_of[kind].bit_length(), len(known), link))
                seen_of[kind] += 1
    return SiteSample(pages, known)


def total(sample: SiteSample) -> Range:
    sizes = [one.size for one in site_size(sample)]
    return Range(*(sum(getattr(size, name) for size in sizes) for name in ("low", "likely", "high")))


def shop(items: int = 200, per_list: int = 20) -> Graph:
    """Lists with a menu of all lists; items with a form of their own each, and four neighbours."""
    rng = Random(1)
    lists = [f"/list/{n}" for n in range(-(-items // per_list) * 2)]
    graph: dict[str, tuple[str, tuple[str, ...]]] = {"/": ("/", tuple(lists))}
    for n, url in enumerate(lists):
        graph[url] = ("/list/{n}", (*lists, *(f"/item/{i}" for i in range(items) if i % len(lists) in (n, n - 1))))
    for i in range(items):
        near = tuple(f"/item/{j}" for j in rng.sample(range(items), 4))
        graph[f"/item/{i}"] = ("/item/{n}", (*lists, f"/form/{i}", *near))
        graph[f"/form/{i}"] = ("/form/{n}", (*lists, f"/item/{i}"))
    return graph


def series(pages: int = 60, per_page: int = 5) -> Graph:
    """A blog whose pages of posts lead on to the next one only."""
    graph: dict[str, tuple[str, tuple[str, ...]]] = {"/": ("/", ("/page/1",))}
    for n in range(1, pages + 1):
        posts = tuple(f"/post/{n}-{i}" for i in range(per_page))
        near = tuple(f"/page/{m}" for m in (n - 1, n + 1) if 1 <= m <= pages)
        graph[f"/page/{n}"] = ("/page/{n}", (*posts, *near))
        graph |= dict.fromkeys(posts, ("/post/{slug}", ("/",)))
    return graph


def tree(width: int = 8, depth: int = 3) -> Graph:
    graph: dict[str, tuple[str, tuple[str, ...]]] = {}
    level = ["/"]
    for at in range(depth + 1):
        below: list[Any] = []
        for url in level:
            links = tuple(f"{url.rstrip('/')}/{n}" for n in range(width)) if at < depth else ()
            graph[url] = ("/" + "{n}/" * at, links)
            below += links
        level = below
    return graph


def test_what_is_left_of_a_tree_are_leaves_though_all_its_urls_have_one_shape():
    graph = {url: ("/{n}/", links) for url, (_pattern, links) in tree().items()}
    for count, most in ((100, 10), (200, 1)):
        size = total(crawled(graph, count))
        assert size.low <= len(graph) <= size.likely <= most * len(graph), "the later pages tell"


@pytest.mark.parametrize("make", [shop, tree])
@pytest.mark.parametrize("count", [60, 100])
def test_the_size_of_a_site_is_near(make, count):
    graph = make()
    size = total(crawled(graph, count))
    assert 0.85 * len(graph) <= size.likely <= 1.15 * len(graph), size
    assert size.low <= len(graph) <= size.high, size


def test_a_series_whose_end_is_out_of_sight_is_in_the_range():
    graph = series()
    sample = crawled(graph, 50)
    size = total(sample)
    assert size.low < len(graph) <= size.high
    assert size.likely > len(sample.known)


def test_a_site_that_was_seen_as_a_whole_or_is_listed_is_as_large_as_it_is():
    small, large = shop(10), shop()
    assert total(crawled(small, 1000)) == Range(*[float(len(small))] * 3)
    known = {url: pattern for url, (pattern, _links) in large.items()}
    assert total(SiteSample(crawled(large, 30).pages, known, frozenset(known))).likely == len(large)


def test_pages_that_fail_are_a_share_of_their_stratum():
    pages = [SampledPage(f"/x/{n}", "/x/{n}", error="http_404" if n % 2 else None) for n in range(10)]
    (stratum,) = site_size(SiteSample(pages, {f"/x/{n}": "/x/{n}" for n in range(40)}))
    assert (stratum.known, stratum.failed_share) == (40, 0.5)


def test_nothing_grows_without_end():
    """Each page leads to two new ones: a calendar."""
    pages = [SampledPage(f"/{n}", "/{n}", frozenset({f"/{2 * n + 1}", f"/{2 * n + 2}"})) for n in range(50)]
    known = {f"/{n}": "/{n}" for n in range(101)}
    assert 101 < total(SiteSample(pages, known)).high < 5_000


@pytest.mark.parametrize(
    ("patterns", "templates", "stratum_of", "expected"),
    [
        (["/p/{n}/"] * 5 + ["/p/"], [("/p/{n}/", "t1"), ("/p/", "t2")], "/p/{n}/", "/p/{n}/"),
        # Shapes of one depth and one template are one kind.
        (["/p/{n}/"] * 5 + ["/p/{slug}/"] * 3, [("/p/{n}/", "t1"), ("/p/{slug}/", "t1")], "/p/{slug}/", "/p/{n}/"),
        (["/p/{n}/"] * 5 + ["/p/{slug}/"] * 3, [("/p/{n}/", "t1"), ("/p/{slug}/", "t2")], "/p/{slug}/", "/p/{slug}/"),
        # Plain words: each url has a shape of its own, told apart by the last part.
        (
            ["/a/index.html", "/b/index.html", "/c/index.html", "/a/x.html", "/b/y.html"],
            [("/a/index.html", "t1"), ("/a/x.html", "t2")],
            "/b/y.html",
            "/*/index.html",
        ),
        (["/about", "/contact"], [("/about", "t1")], "/contact", "/about"),
    ],
)
def test_urls_are_told_apart_by_shape_and_template(patterns, templates, stratum_of, expected):
    assert strata_of(patterns, templates)[stratum_of] == expected


def test_lists_are_drawn_as_often_as_what_they_list():
    """A crawl puts them last (list_patterns.py), but they lead to what is not known yet."""
    draw = Draw()
    drawn = [draw(UrlTask(f"http://a.test/{kind}/{n}", "a.test", group=kind)) for n in range(8) for kind in ("x", "y")]
    assert {task.group for task in drawn} == {""}
    assert max(task.priority for task in drawn) <= 3
