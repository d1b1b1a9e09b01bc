"""Pages that are made to cost much. Each is read in the reader's process within its limits or refused; the minutes that
some of them once took in a regular expression are far above those limits.
"""

from collections.abc import Iterator

import pytest

from llmcrawler.core.content import PageReader
from llmcrawler.core.content.markup import is_cheap
from llmcrawler.core.content.page import read_page
from llmcrawler.core.content.render_features import read_render_features
from llmcrawler.errors import ContentError
from tests.nightly import rest_by_night

pytestmark = pytest.mark.server


URL = "http://site.example/a/"
CHARS = 140_000


def filled(unit: str, before: str = "") -> str:
    return before + unit * ((CHARS - len(before)) // len(unit))


def numbered(start: str, count: int, end: str = ">") -> str:
    return "".join(f"{start}{number:x}{end}" for number in range(count))


COSTLY = {
    "paragraphs": filled("<p>x"),
    "list items": filled("<li>x", "<ul>"),
    "cells": filled("<td>x", "<table><tr>"),
    "options": filled("<option>x", "<select>"),
    "paragraphs without an end": "<p>x" * 1990,
    "hidden parts without an end": "<div style='display:none'>?" * 1200,
    "nested lists": filled("<ul><li>x"),
    "nested tables": filled("<table><tr><td><p>"),
    "quotes": filled("<blockquote>x"),
    "links": numbered("<a href=/", 8000, ">x</a>"),
    "formatting left open": "<p>" + numbered("<b id=", 1000) + "<p>x" * 900,
    "formatting in other cases": "<p>" + numbered("<Strong id=", 1000) + "<p>x" * 900,
    "formatting that seems closed": "<p>" + numbered('<b title="></b>" id=', 900) + "<p>x" * 900,
    "misnested formatting": numbered("<b id=", 500) + "<div>" * 500 + "</b>" * 900,
    "attributes": f"<div {numbered('a', 20_000, ' ')}>",
    "attributes behind a quoted bracket": "<div " + numbered('a=">" b', 12_000, "=1 ") + ">",
    "attributes beside a quoted bracket": "<div "
    + "".join(f"{numbered(f'n{n}x', 150, ' ')} q{n}='>'" for n in range(120)),
}

# What was quadratic or worse, in time or in what came of it.
LINEAR = {
    "white space before an end of emphasis": "<p><b>x</b>" + " " * CHARS + "x",
    "no-break spaces behind emphasis": "<p><b>x</b>" + "\xa0" * CHARS + "x",
    "marks of our own in the text": "<p><a href=x>y</a>" + "\x03\x04" * (CHARS // 2),
    "such marks as references": "<p><a href=x>y</a>" + "&#3;&#4;" * (CHARS // 8),
    "comments' ends in JSON-LD": "<script type=application/ld+json>x" + ("-->" + " " * 7000) * 20 + "x</script>",
    "comments' starts in JSON-LD": "<script type=application/ld+json>" + "/* " * (CHARS // 3) + "</script>",
    "escapes in JSON-LD": '<script type=application/ld+json>"' + '\\"' * (CHARS // 2) + "</script>",
    "a long list in JSON-LD": "<script type=application/ld+json>[" + "{}," * (CHARS // 3) + "{}]</script>",
    "digits that are no price": ("<p>€ " + "1." * 990) * 70,
    "a reference for each character": "<p>" + "&" * CHARS,
    "empty strings in JSON-LD": "<script type=application/ld+json>" + '"' * CHARS + "</script>",
    "streamed parts without an end": '<template id="B:0"></template>' + filled('<div hidden id="S:0">'),
    "comments behind a streamed part": '<template id="B:0"></template><div hidden id="S:0"></div>' + filled("<!--$?"),
    "ends of streamed parts": '<template id="B:0"></template>' + filled('<div hidden id="S:0"></div'),
    "a long base": f"<base href='/{'a/' * 20_000}'>" + numbered("<a href=", 1900),
    "a long name": "<x-" + "y" * 60_000 + ">" + "<p><a href=z>x</a>" * 600,
}


@pytest.fixture(scope="module")
def reader() -> Iterator[PageReader]:
    """Its processes go from one test to the next; each page is of a site of its own, whose time is its own, too."""
    reader = PageReader(150_000)
    yield reader
    reader.close()


@pytest.mark.parametrize("shape", COSTLY)
def test_a_page_that_may_cost_much_is_told_from_its_text(shape):
    assert not is_cheap(COSTLY[shape])


@pytest.mark.parametrize(
    "html",
    [
        "<main>" + "<p>Some words, <b>bold</b> and <i class='x'>slanted</i>.</p>" * 200,
        "<div>"
        + "".join(f'<i class="fa fa-{number}"></i> <code class="c">f({number})</code>' for number in range(400)),
        "<strong><a href=/x>so</a></strong> " * 300,
        f"<div data-state='{'x' * 5000}'>" + "<a title='more > less' href=/b>b</a> " * 300,
        "<script>if (a<b && c>d) document.write('<b id=1>')</script>" * 50,
    ],
)
def test_an_ordinary_page_is_cheap(html):
    assert is_cheap(html)


@pytest.mark.parametrize("shape", rest_by_night(LINEAR, 3))
async def test_a_page_is_read_in_linear_time(reader, shape):
    """In another process, which a time limit ends; a hundred times what it takes."""
    html = LINEAR[shape]
    content = await reader.processes.run(read_page, html, URL, seconds=5, share=shape)
    assert sum(len(block.markdown) for block in content.blocks) <= 2 * len(html)
    assert sum(len(link.url) + len(link.place) for link in content.links) <= 2 * len(html)
    await reader.processes.run(read_render_features, "<script></script>" + html, seconds=5, share=shape)


@pytest.mark.parametrize("shape", rest_by_night(COSTLY, 3))
async def test_a_costly_page_is_read_within_limits_or_refused(reader, shape):
    try:
        content = await reader.read(COSTLY[shape], f"http://{shape.replace(' ', '-')}.example/a/")
    except ContentError:
        return
    assert len(content.links) <= 10_000
    assert len(content.features) <= 2_100


@pytest.mark.nightly
async def test_a_page_too_large_for_the_memory_is_refused_and_the_next_is_read(reader):
    with pytest.raises(ContentError, match="memory"):
        await reader.read("<table><tr>" + "<td>x" * 1_190_000, "http://large.example/")
    assert (await reader.read("<p>word " * 3000, "http://large.example/")).blocks


@pytest.mark.nightly
async def test_a_long_honest_page_is_read_whole_up_to_two_million_characters_of_text(reader):
    def page(paragraphs: int) -> str:
        texts = (f"<p>This is paragraph number {number}, and says so in ten words.</p>" for number in range(paragraphs))
        return f"<main>{''.join(texts)}</main>"

    content = await reader.read(page(35_000), URL)
    assert len(content.blocks) == 35_000
    assert content.blocks[-1].markdown.startswith("This is paragraph number 34999")
    longer = await reader.read(page(50_000), URL)
    assert sum(len(block.markdown) for block in longer.blocks) == 2_000_000


def test_data_nested_deeper_than_python_walks_is_cut():
    html = '<script type=application/ld+json>{"@type": "A", "b": ' + "[" * 900 + "]" * 900 + "}</script>"
    (found,) = read_page(html, URL).structured_data
    assert str(found).count("[") < 30


def test_one_text_in_many_nested_properties_is_not_repeated_without_end():
    html = "<div itemscope>" + "<div itemprop=a>" * 1500 + "x" * 100_000
    assert len(str(read_page(html, URL).structured_data)) < 600_000


def test_a_tag_of_very_many_attributes_is_not_cheap() -> None:
    tags = ["<p " + "".join(f"{name}{number}=1 " for number in range(200)) + ">" for name in ("a", "data-")]
    assert [is_cheap(tag) for tag in tags] == [False, False]
    assert is_cheap("<p a=1 b=2>" * 100)
