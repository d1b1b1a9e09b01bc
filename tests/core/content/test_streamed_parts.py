import re
import sys

import pytest
from selectolax.lexbor import LexborHTMLParser

from llmcrawler.core.content import main_text, read_page, with_streamed_parts
from llmcrawler.core.understanding.extraction.blocks import PageBlocks

URL = "http://site.example/"
RUNTIME = "$RS=function(a,b){a=document.getElementById(a)};$RC=function(a,b){b=document.getElementById(b)};"


def boundary(name: str, meanwhile: str = "<p>Loading</p>") -> str:
    return f'<!--$?--><template id="{name}"></template>{meanwhile}<!--/$-->'


def part(name: str, content: str) -> str:
    return f'<div hidden id="{name}">{content}</div>'


def call(*arguments: str, function: str = "$RC") -> str:
    given = ",".join(f'"{one}"' for one in arguments)
    return f"<script>{RUNTIME}{function}({given})</script>"


def shown(html: str) -> str:
    """Return what is in a page's body, without scripts, comments and hidden tables."""
    tree = LexborHTMLParser(html)
    tree.strip_tags(["script"])
    for table in tree.css("table[hidden]"):
        table.decompose()
    assert tree.body is not None
    return re.sub(r"<!--.*?-->", "", tree.body.html or "")


HEAD, FOOT = "<body><h1>Tea</h1>", "<footer>About us</footer>"
BEHIND = {
    "a boundary": (boundary("B:0"), part("S:0", "<p>Green</p>") + call("B:0", "S:0"), "<p>Green</p>"),
    "other numbers": (boundary("B:0"), part("S:7", "<p>Green</p>") + call("B:0", "S:7"), "<p>Green</p>"),
    "a prefix of the app's own": (boundary("x-B:0"), part("x-S:0", "Green") + call("x-B:0", "x-S:0"), "Green"),
    "styles that come with it": (
        boundary("B:0"),
        part("S:0", "Green") + '<script>$RR("B:0","S:0",[["/a.css","next"]])</script>',
        "Green",
    ),
    "a boundary in what is streamed": (
        boundary("B:0"),
        part("S:1", "Black")
        + part("S:0", f"<div>Green{boundary('B:1')}</div>")
        + call("B:0", "S:0")
        + call("B:1", "S:1"),
        "<div>GreenBlack</div>",
    ),
    "a boundary that is done, in what is shown meanwhile": (
        boundary("B:0", "<p><!--$-->Wait<!--/$--></p>"),
        part("S:0", "Green") + call("B:0", "S:0"),
        "Green",
    ),
    "a part of a part": (
        boundary("B:0"),
        part("S:0", 'Green <b><template id="P:1"></template></b>')
        + part("S:1", "and black")
        + call("S:1", "P:1", function="$RS")
        + call("B:0", "S:0"),
        "Green <b>and black</b>",
    ),
    "rows of a table": (
        '<table><tbody><template id="P:1"></template></tbody></table>',
        '<table hidden><tbody id="S:1"><tr><td>Green</td></tr></tbody></table>' + call("S:1", "P:1", function="$RS"),
        "<table><tbody><tr><td>Green</td></tr></tbody></table>",
    ),
    "attributes as a browser writes them": (
        boundary("B:0"),
        '<div hidden="" id="S:0">Green</div>' + call("B:0", "S:0"),
        "Green",
    ),
    "no scripts": (boundary("B:0"), part("S:0", "Green"), "Green"),
    "neither scripts nor comments": ('<template id="B:0"></template>', part("S:0", "Green"), "Green"),
    "a tag in a script": (
        boundary("B:0"),
        part("S:0", "Green<script>'<div>'</script><style>/*<div>*/</style><!--<div>-->") + call("B:0", "S:0"),
        "Green<style>/*<div>*/</style>",
    ),
    "an element that nobody closes": (
        boundary("B:0"),
        part("S:0", "<div>Green") + call("B:0", "S:0"),
        "<div>Green</div>",
    ),
    "one that is open where the next part begins": (
        boundary("B:0") + boundary("B:1"),
        part("S:0", "<div>Green") + part("S:1", "Black") + call("B:0", "S:0") + call("B:1", "S:1"),
        "<div>Green</div>Black",
    ),
}


