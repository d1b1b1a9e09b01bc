"""How large a site is, from a sample of its pages: sites whose size is known, sampled as a crawl comes across them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from llmcrawler.core.reporting.planning.estimate import Range, site_size
from llmcrawler.core.reporting.planning.site_sample import SampledPage, SiteSample, strata_of

Graph = Mapping[str, tuple[str, tuple[str, ...]]]  # url -> its pattern and its links


def crawled(graph: Graph, count: int, start: str = "/") -> SiteSample:
    """As the frontier does it: a pattern's first urls come before the many of another."""
    pages: list[Any] = []
    known, queue = {start: graph[start][0]}, [(0, 0, start)]
    seen_of: dict[str, int] = {graph[start][0]: 1}
    while queue and len(pages) < count:
        queue.sort()
        _rank, _number, url = queue.pop(0)
        pattern, links = graph[url]
        pages.append(SampledPage(url, pattern, frozenset(links), template=pattern))
        for link in links:
            if link not in known:
                kind = graph[link][0]
                known[link] = kind
                seen_of[kind] = seen_of.get(kind, 0) + 1
                queue.append(((seen_of[kind] - 1).bit_length(), len(known), link))
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


def test_what_is_left_of_a_tree_are_leaves_though_all_its_urls_have_one_shape() -> None:
    graph = {url: ("/{n}/", links) for url, (_pattern, links) in tree().items()}
    for count, most in ((100, 10), (200, 1)):
        size = total(crawled(graph, count))
        assert size.low <= len(graph) <= size.likely <= most * len(graph), "the later pages tell"


@pytest.mark.parametrize("make", [shop, tree])
@pytest.mark.parametrize("count", [60, 100])
def test_the_size_of_a_site_is_near(make: Callable[[], Graph], count: int) -> None:
    graph = make()
    size = total(crawled(graph, count))
    assert 0.85 * len(graph) <= size.likely <= 1.15 * len(graph), size
    assert size.low <= len(graph) <= size.high, size


def test_a_series_whose_end_is_out_of_sight_is_in_the_range() -> None:
    graph = series()
    size = total(crawled(graph, 50))
    assert size.low < len(graph) <= size.high
    assert size.likely > len(crawled(graph, 50).known)


def test_a_site_that_was_seen_as_a_whole_is_as_large_as_it_is() -> None:
    graph = shop(10)
    assert total(crawled(graph, 1000)) == Range(*[float(len(graph))] * 3)


def test_what_a_sitemap_lists_is_known() -> None:
    graph = shop()
    sample = crawled(graph, 30)
    known = {url: pattern for url, (pattern, _links) in graph.items()}
    assert total(SiteSample(sample.pages, known, frozenset(known))).likely == len(graph)


def test_pages_that_fail_are_a_share_of_their_stratum() -> None:
    pages = [SampledPage(f"/x/{n}", "/x/{n}", error="http_404" if n % 2 else None) for n in range(10)]
    (stratum,) = site_size(SiteSample(pages, {f"/x/{n}": "/x/{n}" for n in range(40)}))
    assert (stratum.known, stratum.failed_share) == (40, 0.5)


def test_nothing_grows_without_end() -> None:
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
def test_urls_are_told_apart_by_shape_and_template(
    patterns: list[str], templates: list[tuple[str, str]], stratum_of: str, expected: str
) -> None:
    assert strata_of(patterns, templates)[stratum_of] == expected
