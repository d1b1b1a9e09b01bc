"""Pages of sites that are read here and in worker processes: what comes is the same, and when workers start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from llmcrawler.core.content import Boilerplate, PageReader, read_page
from llmcrawler.core.frontier.list_patterns import block_facts
from llmcrawler.core.understanding.site_reader import FetchedPage, PageReading, PageVersion, SiteReader, WorkerRules
from llmcrawler.items import MainText, PageContent
from tests.servers import mock_pages

pytestmark = pytest.mark.server

PAGES = [(f"http://shop.test{path}", html) for path, html in mock_pages.shop_pages()][:40]
ROBOTS = '<meta name="robots" content="nofollow"></head>'


@dataclass
class ReadOnly:
    """A site that has only what is known of its content."""

    name: str = "shop.test"
    boilerplate: Boilerplate = field(default_factory=Boilerplate)


@pytest.fixture
def here() -> Iterator[SiteReader]:
    reader = SiteReader(PageReader(150_000), with_sketches=True)
    yield reader
    reader.close()


@pytest.fixture
async def there() -> AsyncIterator[SiteReader]:
    reader = SiteReader(PageReader(150_000), WorkerRules(1, at_once=True), with_sketches=True)
    yield reader
    reader.close()


async def read(reader: SiteReader, site: ReadOnly, url: str, html: str, **wishes: bool) -> tuple[PageReading, MainText]:
    wanted = {"with_features": True, "with_main": True, **wishes}
    reading = await reader.read(site, FetchedPage(html, url, url), **wanted)
    return reading, reading.main or await reader.main_text(site, reading.content, url)


async def no_record(_version: PageVersion) -> None:
    """Return the record of a page without one."""


def plain(content: PageContent) -> PageContent:
    return replace(content, blocks=(), kinds=dict(content.kinds))


@pytest.mark.slow
async def test_pages_and_their_texts_are_the_same_wherever_they_are_read(here: SiteReader, there: SiteReader) -> None:
    one, other = ReadOnly(), ReadOnly()
    for number, (url, html) in enumerate(PAGES):
        page = html.replace("</head>", ROBOTS) if number % 5 == 0 else html
        expected, expected_main = await read(here, one, url, page)
        found, found_main = await read(there, other, url, page, with_main=number % 7 > 0)
        assert found_main == expected_main
        assert found.facts == block_facts(url, expected.content.blocks)
        assert found.features == expected.features
        if number % 3 == 0:  # of the others nobody asks for the kinds, and later ones come without
            assert plain(found.content) == plain(expected.content)
    assert there.pages_of_workers == len(PAGES)
    assert here.pages_of_workers == 0


@pytest.mark.slow
async def test_no_page_is_read_before_one_that_waits_for_a_second_worker() -> None:
    reader = SiteReader(PageReader(150_000), WorkerRules(2, at_once=True), with_sketches=True)
    site, done = ReadOnly(), list[str]()

    async def read_next(url: str, html: str) -> None:
        await read(reader, site, url, html)
        done.append(url)

    first = asyncio.create_task(read_next(*PAGES[0]))
    while not reader._workers.started:  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)
    await asyncio.gather(first, read_next(*PAGES[1]))
    assert done == [PAGES[0][0], PAGES[1][0]]
    reader.close()


@pytest.mark.slow
async def test_versions_of_a_page_are_compared_where_the_site_is_known(here: SiteReader, there: SiteReader) -> None:
    one, other = ReadOnly(), ReadOnly()
    url, html = PAGES[10]
    for reader, site in ((here, one), (there, other)):
        for earlier in PAGES[:8]:
            await read(reader, site, *earlier)
        before, after = [
            (await reader.read(site, FetchedPage(text, url, url), with_features=False, with_main=False)).content
            for text in (
                html,
                html.replace("</main>", "<p>It is now sold for half of its price, on each day.</p></main>"),
            )
        ]
        old, new = PageVersion(html, before), PageVersion(html, after)
        assert not await reader.says_the_same(site, old, new, no_record)
        assert await reader.says_the_same(site, old, old, no_record)
        await reader.observe(site, before)
        assert await reader.main_hash(site, before) != await reader.main_hash(site, after)
    assert await here.main_hash(one, before) == await there.main_hash(other, before)


def stopped_clock(reader: SiteReader, seconds: list[float]) -> Any:
    """Let the pages of a reader take no time but what is put into `seconds`, by turns."""
    spent = iter(seconds)

    async def apply(*_: object, **__: object) -> PageContent:
        reader.pages.seconds_here += next(spent)
        return PageContent()

    reader.pages.apply = apply  # type: ignore[assignment, method-assign]
    return reader


@pytest.mark.parametrize(
    ("gap", "each", "starts"),
    [(0.2, 0.008, False), (0.01, 0.008, True), (0.05, 0.002, False), (1.0, 0.03, False)],
)
async def test_workers_start_when_reading_takes_much_of_the_time(gap, each, starts) -> None:
    clock = SimpleNamespace(now=0.0)
    reader = SiteReader(PageReader(150_000), WorkerRules(1), clock=lambda: clock.now)
    stopped_clock(reader, [each] * 200)
    started = asyncio.Event()

    async def start(_count: int) -> None:
        started.set()

    reader._workers.start = start  # type: ignore[assignment, method-assign]
    for _ in range(100):
        clock.now += gap
        await reader.read(ReadOnly(), FetchedPage("<p>x", "http://shop.test/", ""), with_features=False, with_main=True)
    await asyncio.sleep(0)
    assert started.is_set() is starts
    reader.close()


PAGE = """<html lang=en><head><title>{title}</title></head><body data-token="{token}">
<nav><a href="/">Home</a><a href="/shop">Shop</a>{menu}</nav>
<main><h1>A lamp of brass</h1><p>{text} It stands on three feet and gives a warm light in the evening, and in the
morning it is off.</p><p>It was made in a workshop in the mountains, where they have made lamps for two hundred years.
</p><span class=price>{price}</span></main>
<footer>Shop and Sons, since 1820. <input type=hidden value="{token}"></footer></body></html>"""
USUAL = {"title": "Lamp", "token": "t1", "menu": "", "text": "This lamp is heavy.", "price": "12.00"}


def version(**changes: str) -> PageVersion:
    html = PAGE.format(**{**USUAL, **changes})
    return PageVersion(html, read_page(html, "http://a.test/lamp"))


async def price_of(one: PageVersion) -> dict[str, str]:
    return {"price": one.html.split("class=price>")[1].split("<")[0]}


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"token": "t2"}, True),
        ({"menu": '<a href="/sale">Autumn sale</a>'}, True),
        ({"text": "This lamp is light."}, False),
        ({"title": "Lamp, sold out"}, False),
        ({"price": "13.00"}, False),
    ],
)
async def test_a_change_is_what_a_reader_of_the_page_would_tell(changes, is_same):
    site = Mock(boilerplate=Boilerplate())
    for n in range(6):  # the menu is that of the whole site, by now
        others = {**changes, "text": f"Another thing, number {n}.", "title": f"Thing {n}"}
        site.boilerplate.observe(version(**others).content.blocks)
    reader = SiteReader(PageReader(150_000))
    assert await reader.says_the_same(site, version(), version(**changes), price_of) is is_same
