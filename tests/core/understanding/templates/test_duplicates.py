"""Which pages of a site repeat another one, and which only look like it."""

from __future__ import annotations

from typing import Any

import pytest

from llmcrawler.core.content import main_blocks, read_page
from llmcrawler.core.understanding.templates.duplicates import DuplicateFinder, DuplicateIndex, PageSketch, sketch_page

HOME = "https://shop.test"
TOLD = (
    "This lamp shines over the table as good lamps do, through long winter evenings and short summer nights, and its "
    "shade of paper is made by hand in a small workshop near the harbour, where visitors are welcome on all days."
)
MENU = '<nav><a href="/">Home</a> <a href="/lamps">Lamps</a></nav>'


def html_of(body: str = f"<p>{TOLD}</p>", *, title: str = "Lamp", head: str = "", lang: str = "en") -> str:
    head = f"<title>{title}</title>{head}"
    return f'<html lang="{lang}"><head>{head}</head><body>{MENU}<main><h1>{title}</h1>{body}</main></body></html>'


def sketched(html: str, path: str) -> tuple[PageSketch, str | None]:
    content = read_page(html, HOME + path)
    return sketch_page(content, main_blocks(content.blocks), HOME + path), content.metadata.get("canonical")


def repeats(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Tell whether of two pages, each its path and HTML, the second repeats the first, in either order."""
    answers = []
    for pages in ((first, second), (second, first)):
        index = DuplicateIndex()
        found = []
        for path, html in pages:
            sketch, canonical = sketched(html, path)
            found.append(index.first_of(HOME + path, sketch, address=HOME + path, canonical=canonical))
        assert found[0] is None
        assert found[1] in (None, HOME + pages[0][0])
        answers.append(found[1] is not None)
    assert answers[0] == answers[1]
    return answers[0]


def link(path: str) -> str:
    return f'<link rel="canonical" href="{path}">'


ROW = '<li><a href="/lamp/{number}">Lamp no. {number} of copper and glass, for the garden</a></li>'
ROWS = [ROW.format(number=number) for number in range(8)]
SAME = {
    "unknown parameter": ("/a?ref=mail", html_of()),
    "other path": ("/b", html_of()),
    "other scheme": ("/a/", html_of().replace("Lamps", "All lamps")),
    "menu": ("/b", html_of().replace(MENU, '<nav><a href="/x">Elsewhere</a></nav>')),
    "printed": ("/a?print=1", html_of(f"<p>{TOLD}</p><p>Printed on 3 May 2026, 10:31.</p>").replace(MENU, "")),
    "print title": ("/print/a", html_of(title="Lamp").replace("<title>Lamp<", "<title>Lamp (printable version)<")),
    "amp": ("/a/amp", html_of(f"<div><p>{TOLD}</p></div>", head=link("/a")).replace(MENU, "")),
    "canonical and way": ("/gifts/a", html_of(head=link("/a")).replace("<h1>", '<p><a href="/g">Gifts</a></p><h1>')),
}


LONG = (
    f"{TOLD} {TOLD.replace('lamp', 'lantern').replace('paper', 'glass')} Whoever buys one of them gets a letter with "
    "it, which says who has made it and of what, how it is cleaned, where the wire comes from, and what to do when it "
    "flickers in a storm. It can be sent back within a month, as long as the box is whole and the bulb has not been "
    "changed for a stronger one by somebody who likes to read in bed."
)
FACTS = "<p>Ask for lamp 16.</p><p>In Bern</p>"
NEAR = {
    "word": LONG.replace("in a small workshop", "in a little workshop", 1),
    "inserted": LONG.replace("a letter with it", "a short letter with it", 1),
}
APART = {
    "number": LONG + FACTS.replace("16", "17"),
    "short line": LONG + FACTS.replace("Bern", "Rome"),
    "sentence": f"{LONG} Nothing of it can be had on Sundays, when the harbour sleeps and the doors are shut.{FACTS}",
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_a_long_text_with_another_word_in_it_is_a_duplicate(text: str) -> None:
    assert repeats(("/a", html_of(f"<p>{LONG}{FACTS}")), ("/b", html_of(f"<p>{text}{FACTS}")))


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_a_long_text_with_another_fact_in_it_is_none(text: str) -> None:
    assert not repeats(("/a", html_of(f"<p>{LONG}{FACTS}")), ("/b", html_of(f"<p>{text}")))


@pytest.mark.parametrize("name", SAME)
def test_a_page_that_shows_the_same_is_a_duplicate(name: str) -> None:
    assert repeats(("/a", html_of()), SAME[name])


def test_a_list_in_another_order_is_a_duplicate() -> None:
    lists = [html_of(f"<p>{TOLD}</p><ul>{''.join(rows)}</ul>") for rows in (ROWS, ROWS[::-1])]
    assert repeats(("/list", lists[0]), ("/list?sort=name", lists[1]))


DATA = '<script type="application/ld+json">{"@type": "Product", "sku": "%s"}</script>'
IMAGE = '<p><img src="/%s.jpg" alt="The lamp as it stands"></p><p>It is shown here.</p>'
OTHERS = {
    "a number": ("<p>It takes 40 W.</p>", "<p>It takes 60 W.</p>"),
    "numbers in other places": ("<p>Width 40 cm</p><p>Depth 50 cm</p>", "<p>Width 50 cm</p><p>Depth 40 cm</p>"),
    "a heading": ("<h2>Red</h2><p>It is here.</p>", "<h2>Blue</h2><p>It is here.</p>"),
    "an image": (IMAGE % "red", IMAGE % "blue"),
    "a link": ('<p>See <a href="/x">the manual</a>.</p>', '<p>See <a href="/y">the manual</a>.</p>'),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("head", ["", link("/b")])
def test_a_page_that_differs_in_what_counts_is_none(name: str, head: str) -> None:
    """Whatever its canonical link says: a common blunder is that all pages of a template name one of them."""
    pages = [html_of(f"<p>{TOLD}</p>{part}", head=head) for part in OTHERS[name]]
    assert not repeats(("/a", pages[0]), ("/b", pages[1]))


ALIKE = {
    "article number": (("/a", html_of(head=DATA % "L-1")), ("/b", html_of(head=DATA % "L-2"))),
    "title": (("/a", html_of(title="Red lamp")), ("/b", html_of(title="Blue lamp"))),
    "language": (("/en/a", html_of()), ("/de/a", html_of(lang="de"))),
    "tiny": (("/a", html_of("<p>Ask us.</p>")), ("/b", html_of("<p>Ask us.</p>"))),
    "shell": (("/a", "<div id=app></div>"), ("/b", "<div id=app></div>")),
    "front page": (("/", html_of(title="Home")), ("/b", html_of(head=link("/")))),
    "list": (("/lamps", html_of(f"<ul>{''.join(ROWS)}</ul>")), ("/b", html_of(head=link("/lamps")))),
    "page 2": (
        ("/lamps", html_of(f"<p>{TOLD}</p><ul>{''.join(ROWS[:4])}</ul>")),
        ("/lamps?page=2", html_of(f"<p>{TOLD}</p><ul>{''.join(ROWS[4:])}</ul>", head=link("/lamps"))),
    ),
    "name": (("/a", html_of(f"<p>{TOLD}</p><p>By Ann</p>")), ("/b", html_of(f"<p>{TOLD}</p><p>By Eve</p>"))),
    "own name": (
        ("/guitar", html_of(title="Guitar")),
        ("/guitar/amp", html_of(title="The loud one", head=link("/guitar/amp/"))),
    ),
    "named amp": (
        ("/guitar", html_of()),
        ("/guitar/amp", html_of("<p>It is loud, and nobody should stand near it.</p>")),
    ),
}


@pytest.mark.parametrize(("first", "second"), ALIKE.values(), ids=ALIKE)
def test_pages_that_look_alike_are_none(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert not repeats(first, second)


def test_the_first_page_is_named_through_chains_and_circles_of_canonical_links() -> None:
    index = DuplicateIndex()
    found = {}
    for path, named in (("/a", "/b"), ("/b", "/c"), ("/c", "/a"), ("/d", "/c")):
        sketch, canonical = sketched(html_of(head=link(named)), path)
        found[path] = index.first_of(HOME + path, sketch, address=HOME + path, canonical=canonical)
    assert found == {"/a": None, "/b": f"{HOME}/a", "/c": f"{HOME}/a", "/d": f"{HOME}/a"}


def test_a_canonical_link_to_another_site_tells_nothing() -> None:
    index = DuplicateIndex()
    short = html_of("<p>Ask us.</p>", head=link("https://other.test/a"))
    for path in ("/a", "/b"):
        sketch, canonical = sketched(short, path)
        assert index.first_of(HOME + path, sketch, address=HOME + path, canonical=canonical) is None


def sketch(number: int) -> PageSketch:
    return PageSketch(number, 1, 2, 0, 0, 3)


def test_an_index_goes_on_from_what_was_kept_of_it() -> None:
    index = DuplicateIndex()
    for number in range(1, 50):
        assert index.first_of(f"{HOME}/{number}", sketch(number), address=f"{HOME}/{number}") is None
    assert index.first_of(f"{HOME}/ä", sketch(7), address=f"{HOME}/again") == f"{HOME}/7"
    restored = DuplicateIndex.from_json(index.to_json())
    assert restored.to_json() == index.to_json()
    assert restored.first_of(f"{HOME}/x", sketch(30), address=f"{HOME}/x") == f"{HOME}/30"
    assert restored.first_of(f"{HOME}/30", sketch(30), address=f"{HOME}/30") is None  # the page itself once more
    assert restored.sketch_of(f"{HOME}/30", f"{HOME}/30") == sketch(30)
    with pytest.raises(ValueError, match="cut off"):
        DuplicateIndex.from_json(index.to_json()[:40])


@pytest.mark.parametrize("value", [None, [], {}, {"since": 1}, {"since": 1, "pages": []}, {"since": 1, "pages": "é"}])
def test_what_is_no_list_of_pages_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        DuplicateFinder().restore("site.test", value, HOME)


def test_a_page_that_is_nearly_one_before_is_found_in_an_index_that_was_kept() -> None:
    index = DuplicateIndex()
    for number, form in enumerate((4, 5, 0), 1):
        row = PageSketch(number, 1, 2, form, 0, 0)
        assert index.first_of(f"{HOME}/{number}", row, address=f"{HOME}/{number}") is None
    again = DuplicateIndex.from_json(index.to_json())
    for form, words, first in ((5, 0b111, f"{HOME}/2"), (5, 0b1111, None), (6, 0, None), (0, 0, None)):
        row = PageSketch(0, 1, 2, form, 0, words)
        assert again.first_of(f"{HOME}/b", row, address=f"{HOME}/b{words}{form}") == first


def test_memory_is_bounded_and_pages_that_are_met_stay() -> None:
    index = DuplicateIndex(max_pages=10)
    for number in range(1, 100):
        index.first_of(f"{HOME}/{number}", sketch(number), address=f"{HOME}/{number}")
        assert index.first_of(f"{HOME}/again", sketch(1), address=f"{HOME}/again") == f"{HOME}/1"
    assert len(index._by_address) == 10
    assert len(index._by_content) <= 10
    assert index.first_of(f"{HOME}/x", sketch(50), address=f"{HOME}/x") is None


@pytest.mark.parametrize("part", ["[", "](", "![a](", "1,", "printed ", "x", "[a](b", "![a](x) ", "("])
def test_hostile_texts_are_sketched_in_time_linear_in_them(part: str) -> None:
    content = read_page(html_of(f"<p>{part * 60_000}</p>"), HOME)
    assert sketch_page(content, content.blocks, HOME)
