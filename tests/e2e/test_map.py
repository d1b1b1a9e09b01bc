"""`scrapy crawl map` over real sites, as a user runs it."""

from __future__ import annotations

import csv
import signal
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.crawling import Outcome, crawl
from tests.e2e.killing import JobCrawl, lines_of
from tests.servers.listed_site import listed_routes, odd_lists, urlset
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import UNLINKED, MockSite

LISTED = 600


def map_site(tmp_path, url: str, settings: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
    return crawl("map", tmp_path, {"url": url, **arguments}, settings or {})


def paths_of(items: list[dict[str, Any]]) -> Counter[str]:
    return Counter(urlsplit(item["url"]).path for item in items)


def test_a_site_with_sitemaps_is_listed_whole_for_some_requests(tmp_path):
    with MockSite(listed_routes(3000, files=4)).in_thread() as site:
        outcome = map_site(tmp_path, site.url())
        assert site.measures.hits.total() < 60
    assert outcome.exit_status == 0, outcome.log
    assert paths_of(outcome.items) == Counter(["/", *(f"/page/{number}" for number in range(3000))])
    assert {item["kind"] for item in outcome.items} == {"url"}
    listed = [item for item in outcome.items if item["source"] == "sitemap"]
    assert len(listed) > 2900
    assert {item["lastmod"] for item in listed} == {"2026-11-01"}
    assert "Ended: the site's own lists are complete" in outcome.log
    assert "3,001 urls (" in outcome.log


def test_max_urls_and_match_say_what_is_listed_and_not_where_links_are_followed(tmp_path):
    with MockSite().in_thread() as site:
        products = map_site(tmp_path, site.url(), match="/product/")
        some = map_site(tmp_path, site.url(), match="/product/", max_urls=7)
    assert len(products.items) == 30
    assert set(paths_of(products.items).values()) == {1}
    assert all("/product/" in item["url"] for item in products.items)
    assert len(some.items) == 7
    assert "Ended: max_urls=7 reached" in some.log


def test_a_line_tells_where_a_url_was_found_and_what_came_when_it_was_fetched(tmp_path):
    async def llms(_: web.Request) -> web.Response:
        return web.Response(text="[Hidden](/hidden/) and [elsewhere](http://elsewhere.example/)")

    async def moved(_: web.Request) -> web.Response:
        raise web.HTTPFound("/about/?moved=1")

    home = '<title>Home</title><a href="/gone/">x</a><a href="/moved/">y</a><a href="/product/1/">z</a>'
    with MockSite({"/": home, "/llms.txt": llms, "/moved/": moved}).in_thread() as site:
        outcome = map_site(tmp_path, site.url())
        home_url = site.url()
    lines = {item["url"].removeprefix(home_url): item for item in outcome.items}
    assert lines[""] == {**lines[""], "source": "start", "depth": 0, "title": "Home", "status": 200, "error": None}
    assert lines["gone/"] == {**lines["gone/"], "source": "link", "depth": 1, "referer": home_url, "status": 404}
    assert lines["gone/"]["error"]["kind"] == "http_404"
    assert (lines["moved/"]["status"], lines["moved/"]["final_url"]) == (302, f"{home_url}about/?moved=1")
    assert lines["about/?moved=1"]["status"] == 200
    assert lines["hidden/"]["source"] == "llms.txt"
    for path in UNLINKED:
        assert lines[path.lstrip("/")]["source"] == "sitemap"
        assert lines[path.lstrip("/")]["referer"] == f"{home_url}sitemap.xml"
    assert not any("elsewhere" in item["url"] for item in outcome.items)


def test_what_a_map_found_before_it_was_resumed_is_no_page_with_an_error(tmp_path):
    links = "".join(f'<a href="/gone/{number}">{number}</a>' for number in range(9))
    with MockSite({"/": f"<html><body><main>{links}</main></body></html>"}).in_thread() as site:
        settings = {"JOBDIR": tmp_path / "job", "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
        assert "closespider_pagecount" in map_site(tmp_path, site.url(), {**settings, "CLOSESPIDER_PAGECOUNT": 5}).log
        outcome = map_site(tmp_path, site.url(), settings)
    assert outcome.exit_status == 0, outcome.log
    assert sum(bool(item["error"]) for item in outcome.items) == 9


def test_broken_lists_cost_no_other_url_and_leave_a_line_in_the_log(tmp_path):
    with MockSite(odd_lists()).in_thread() as site:
        outcome = map_site(tmp_path, site.url())
    assert outcome.exit_status == 0, outcome.log
    found = paths_of(outcome.items)
    assert set(found.values()) == {1}
    names = ("linked", "malformed", "latin", "caf%C3%A9", "no-encoding", "typed", "cut", "lines", "rss")
    assert {f"/{name}/" for name in names} <= set(found)
    assert sum(path.startswith("/cut/") for path in found) > 300
    news = next(item for item in outcome.items if item["url"].endswith("/rss/"))
    assert (news["source"], news["title"], news["lastmod"]) == ("feed", "News", "2024-05-06T10:00:00+00:00")
    for name, words in (
        ("malformed.xml", "malformed"),
        ("cut.xml.gz", "cut short"),
        ("page.xml", "web page"),
        ("image.xml", "no urls"),
        ("empty.xml", "no urls"),
        ("bomb.xml.gz", "larger than 50 MB"),
        ("packed-bomb.xml", "larger than 50 MB"),
        ("huge.xml", "larger than 50 MB"),
        ("missing.xml", "none (404)"),
        ("reset.xml", "closed"),
        ("itself.xml", "more lists"),
        ("deeper/6.xml", "nested too deep"),
        ("elsewhere.xml", "0 of the map"),
    ):
        assert any(name in line and words in line for line in outcome.log.splitlines()), (name, outcome.log)


@pytest.fixture
def pages():
    return ManyPages(60, latency_seconds=0.05)


@pytest.fixture
def listing_site(pages):
    async def sitemap(request: web.Request) -> web.Response:
        body = urlset(str(request.url.origin()), [f"/listed/{number}" for number in range(LISTED)])
        return web.Response(body=body, content_type="application/xml")

    with MockSite({**pages.routes(), "/sitemap.xml": sitemap}).in_thread() as site:
        yield site


@pytest.mark.nightly
def test_kill_9_again_and_again_leaves_each_url_once(tmp_path, pages, listing_site):
    feed, table = tmp_path / "map.jsonl", tmp_path / "map.csv"
    job = JobCrawl(tmp_path, listing_site.url(), {}, {"max_pages": 70}, ["-O", feed, "-O", table], spider="map")
    for count in (5, 30, 60):
        assert job.run_until(pages, count) in (-signal.SIGKILL, 0)
    assert job.run() == 0, job.logs[-1]
    whole = Counter([*pages.paths, *(f"/listed/{number}" for number in range(LISTED))])
    assert paths_of(lines_of(feed)) == whole
    requests = listing_site.measures.hits.total()
    assert job.run() == 0
    assert listing_site.measures.hits.total() == requests
    assert paths_of(lines_of(feed)) == whole
    with table.open(newline="", encoding="utf-8") as file:
        assert paths_of(list(csv.DictReader(file))) == whole


@pytest.mark.nightly
def test_a_map_that_is_cut_short_lists_what_it_knows(tmp_path, pages, listing_site):
    feed = tmp_path / "map.jsonl"
    job = JobCrawl(tmp_path, listing_site.url(), {"JOBDIR": ""}, feeds=["-O", feed], spider="map")
    assert job.run_until(pages, 20, signal.SIGTERM) == ExitStatus.INTERRUPTED
    found = paths_of(lines_of(feed))
    assert set(found.values()) == {1}
    assert sum(path.startswith("/listed/") for path in found) == LISTED
    assert "Traceback" not in job.logs[-1]