@pytest.mark.parametrize("case", BEHIND)
def test_a_streamed_part_stands_where_the_page_shows_it(case):
    inside, behind, wanted = BEHIND[case]
    found = shown(with_streamed_parts(f"{HEAD}<main>{inside}</main>{FOOT}{behind}</body>"))
    assert found == shown(f"{HEAD}<main>{wanted}</main>{FOOT}</body>")


LEFT = {
    "the part never came": boundary("B:0") + call("B:0", "S:0"),
    "the server gave up": boundary("B:0") + '<script>$RX("B:0","digest")</script>',
    "nobody calls for it": boundary("B:0") + part("S:1", "x") + call("B:1", "S:1"),
    "a page about React": '<p>A call is <code>$RC("B:0","S:0")</code>.</p><template id="B:0"></template>',
    "templates of the page's own": '<template id="row"></template><div hidden id="menu">x</div>',
}


@pytest.mark.parametrize("case", LEFT)
def test_a_page_without_such_parts_stays_as_it_is(case):
    assert with_streamed_parts(HEAD + LEFT[case] + FOOT) == HEAD + LEFT[case] + FOOT


HOSTILE = {
    "a part that waits for itself": part("S:0", '<template id="P:0"></template>') + call("S:0", "P:0", function="$RS"),
    "parts that wait for each other": part("S:0", '<template id="P:1"></template>')
    + part("S:1", '<template id="P:0"></template>')
    + call("S:0", "P:0", function="$RS")
    + call("S:1", "P:1", function="$RS"),
    "one part for many places": (boundary("B:0") + boundary("B:1")) * 50
    + part("S:0", "x" * 1000)
    + call("B:0", "S:0")
    + call("B:1", "S:0"),
    "one place for many parts": boundary("B:0")
    + part("S:0", "x")
    + part("S:1", "y")
    + part("S:0", "z")
    + call("B:0", "S:0")
    + call("B:0", "S:1"),
    "an end of a boundary outside": "<div>" + boundary("B:0", "</div><p>Kept</p>") + part("S:0", "x"),
    "ids of all kinds": boundary("[B:0]{4}(a+)+$") + part("../S:0%s", "x") + call("[B:0]{4}(a+)+$", "../S:0%s"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_hostile_page_names_is_taken_once_and_costs_no_other_text(case):
    found = with_streamed_parts(HEAD + HOSTILE[case] + FOOT)
    assert HEAD in found
    assert FOOT in found
    assert len(shown(found)) <= len(shown(HEAD + HOSTILE[case] + FOOT))
    assert "Kept" in found or "Kept" not in HOSTILE[case]


def nested(count: int) -> str:
    """Return a page whose parts stand in each other, so many deep."""
    parts = (
        part(f"S:{n:x}", f"<p>{n}</p>{boundary(f'B:{n + 1:x}')}") + call(f"B:{n:x}", f"S:{n:x}") for n in range(count)
    )
    return HEAD + boundary("B:0") + FOOT + "".join(parts)


def beside(count: int) -> str:
    places = "".join(boundary(f"B:{n:x}") for n in range(count))
    parts = (part(f"S:{n:x}", f"<p>{n}</p>") + call(f"B:{n:x}", f"S:{n:x}") for n in range(count))
    return HEAD + places + FOOT + "".join(parts)


def lines_run(html: str) -> int:
    """Count the lines of Python that are run to put a page together."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with_streamed_parts(html)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("shape", [nested, beside])
def test_the_work_grows_with_the_number_of_parts_and_no_faster(shape):
    html = shape(4_000)
    found = with_streamed_parts(html)
    assert [f"<p>{n}</p>" in found for n in (0, 1, 3_999)] == [True] * 3
    assert found.index("<p>3999</p>") < found.index(FOOT)
    assert lines_run(shape(2_000)) <= 2.1 * lines_run(shape(1_000))


def test_all_readers_see_the_part_in_its_place():
    words = "Green tea is made of leaves that were heated soon after they had been picked, so they stay green. "
    article = f"<article><p>{words * 3}</p><p><a href='/black'>{words}</a></p></article>"
    html = f"{HEAD}<main>{boundary('B:0')}</main>{FOOT}{part('S:0', article)}{call('B:0', 'S:0')}</body>"
    page = read_page(html, URL)
    assert words.strip() in main_text(page.blocks)
    assert "http://site.example/black" in [link.url for link in page.links]
    texts = [block.text for block in PageBlocks(html, URL).blocks]
    assert texts.index(words.strip()) < texts.index("About us")
    assert "Loading" not in texts
