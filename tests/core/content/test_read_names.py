"""What a page calls itself, read with less work, is what the whole reading finds."""

from __future__ import annotations

import pytest

from llmcrawler.core.content import read_names, read_page
from llmcrawler.core.understanding.templates import words_of
from tests.servers.mock_pages import shop_pages
from tests.servers.record_sites import SITES, make_site

PAGES = [
    *((name, page.html) for name in SITES for page in make_site(name).pages[:6]),
    *(("mock", text) for _path, text in list(shop_pages())[:10]),
    ("no title", "<meta property=og:type content=product><meta property=product:price:amount content=5><h1>Tea</h1>"),
    ("scripts", '<script type="application/ld+json">{"articleBody": "' + "Green tea. " * 200 + '"}</script>'),
    ("nothing", ""),
    ("broken", "<title>a<meta name=x content=<<p><h1>b"),
]


@pytest.mark.parametrize(
    "html", [html for _, html in PAGES], ids=[f"{at}-{name}" for at, (name, _) in enumerate(PAGES)]
)
def test_names_are_those_of_the_whole_reading(html):
    whole, names = read_page(html, "https://a.test/x/1"), read_names(html, "https://a.test/x/1")
    assert (names.title, names.lang, names.features) == (whole.title, whole.lang, whole.features)
    assert names.structured_data == whole.structured_data
    assert words_of(names) == words_of(whole)
    assert names.metadata.get("og:title") == whole.metadata.get("og:title")
