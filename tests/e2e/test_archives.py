"""Crawls that write a web archive, and what others read there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llmcrawler.core.storage.archives.archived_pages import RecordPlace, pages_of_warc
from tests.e2e import warm
from tests.e2e.browsing import needs_browser
from tests.e2e.crawling import TIMEOUT_SECONDS, Outcome, command, environment, explore, scrapy
from tests.e2e.killing import JobCrawl, lines_of
from tests.e2e.warc_reading import of_type, records_of
from tests.servers.app_site import AppSite
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite


def with_archive(tmp_path: Path) -> dict[str, str]:
    return {"FEEDS": json.dumps({str(tmp_path / "site.warc.gz"): {"format": "warc"}})}


def test_an_archive_has_what_was_asked_and_answered_for_each_line(tmp_path):
    with MockSite().in_thread() as site:
        starts = [site.url(path) for path in ("/", "/odd/gzip", "/odd/moved", "/nowhere/")]
        parts = command({"url": ",".join(starts), "depth": 0}, {}, tmp_path / "pages.jsonl")[3:]
        done = warm.run([*parts, "-O", str(tmp_path / "site.warc.gz")], environment(), TIMEOUT_SECONDS)
        assert done.returncode == 0, done.stderr
    lines = {line["url"]: line for line in lines_of(tmp_path / "pages.jsonl") if line["kind"] == "page"}
    records = records_of(tmp_path / "site.warc.gz")
    answers, requests = of_type(records, "response"), of_type(records, "request")
    assert [one.type for one in records[:1]] == ["warcinfo"]
    tried = [line["final_url"] or url for url, line in lines.items() if line["status"]]
    redirected = [url for url, line in lines.items() if line["final_url"]]
    assert Counter(one.url for one in answers) == Counter([*tried, *redirected])
    assert [one.url for one in requests] == [one.url for one in answers]
    assert [one.fields["WARC-Concurrent-To"] for one in requests] == [one.fields["WARC-Record-ID"] for one in answers]
    by_url = {one.url: one for one in answers}
    zipped = by_url[site.url("/odd/gzip")]
    assert b"<title>" in zipped.body
    assert zipped.headers["X-Crawler-Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in zipped.headers
    assert zipped.headers["Content-Length"] == str(len(zipped.body))
    assert by_url[site.url("/odd/moved")].status.startswith("30")
    assert by_url[site.url("/nowhere/")].status == "404 Not Found"
    assert b"Host: " + site.url("").split("/")[2].encode() not in b"".join(one.body for one in answers)
    assert all(one.headers["Host"] == site.url("").split("/")[2] for one in requests)


@pytest.mark.skipif(find_spec("wacz") is None, reason="py-wacz is not installed")
def test_a_wacz_of_an_archive_and_its_feed_is_valid_and_lists_all_pages(tmp_path):
    with MockSite().in_thread() as site:
        done = explore(tmp_path, site.url(), with_archive(tmp_path), max_pages=5)
    assert done.exit_status == 0, done.log
    for arguments in (
        ("create", "-p", "feed.jsonl", "-o", "site.wacz", "site.warc.gz"),
        ("validate", "-f", "site.wacz"),
    ):
        code = "import sys; from wacz.main import main; sys.exit(main())"
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Validation succeeded" in ran.stdout
    with zipfile.ZipFile(tmp_path / "site.wacz") as packed:
        listed = [json.loads(line) for line in packed.read("pages/pages.jsonl").splitlines()]
    assert {one["url"] for one in listed if "url" in one} == {page["url"] for page in done.pages}


@pytest.mark.nightly
def test_an_archive_of_a_crawl_that_was_killed_and_went_on_has_each_page_once(tmp_path):
    pages, feed = ManyPages(40, latency_seconds=0.05), tmp_path / "site.warc.gz"
    with MockSite(pages.routes()).in_thread() as site:
        crawl = JobCrawl(tmp_path, site.url(), feeds=["-O", str(feed)], pages=pages)
        for count in (10, 25):
            assert crawl.run_until(pages, count) == -signal.SIGKILL
        assert crawl.run() == 0, crawl.logs[-1]
        once = Counter(site.url(path) for path in pages.paths)
        first = records_of(feed)
        assert Counter(one.url for one in of_type(first, "response")) == once
        assert Counter(one.url for one in of_type(first, "request")) == once
        requested = len(pages.requested)
        assert crawl.run() == 0, crawl.logs[-1]  # it is finished, and writes its feeds anew
        assert len(pages.requested) == requested
    again = records_of(feed)
    assert {(one.type, one.url, one.status, one.body) for one in again if one.url} == {
        (one.type, one.url, one.status, one.body) for one in first if one.url
    }
    assert len(again) == len(first)


def test_a_page_that_has_not_changed_is_a_revisit_and_one_that_wants_no_index_is_not_there(tmp_path):
    text = "<p>It stands here as it stood here yesterday, and the day before, with the same words in it."

    async def page(request: web.Request) -> web.Response:
        if request.headers.get("If-None-Match") == '"v1"':
            return web.Response(status=304, headers={"ETag": '"v1"'})
        return web.Response(text=f"<title>Same</title>{text}", content_type="text/html", headers={"ETag": '"v1"'})

    async def hidden(_: web.Request) -> web.Response:
        return web.Response(text=text, content_type="text/html", headers={"X-Robots-Tag": "noindex"})

    with MockSite({"/same": page, "/hidden": hidden}).in_thread() as site:
        url = f"{site.url('/same')},{site.url('/hidden')}"
        crawls = [
            JobCrawl(tmp_path, url, arguments={"depth": 0} | given, feeds=["-O", str(tmp_path / f"{name}.warc")])
            for name, given in (("first", {}), ("second", {"refresh": 1}))
        ]
        for crawl in crawls:
            assert crawl.run() == 0, crawl.logs[-1]
    first, second = (records_of(tmp_path / f"{name}.warc") for name in ("first", "second"))
    (answer,) = of_type(first, "response")
    assert (answer.url, answer.headers["Etag"]) == (site.url("/same"), '"v1"')
    assert [one.type for one in second] == ["warcinfo", "revisit", "request"]
    assert second[1].fields["WARC-Profile"].endswith("/revisit/server-not-modified")
    assert second[1].fields["WARC-Refers-To-Date"] == answer.fields["WARC-Date"]
    assert second[1].status == "304 Not Modified"
    assert second[2].headers["If-None-Match"] == '"v1"'


def extract(tmp_path: Path, *feeds: object, settings: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
    given = [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
    more = [part for feed in feeds for part in ("-O", feed)]
    done = scrapy("crawl", "extract", *given, "-O", tmp_path / "again.jsonl", *more, settings=settings)
    feed = tmp_path / "again.jsonl"
    return Outcome(done.returncode, done.stderr, lines_of(feed) if feed.exists() else [])


SAME = ("status", "title", "lang", "record", "robots")


def facts(page: dict[str, Any]) -> list[Any]:
    """What a page says in every order of the crawl: records learned from a handful of pages depend on it."""
    by_order = "/list/" in page["url"] or "/product/" in page["url"]
    return [page[name] for name in SAME if name != "record" or not by_order]


def test_an_archive_is_extracted_without_the_network(tmp_path):
    settings = {"RIGHTS_POLICY": "record", "ROBOTSTXT_OBEY": True, **with_archive(tmp_path)}
    with MockSite().in_thread() as site:
        done = explore(tmp_path, site.url(), settings, max_pages=20)
    # The server is gone: whatever asked it would leave an error.
    archive = tmp_path / "site.warc.gz"
    again = extract(tmp_path, tmp_path / "copy.warc.gz", warc=archive, settings={"RIGHTS_POLICY": "record"})
    assert again.exit_status == 0, again.log
    fetched = {page["final_url"] or page["url"]: page for page in done.pages if page["content_hash"]}
    extracted = {page["url"]: page for page in again.pages if page["error"] is None}
    assert len(extracted) == len(again.pages) == 20
    assert extracted.keys() == fetched.keys()
    dates = {one.url: one.fields["WARC-Date"] for one in of_type(records_of(archive), "response")}
    for url, page in extracted.items():
        assert facts(page) == facts(fetched[url])
        assert page["fetched_at"].replace("+00:00", "Z") == dates[url]
    assert "downloader/request_count" not in again.log
    # Its own archive has the same answers, of the same time; who has asked is not known any more.
    copied, first = records_of(tmp_path / "copy.warc.gz"), records_of(archive)
    assert {(one.url, one.fields["WARC-Date"], one.body) for one in of_type(copied, "response")} == {
        (one.url, one.fields["WARC-Date"], one.body) for one in of_type(first, "response") if one.url in extracted
    }
    assert not of_type(copied, "request")


@pytest.mark.nightly
def test_an_extraction_that_was_killed_goes_on_with_its_archive(tmp_path):
    pages = ManyPages(40)
    with MockSite(pages.routes()).in_thread() as site:
        done = explore(tmp_path, site.url(), with_archive(tmp_path))
    assert done.exit_status == 0, done.log
    archived = Counter(one.url for one in of_type(records_of(tmp_path / "site.warc.gz"), "response"))
    job = {"JOBDIR": tmp_path / "job", "RECORD_PAGE_TYPES": "none"}  # no page waits for others
    index = [
        {"url": url, "mime": "text/html", "status": "200", "filename": "site.warc.gz", "offset": at, "length": length}
        for url, (_file, at, length) in places_of(tmp_path / "site.warc.gz")
    ]
    (tmp_path / "index.cdxj").write_text("".join(f"k 2026 {json.dumps(row)}\n" for row in index))
    first = extract(tmp_path, warc=tmp_path / "index.cdxj", settings=job | {"CLOSESPIDER_ITEMCOUNT": 5})
    assert 0 < len(first.pages) < len(archived)
    second = extract(tmp_path, warc=tmp_path / "index.cdxj", settings=job)
    assert second.exit_status == 0, second.log
    assert Counter(page["url"] for page in second.pages) == archived


def places_of(file: Path) -> list[tuple[str, RecordPlace]]:
    return [(one.url, one.place) for one in pages_of_warc(str(file)) if one.place]


@needs_browser
def test_a_rendered_page_is_a_resource_that_says_so(tmp_path):
    with AppSite().in_thread() as site:
        done = explore(tmp_path, site.url("/app/item/7"), with_archive(tmp_path), depth=0)
    assert done.exit_status == 0, done.log
    records = records_of(tmp_path / "site.warc.gz")
    assert [one.type for one in records] == ["warcinfo", "resource", "metadata"]
    page, told = records[1:]
    assert b"$7.00" in page.body
    assert page.fields["Content-Type"] == "text/html; charset=utf-8"
    assert b"rendered-by: a browser" in told.body
    assert told.fields["WARC-Concurrent-To"] == page.fields["WARC-Record-ID"]
