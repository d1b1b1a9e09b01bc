"""Pages that are made to cost much stand beside honest ones: each gets its line, and none is an error of our own."""

from __future__ import annotations

import re
from functools import partial

import pytest
from aiohttp import web

from tests.core.test_hostile_pages import COSTLY, LINEAR
from tests.e2e.crawling import Outcome, explore
from tests.servers.mock_site import MockSite

WORDS = "<p>The kettle boils a litre of water in two minutes, and is silent while it does so.</p>" * 8
# More than the process that reads it may have.
TOO_MUCH = "<table><tr>" + "<td>x" * 1_190_000
HOSTILE = [*COSTLY.values(), *LINEAR.values(), TOO_MUCH]


async def answer(_request: web.Request, *, text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


@pytest.fixture(scope="module")
def site():
    pages = {f"/hostile/{number}": partial(answer, text=html) for number, html in enumerate(HOSTILE)}
    pages |= {
        f"/honest/{number}": partial(answer, text=f"<title>Kettle {number}</title><h1>Kettle {number}</h1>{WORDS}")
        for number in range(20)
    }
    links = "".join(f"<a href={path}>{path}</a> " for path in pages)
    with MockSite(pages | {"/start/": f"<title>Start</title><h1>Start</h1>{WORDS}{links}"}).in_thread() as site:
        yield site


@pytest.fixture(scope="module")
def outcome(site, tmp_path_factory):
    settings = {"DOWNLOAD_DELAY": 0, "LOG_LEVEL": "INFO"}
    return explore(
        tmp_path_factory.mktemp("hostile"), site.url("/start/"), settings, allow="/(hostile|honest)/", depth=1
    )


def test_every_page_has_one_line(outcome: Outcome, site):
    urls = [page["url"] for page in outcome.pages]
    assert len(urls) == len(set(urls))
    assert {url for url in urls if "/hostile/" in url} == {site.url(f"/hostile/{n}") for n in range(len(HOSTILE))}
    assert {url for url in urls if "/honest/" in url} == {site.url(f"/honest/{n}") for n in range(20)}


def test_none_is_an_error_of_our_own(outcome: Outcome):
    assert "internal_errors" not in outcome.log
    assert "Traceback" not in outcome.log
    assert outcome.exit_status == 0


def test_what_is_too_much_says_so_and_the_others_are_read(outcome: Outcome, site):
    by_url = {page["url"]: page for page in outcome.pages}
    assert re.search(r"memory|over \d", by_url[site.url(f"/hostile/{len(HOSTILE) - 1}")]["error"]["message"])
    assert all(by_url[site.url(f"/honest/{n}")]["title"] == f"Kettle {n}" for n in range(20))
    read = [page for page in outcome.pages if "/hostile/" in page["url"] and page["error"] is None]
    assert len(read) > len(HOSTILE) / 2
