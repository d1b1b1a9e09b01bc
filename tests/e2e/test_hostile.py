"""`scrapy crawl` of a site that says anything: every url has a line, and nothing of it is an error of ours."""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from llmcrawler.commands import report, status
from tests.adapters.commands.run_here import printed
from tests.core.content.test_hostile_pages import COSTLY, LINEAR
from tests.e2e.crawling import Outcome, crawl, explore
from tests.servers.hostile_responses import SECRET, TARGETS, HostileSite

QUICK = {"RETRY_TIMES": 1, "DOWNLOAD_TIMEOUT": 20, "THROTTLE_BREAKER_FAILURES": 100_000}
# A few of those that are made to cost much to read (tests/core/content/test_hostile_pages.py has all), more of them by
# night; and honest ones.
HOSTILE = [COSTLY["nested lists"], COSTLY["options"], LINEAR["a long base"]]
TOO_MUCH = "/costly/much"  # for the memory that the process which reads it may have
WORDS = "<p>The kettle boils a litre of water in two minutes, and is silent while it does so.</p>" * 8
COSTLY_PAGES = {f"/costly/{number}": html for number, html in enumerate(HOSTILE)}
COSTLY_PAGES[TOO_MUCH] = "<table><tr>" + "<td>x" * 1_190_000
HONEST_PAGES = {f"/honest/{n}": f"<title>Kettle {n}</title><h1>Kettle {n}</h1>{WORDS}" for n in range(20)}


class Crawled(NamedTuple):
    site: HostileSite
    outcome: Outcome
    folder: Path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    settings = {"METRICS_TEXTFILE": folder / "metrics.prom", "JOBDIR": folder / "job", "LOG_LEVEL": "DEBUG"}
    with HostileSite(COSTLY_PAGES | HONEST_PAGES).in_thread() as site:
        # Not the thousands of links that a costly page has: how many come before others is a matter of the moment.
        listed = {"max_pages": 1000, "deny": "/costly/[0-9a-f]{2,}"}
        yield Crawled(site, explore(folder, site.url(), QUICK | settings, **listed), folder)


def test_every_hostile_url_has_one_line_and_none_is_an_error_of_ours(hostile):
    lines = Counter(page["url"] for page in hostile.outcome.pages)
    assert [url for url, count in lines.items() if count > 1] == []
    paths = (*hostile.site.paths, *COSTLY_PAGES, *HONEST_PAGES)
    assert [path for path in paths if hostile.site.url(path) not in lines] == []
    assert hostile.outcome.error_kinds()["internal"] == 0
    assert "internal_errors" not in hostile.outcome.log
    assert "Traceback" not in hostile.outcome.log
    assert hostile.outcome.exit_status == 0, hostile.outcome.log[-3000:]


def test_what_is_too_much_says_so_and_the_others_are_read(hostile):
    pages = {page["url"]: page for page in hostile.outcome.pages}
    assert re.search(r"memory|over \d", pages[hostile.site.url(TOO_MUCH)]["error"]["message"])
    assert all(pages[hostile.site.url(path)]["title"] == f"Kettle {n}" for n, path in enumerate(HONEST_PAGES))
    read = [path for path in COSTLY_PAGES if pages[hostile.site.url(path)]["error"] is None]
    assert len(read) > len(HOSTILE) / 2


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/odd/header-long", "protocol"),
        ("/odd/headers-many", "protocol"),
        ("/odd/headers-endless", "protocol"),
        ("/odd/headers-folded", "protocol"),
        ("/odd/early-hints", "protocol"),
        ("/odd/location-long", "protocol"),
        ("/odd/status-0", "protocol"),
        ("/odd/status-99999", "protocol"),
        ("/odd/length-minus", "protocol"),
        ("/odd/length-two", "protocol"),
        ("/odd/no-http", "protocol"),
        ("/odd/transfer-unknown", "protocol"),
        ("/odd/nothing", "connection"),
        ("/odd/chunks-garbage", "truncated"),
        ("/odd/encodings", "body"),
        ("/moved/port-99999", "http_302"),
        ("/moved/bracket", "http_302"),
        ("/moved/javascript", "http_302"),
        ("/moved/login-port", "http_302"),
    ],
)
def test_what_is_no_http_says_so_and_is_not_asked_for_again(hostile, path, kind):
    error = hostile.outcome.page(path)["error"]
    assert error["kind"] == kind
    assert len(error["message"]) <= 300
    assert kind != "protocol" or hostile.site.hits[path] == 1


@pytest.mark.parametrize("name", [name for name in TARGETS if name.startswith("login")])
def test_where_a_redirect_has_a_password_the_page_comes_without_it(hostile, name):
    """Redirects, refreshes and links lead there; whichever came first has its line."""
    target = hostile.site.url(f"/{name}-target")
    lines = [page for page in hostile.outcome.pages if target in (page["url"], page["final_url"])]
    error = hostile.outcome.page(f"/moved/{name}")["error"]
    if name in ("login", "login-only", "login-odd", "login-slashes", "login-path"):
        assert sum(page["error"] is None for page in lines) == 1
        assert error is None or error["kind"] == "redirect_seen"
    else:
        assert not lines
        assert error["kind"] in ("redirect_offsite", "http_302")


def test_the_passwords_of_urls_stand_nowhere(hostile):
    made = hostile.folder / "report.html"
    shown = [
        hostile.outcome.log,
        (hostile.folder / "feed.jsonl").read_text(),
        (hostile.folder / "metrics.prom").read_text(),
        printed(status.Command(), hostile.folder / "job", "--json"),
        printed(status.Command(), hostile.folder / "job"),
        printed(report.Command(), hostile.folder / "job", "-o", made),
        made.read_text(),
    ]
    assert [text[max(0, text.find(SECRET) - 100) :][:300] for text in shown if SECRET in text] == []


@pytest.mark.nightly
def test_a_map_and_a_list_of_hostile_urls_have_a_line_for_each(hostile, tmp_path):
    site = hostile.site
    mapped = crawl("map", tmp_path, {"url": site.url(), "deny": "/(costly|honest)/"}, QUICK)
    assert mapped.exit_status == 0, mapped.log[-3000:]
    assert {site.url(path) for path in site.paths} <= {item["url"] for item in mapped.items}
    (tmp_path / "urls.txt").write_text("\n".join(map(site.url, site.paths)))
    listed = crawl("extract", tmp_path, {"urls": tmp_path / "urls.txt"}, QUICK)
    assert listed.exit_status == 0, listed.log[-3000:]
    assert Counter(page["url"] for page in listed.pages) == Counter(map(site.url, site.paths))
    for outcome in (mapped, listed):
        assert SECRET not in outcome.log + str(outcome.items)
        assert "Traceback" not in outcome.log
