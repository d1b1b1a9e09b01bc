"""`scrapy crawl map -a cdx=...`: the urls of a site from an index of web archives, nothing of which is fetched."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.crawling import Outcome, crawl
from tests.nightly import rest_by_night
from tests.servers.cdx_server import CdxServer, Row, capture

SITE = "https://shop.example"


def listed(tmp_path, cdx: object, settings: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
    return crawl("map", tmp_path, {"url": SITE, "cdx": cdx, **arguments}, settings or {})


def pages(count: int) -> list[Row]:
    return [capture(f"{SITE}/page/{number}") for number in range(count)]


def of_site(count: int) -> list[Row]:
    """Captures of pages, and of what is to be left out."""
    return [
        *pages(count),
        capture(f"{SITE}/page/0", timestamp="20270102030405"),
        capture("https://other.example/page/0"),
        capture("https://deep.shop.example/"),
        capture(f"{SITE}/logo.png", mime="image/png"),
        capture(f"{SITE}/gone", status="404"),
        capture(f"{SITE}/moved", status="301"),
        capture(f"{SITE}/again", status="-", mime="warc/revisit"),
        capture(f"{SITE}/unknown", status="-", mime="unk"),
    ]


def urls_of(outcome: Outcome) -> list[str]:
    assert {one["source"] for one in outcome.items} <= {"cdx"}
    return sorted(one["url"] for one in outcome.items)


EXPECTED = sorted([*(f"{SITE}/page/{number}" for number in range(25)), f"{SITE}/unknown"])


@pytest.mark.parametrize("kind", rest_by_night(["pywb", "wayback", "plain"]))
def test_the_urls_of_a_site_come_from_a_server_page_by_page(tmp_path, kind):
    with CdxServer(of_site(25)).in_thread() as server:
        server.refusals = [503, 503]
        outcome = listed(tmp_path, server.url(f"/{kind}/cdx"))
        assert server.measures.max_in_flight == 1
    assert outcome.exit_status == 0, outcome.log
    assert urls_of(outcome) == EXPECTED
    assert {query["url"] for query in server.queries} == {"shop.example"}
    assert {query["matchType"] for query in server.queries} == {"host"}
    asked = [query.get("page") for query in server.queries]
    assert asked == [None] * 3 + ([] if kind == "plain" else ["0", "1", "2", "3"])
    line = next(one for one in outcome.items if one["url"] == EXPECTED[0])
    assert line["referer"].startswith(server.url(f"/{kind}/cdx?url=shop.example&"))
    assert (line["status"], line["depth"], line["error"]) == (None, 1, None)


def test_rules_of_the_map_hold_and_end_the_questions(tmp_path):
    with CdxServer(of_site(25)).in_thread() as server:
        some = listed(tmp_path, server.url("/pywb/cdx"), max_urls=7)
        assert [query.get("page") for query in server.queries] == [None, "0"]
        outcome = listed(tmp_path, server.url("/pywb/cdx"), subdomains=1, match="/unknown$|deep", deny="/page/")
    assert len(some.items) == 7
    assert urls_of(outcome) == ["https://deep.shop.example/", f"{SITE}/unknown"]
    assert server.queries[-1]["matchType"] == "domain"


def test_a_site_without_captures_has_no_urls(tmp_path):
    with CdxServer([]).in_thread() as server:
        outcome = listed(tmp_path, server.url("/pywb/cdx"))
    assert (outcome.exit_status, outcome.items) == (0, [])
    assert "it has nothing of shop.example" in outcome.log


def test_the_urls_of_a_site_come_from_files(tmp_path):
    lines = [f"com,shop,example)/ 2026 {json.dumps(row)}" for row in of_site(25)]
    (tmp_path / "one.cdxj").write_text("\n".join([*lines[:9], "x y {", "[" * 5_000 + "1"]))
    rows = [f"k 2026 {row['url']} {row['mime']} {row['status']} X - - 9 0 a.warc" for row in of_site(25)[9:]]
    (tmp_path / "two.cdx.gz").write_bytes(gzip.compress("\n".join([" CDX N b a m s k r M S V g", *rows]).encode()))
    outcome = listed(tmp_path, f"{tmp_path}/one.cdxj,{tmp_path}/two.cdx.gz")
    assert outcome.exit_status == 0, outcome.log
    assert urls_of(outcome) == EXPECTED
    assert "one.cdxj: 11 entries, 9 new URLs; 2 lines cannot be read, such as line 10: it is not JSON" in outcome.log, (
        outcome.log
    )
    (tmp_path / "cut.cdx.gz").write_bytes((tmp_path / "two.cdx.gz").read_bytes()[:-20])
    cut = listed(tmp_path, tmp_path / "cut.cdx.gz")
    assert (cut.exit_status, "cut.cdx.gz: it cannot be read any further" in cut.log) == (ExitStatus.ERROR, True)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("changes", "message", "count"),
    [
        ({"told_pages": 10**9, "answer": b""}, "3 pages in a row are empty: no more of its 1,000,000,000 are read", 0),
        ({"told_pages": 10**9, "answer": b'{"url": "https://shop.example/1"}'}, "1,000,000,000 are the same", 1),
        ({"told_pages": 2, "answer": b"<html>Welcome"}, "it is not an index: line 1: it is neither CDXJ", 0),
        ({"told_pages": -1, "answer": b'{"pages": -1}'}, "it is not an index: line 1", 0),
        ({"told_pages": 1, "answer": b"x" * (3 * 2**20)}, "it is not an index", 0),
        ({"told_pages": 1, "answer": b'{"url": 7, "status": [], "mime": {}}\n[[[1'}, "1 line cannot be read", 0),
        ({"robots": "User-agent: *\nDisallow: /"}, "-s ROBOTSTXT_OBEY=False asks it all the same", 0),
        ({"refusals": [403]}, "it answers 403 (Please reduce your request rate.); give the URL of a CDX server", 0),
        ({"refusals": [503] * 9}, "it is busy (503); run the same command later, with a JOBDIR, to continue", 0),
    ],
)
def test_a_server_that_lies_or_refuses_costs_little_and_is_told(tmp_path, changes, message, count):
    with CdxServer(pages(5)).in_thread() as server:
        for name, value in changes.items():
            setattr(server, name, value)
        settings = {"THROTTLE_PUT_BACKS": 1, "THROTTLE_BREAKER_REST_SECONDS": 0.1, "ROBOTSTXT_OBEY": True}
        outcome = listed(tmp_path, server.url("/pywb/cdx"), settings)
    assert message in outcome.log, outcome.log
    assert "Traceback" not in outcome.log
    assert len(outcome.items) == count
    is_told_only = "empty" in message or "line cannot" in message
    assert outcome.exit_status == (ExitStatus.FINISHED if is_told_only else ExitStatus.ERROR), outcome.log


@pytest.mark.nightly
def test_what_a_server_could_not_tell_is_asked_for_when_the_job_goes_on(tmp_path):
    settings = {"JOBDIR": tmp_path / "job", "THROTTLE_PUT_BACKS": 0}
    with CdxServer(pages(30)).in_thread() as server:
        server.last_refusals = [503]
        first = listed(tmp_path, server.url("/pywb/cdx"), settings)
        assert first.exit_status == ExitStatus.ERROR, first.log
        assert "it is busy (503)" in first.log
        second = listed(tmp_path, server.url("/pywb/cdx"), settings)
    assert second.exit_status == 0, second.log
    assert sorted(one["url"] for one in second.items) == sorted(row["url"] for row in pages(30))
