"""What counts as a change of a page, and what does not."""

from functools import partial
from unittest.mock import Mock

import pytest

from llmcrawler.core.content import Boilerplate, PageReader, read_page
from llmcrawler.core.understanding.site_reader import SiteReader
from llmcrawler.crawl.changes import PageVersion, says_the_same

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
    texts_differ = partial(SiteReader(PageReader(150_000)).texts_differ, site)
    assert await says_the_same(version(), version(**changes), texts_differ, price_of) is is_same
