"""Selectors are run as libxml2 runs them, and in time linear in the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cssselect import HTMLTranslator
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.candidates import candidates_for, candidates_within, started_with
from llmcrawler.core.understanding.extraction.queries import PageSource, texts_at
from llmcrawler.core.understanding.extraction.selectors import (
    Language,
    Selector,
    SelectorMemory,
    TextNode,
    evaluate,
    path_of,
)
from llmcrawler.core.understanding.extraction.tree import Work, parse_tree
from llmcrawler.errors import TooCostly
from tests.nightly import rest_by_night

TAGS = ["div", "p", "th", "td", "tr", "table", "ul", "li", "b", "a", "h2", "dt", "dd", "br", "i", "o:p"]
LONG = "Delivered within two or three\tdays"
TEXTS = ["UPC", " UPC ", LONG, f"{LONG} x", "UPC x", "Price:", "\u00a0", "  ", "a\t b", 'say "it\'s"', "é", "12", ""]
ATTRIBUTES = ["", ' class="c"', ' class=" c  d "', ' class="cc"', ' id="main"', ' itemprop="name"', ' href="/x"']
ATTRIBUTES += [' title="UPC"', ' aria-label="a  b"', ' data-label="Unit price"']

node = st.recursive(
    st.sampled_from([*TEXTS, "<!-- UPC -->", "<br>", "<script>UPC</script>"]),
    lambda inner: st.builds(
        lambda tag, attributes, children: f"<{tag}{attributes}>{''.join(children)}</{tag}>",
        st.sampled_from(TAGS),
        st.sampled_from(ATTRIBUTES),
        st.lists(inner, max_size=5),
    ),
    max_leaves=30,
)
pages = st.lists(node, max_size=6).map("".join)


def by_libxml2(query: str, language: Language, element: etree._Element) -> list[object]:
    xpath = HTMLTranslator().css_to_xpath(query) if language == "css" else query
    found = etree.XPath(xpath)(element)
    assert isinstance(found, list)
    return [one if isinstance(one, etree._Element) else text_node(one) for one in found]


def text_node(text: Any) -> TextNode:
    """What a "smart string" of lxml is the text of."""
    owner = text.getparent()
    return TextNode(owner.getparent(), owner) if text.is_tail else TextNode(owner, None)


def by_us(
    query: str, language: Language, element: etree._Element, memory: SelectorMemory | None = None
) -> list[object]:
    path = path_of(query, language)
    assert path is not None, query
    memory = memory or SelectorMemory(element.getroottree().getroot())
    return list(evaluate(path, Work(), memory, element))


def selectors_made_of(page: PageBlocks) -> list[Selector]:
    """All kinds of selectors that are made for what stands on a page."""
    spots = list(page.spots.values())
    made = [one.selector for spot in spots for one in candidates_for([spot])]
    for size in (2, 3):
        made += [one.selector for at in range(len(spots)) for one in candidates_for(spots[at : at + size])]
    elements = [spot.element for spot in spots if spot.element is not None]
    for element in elements[:10]:
        made += [one.selector for one in started_with(element, "Price:")]
    return [one for one in dict.fromkeys(made) if one.language != "json-ld"]


@settings(max_examples=40)
@given(pages)
def test_what_is_learned_gives_what_libxml2_gives(html):
    page = PageBlocks(html)
    for one in selectors_made_of(page)[:300]:
        assert by_us(one.query, one.language, page.root) == by_libxml2(one.query, one.language, page.root), one.query


@settings(max_examples=40)
@given(pages)
def test_what_is_learned_within_a_row_gives_what_libxml2_gives(html):
    page = PageBlocks(html)
    standing = [spot for spot in page.spots.values() if spot.element is not None]
    for spot in standing[:6]:
        for row in [spot.element, *spot.element.iterancestors()][:3]:
            for one in candidates_within(row, spot):
                query, language = one.selector.query, one.selector.language
                assert by_us(query, language, row, page.source.memory) == by_libxml2(query, language, row), query


@settings(max_examples=40)
@given(pages)
def test_what_a_page_remembers_of_selectors_changes_nothing(html):
    page = PageBlocks(html)
    for one in selectors_made_of(page)[:300]:
        plain = texts_at(PageSource(page.root), one)
        assert [texts_at(page.source, one) for _ in range(2)] == [plain, plain], one.query


@pytest.mark.parametrize("text", ["Size\x01", "\x1bSize", "Si\ufffeze"])
def test_a_text_with_a_character_that_xml_does_not_have_is_found(text):
    page = PageBlocks(f"<p>Size</p><p>{text}</p><p>Size and more</p>")
    assert texts_at(page.source, Selector(f'//text()[normalize-space()="{text}"]', "xpath")) == [text]


def test_a_step_is_taken_once_on_a_page_that_remembers():
    page = PageBlocks("<div id='main'>" + "<p class='a'>x</p><p class='b'>y</p>" * 500 + "</div>")
    for query in ("#main p.a", "#main p.b"):
        assert len(texts_at(page.source, Selector(query, "css"))) == 500
    done = page.source.work.done
    assert len(texts_at(page.source, Selector("#main p.b", "css"))) == 500
    assert page.source.work.done == done


def test_a_page_forgets_what_it_cannot_hold():
    page = PageBlocks("<div>" * 20 + "<p>x</p>" * 1_500 + "</div>" * 20)
    found = [texts_at(page.source, Selector(f"//p[normalize-space()]/text()[{n}]", "xpath")) for n in range(1, 41)]
    assert [len(texts) for texts in found] == [1_000, *[0] * 39]
    found = [texts_at(page.source, Selector(f"{'div ' * n}p", "css")) for n in range(1, 20)]
    assert {len(texts) for texts in found} == {1_000}


SHAPES = [
    "//th",
    "//*",
    "/html/body/div[2]/p",
    '//*[@id="main"]',
    '//div[contains(concat(" ", normalize-space(@class), " "), " c ")]',
    '//div[contains(concat(" ", normalize-space(@class), " "), " c ")]//div[@itemprop="name"]',
    "//div[@class]/p[1]/text()[normalize-space()]",
    "//div//text()",
    "//div//div//p",
    "//text()[normalize-space()]",
    '//text()[normalize-space()="UPC"]/following-sibling::p[1]',
    '//text()[starts-with(normalize-space(), "UPC")]',
    '//div[normalize-space()="UPC"]',
    '//div[normalize-space()=concat("say ", \'"\', "it\'s", \'"\')]',
    '//div[starts-with(normalize-space(), "UPC ")]',
    "//div[normalize-space()]/div[normalize-space()]",
    '//th[normalize-space()="UPC"]/following-sibling::td[1]',
    '//th[normalize-space()="UPC"]/following-sibling::td[2]/b[1]',
    "//div/following-sibling::div",
    "//div/following-sibling::*[2]",
    "//div/following-sibling::p[normalize-space()][1]",
    "//b/following-sibling::text()[normalize-space()][1]",
    "//b/following-sibling::text()[2]",
    "//text()/following-sibling::text()[1]",
    "//text()/following-sibling::text()",
    "//div/text()[normalize-space()][2]",
    "//div[@class]/div/text()[normalize-space()]",
    ".//div",
    ".",
    "./div[1]",
    "./text()[normalize-space()][1]",
    ".//div/p",
]
CSS = [
    "div",
    "#main",
    "div.c",
    ".c.d",
    "div.c p",
    "div div",
    "div > div > p",
    "div:not(.c)",
    "#main > div:nth-of-type(2) > p:nth-of-type(1)",
    'div[itemprop="name"] > a[href]',
    "* > a[href]",
    ".c > p.c:nth-of-type(2)",
]


@pytest.mark.slow
@settings(max_examples=60)
@given(pages)
def test_every_shape_gives_what_libxml2_gives(html):
    root = parse_tree(html)
    contexts = [root, *root.iter("div", "table")][:4]
    for element in contexts:
        for query in SHAPES:
            assert by_us(query, "xpath", element) == by_libxml2(query, "xpath", element), query
        for query in CSS:
            if path_of(query, "css") is not None:
                assert by_us(query, "css", element) == by_libxml2(query, "css", element), query


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("//p[2]", "xpath"),  # counts in each parent
        ("//p[count(preceding-sibling::p) > 3]", "xpath"),
        ("//p/../a", "xpath"),
        ("//p | //a", "xpath"),
        ("//p/@href", "xpath"),
        ("//p[1][@id]", "xpath"),
        ("//o:p", "xpath"),
        ('//p[normalize-space()=""]', "xpath"),  # asks for no text
        ('//p[starts-with(normalize-space(), "")]', "xpath"),
        ("p", "xpath"),
        ("div:not(.c)", "css"),
        ("li:nth-of-type(2)", "css"),
        ("p, a", "css"),
        ("p ~ a", "css"),
        ("o:p", "css"),
        ("", "css"),
        ("p >", "css"),
    ],
)
def test_what_is_not_known_here_is_no_selector(query, language):
    assert path_of(query, language) is None


HOSTILE: dict[str, Callable[[int], str]] = {
    "labels without values": lambda n: "<table><tr>" + "<th>UPC" * n,
    "labels in a paragraph": lambda n: "<p>" + "<b>UPC</b>" * n,
    "rows": lambda n: "<table>" + "<tr><th>UPC</th><td>x</td></tr>" * n,
    "texts between": lambda n: "<div>" + "UPC<br>" * n,
    "many divs": lambda n: '<div class="c">UPC</div>' * n,
    "deep": lambda n: ('<div class="c">' * 200 + "UPC" + "</div>" * 200) * (n // 200),
    "deep and empty": lambda n: "<div class=c>" * 400 + "<br>" * n + "</div>" * 400,
    "deep and blank": lambda n: "<div class=c>" * 400 + "<i> </i>" * n + "</div>" * 400,
    "deep and long": lambda n: "<div class=c>" * 400 + "UPC " * n + "</div>" * 400,
    "lists in lists": lambda n: "<ul><li class=c>" * 400 + "<li>UPC" * n,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_by_night(list(HOSTILE), 2))
def test_the_work_is_linear_in_the_page(name):
    trees = [parse_tree(HOSTILE[name](size)) for size in (2_000, 4_000, 8_000)]
    for query, language in [*((query, "xpath") for query in SHAPES), *((query, "css") for query in CSS)]:
        path = path_of(query, language)
        if path is None:
            continue
        done = []
        for tree in trees:
            work = Work()
            evaluate(path, work, SelectorMemory(tree), None)
            done.append(work.done)
        assert done[2] <= 2.2 * done[1] + 500 <= 2.2 * (2.2 * done[0] + 500) + 500, query
        assert done[2] <= 60 * 8_000, query


def test_work_that_is_not_worth_it_is_refused():
    path = path_of("//p//b", "css") or path_of("p b", "css")
    assert path is not None
    tree = parse_tree("<p>" + "<b>x</b>" * 1_000)
    with pytest.raises(TooCostly):
        evaluate(path, Work(100), SelectorMemory(tree), None)
