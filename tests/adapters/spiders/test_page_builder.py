"""What has become of pages since the last crawl, by the answers of their servers."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from llmcrawler.core.frontier.protocol import Lease, UrlTask
from llmcrawler.core.politeness.robots import PageRobots
from llmcrawler.core.storage import StoredBody, StoredPage
from llmcrawler.core.storage.archives.warc_writer import Exchange
from llmcrawler.engine.request_context import update_context
from llmcrawler.items import Page
from llmcrawler.spiders.explore import PageBuilder, add_facts
from tests.adapters.stubs import stub

URL = "https://a.example/"
PAST, COMING = "unavailable_after: 25 jun 2010 15:00:00 gmt", "unavailable_after: 25 jun 2100 15:00:00 gmt"


def not_modified(said: list[str] | None, header: str, **options: Any) -> Page:
    """The page of a 304 with an X-Robots-Tag, which the last crawl has kept with what it had `said`."""
    line = {**Page(URL, title="Tea", text="Tea is green.", page_type="article").as_line(), "robots": said}
    body = StoredBody(URL, 200, (), b"", "2026-01-01T00:00:00+00:00", 0.1)
    response = Response(URL, 304, headers={"X-Robots-Tag": header} if header else {}, request=Request(URL))
    assert response.request is not None
    update_context(response.request, stored=StoredPage(body, line, {}))
    crawl = stub(
        understanding=stub(reader=stub(most_workers=0), sites=stub(duplicates=None), records=None),
        page_robots=PageRobots("llmcrawler"),
        options=stub(refresh=True),
        rights=stub(policy=stub(refusing_purpose=None)),
        **dict.fromkeys(("frontier", "ledger", "rendering")),  # none of these is asked
    )
    page = PageBuilder(crawl, **options).not_modified(Lease(UrlTask(URL, "a.example")), response)
    assert page is not None
    return page


@pytest.mark.parametrize(
    ("said", "header", "change", "robots", "has_text"),
    [
        (None, "", "unchanged", None, True),
        (["noarchive"], "", "unchanged", ["noarchive"], True),
        (["noarchive"], "noarchive", "unchanged", ["noarchive"], True),
        (None, "noarchive", "changed", ["noarchive"], True),
        (None, "otherbot: noindex", "unchanged", None, True),
        (None, "noindex", "changed", ["noindex"], False),
        ([COMING], "", "unchanged", [COMING], True),
        ([PAST], "", "changed", ["noindex", PAST], False),  # it was to come when the page was fetched
        (["noindex", PAST], "", "unchanged", ["noindex", PAST], False),
    ],
)
def test_a_page_that_has_not_changed_says_what_it_said_and_what_its_header_says_now(
    said: list[str] | None, header: str, change: str, robots: list[str] | None, has_text: bool
) -> None:
    page = not_modified(said, header)
    assert (page.change, page.robots) == (change, robots)
    assert (page.text, page.title, page.page_type) == (("Tea is green.", "Tea", "article") if has_text else (None,) * 3)
    assert page.is_withheld is not has_text


def test_what_a_user_has_listed_keeps_its_text() -> None:
    page = not_modified(None, "noindex", withholds=False)
    assert (page.change, page.robots, page.text) == ("changed", ["noindex"], "Tea is green.")


def test_a_page_was_fetched_when_its_record_in_an_archive_says() -> None:
    response = Response(URL, request=Request(URL))
    assert response.request is not None
    answer = Exchange(URL, "GET", (), b"", 200, (), "2020-02-20T20:20:20+00:00")
    update_context(response.request, exchanges=(answer,))
    page = Page(URL)
    add_facts(page, response)
    assert page.fetched_at == answer.date
