"""Blocks, candidate selectors, patterns, and what is learned of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from parsel import Selector as ParselSelector

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Pointed, repeated_texts, shown_blocks
from llmcrawler.core.understanding.extraction.candidates import candidates_for
from llmcrawler.core.understanding.extraction.extractor import FieldRule, TemplateExtractor, compile_extractor
from llmcrawler.core.understanding.extraction.queries import learn_pattern, nodes_at, take, texts_at
from llmcrawler.core.understanding.extraction.record_schema import Field, FieldType, RecordTypes
from llmcrawler.core.understanding.extraction.selector_induction import (
    AnnotatedPage,
    LearnedField,
    TrainingSet,
    _names_it,
    learn_field,
    learn_group,
)
from llmcrawler.core.understanding.extraction.selectors import Selector


def texts(html: str) -> list[str]:
    return [block.text for block in PageBlocks(html).blocks]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>One</p>", ["One"]),
        ("<p><b>ISBN:</b> 978</p>", ["ISBN: 978", "978", "ISBN:"]),
        ("<div><p>a1</p><p>b1</p></div>", ["a1", "b1"]),
        ("<div><span>£</span><span>12</span></div>", ["£12", "12"]),
        ("<address>Road 1,<br>Town</address>", ["Road 1, Town", "Road 1,", "Town"]),
        ('<p>t</p><img src="/a.png"><a href="/x">link</a>', ["t", "/a.png", "/x", "link"]),
        ('<time datetime="2026-01-02">today</time>', ["2026-01-02", "today"]),
        ("<script>var a</script><style>b</style><select><option>c</option></select><p>d</p>", ["d"]),
        ('<head><title>T</title><meta name="description" content="D"></head><p>e</p>', ["e", "T", "D"]),
        ('<script type="application/ld+json">{"@type":"Product","offers":{"price":3}}</script>', ["3"]),
        ("<p>  -- </p>", []),
        ("", []),
    ],
)
def test_what_is_a_block(html, expected):
    assert texts(html) == expected


def test_the_frame_comes_last_and_is_left_out_first():
    menu = "".join(f"<li><a>Menu {n}</a></li>" for n in range(9))
    pages = [PageBlocks(f"<ul>{menu}</ul><h1>Title {n}</h1><p>Own {n}</p>") for n in range(5)]
    repeated = repeated_texts([page.listed() for page in pages])
    assert {f"Menu {n}" for n in range(9)} <= repeated.keys()
    # The two blocks before a page's own stay with it: they may be its labels.
    shown = [block.text for block in shown_blocks(pages[0].listed(), repeated, 1000)]
    assert shown[:4] == ["Menu 7", "Menu 8", "Title 0", "Own 0"]
    assert {f"Menu {n}" for n in range(7)} <= set(shown[4:])
    few = [block.text for block in shown_blocks(pages[0].listed(), repeated, 45)]
    assert shown[:4] == few[:4]
    assert len(few) < len(shown)


def test_long_texts_lose_their_ends_when_the_budget_is_short():
    page = PageBlocks(f"<p>{'word ' * 2000}</p><p>{'more ' * 2000}</p>")
    shown = shown_blocks(page.listed(), {}, 300)
    assert sum(len(block.text) for block in shown) < 1300
    assert all(block.text.endswith("…") for block in shown)


PAGE = """<body><div id="main"><h1 class="title">Lamp</h1><table><tr><th>SKU</th><td>A-1</td></tr></table>
<p class="price now">12.99</p><p><b>ISBN:</b> 978</p><span itemprop="brand">Acme</span>
<h2 class="x">Say "it's"</h2><p class="odd">odd</p><ul class="tags"><li>red</li><li>blue</li></ul></div></body>"""


@pytest.mark.parametrize("text", ["Lamp", "A-1", "12.99", "978", "Acme", "odd"])
def test_every_candidate_gives_the_value_on_its_own_page(text):
    page = PageBlocks(PAGE)
    block = next(block for block in page.blocks if block.text == text)
    candidates = candidates_for([page.spots[block.n]])
    assert candidates
    exact = [one for one in candidates if text in texts_at(page.source, one.selector)]
    assert len(exact) == len(candidates) or text == "978"  # the paragraph around it is a candidate too
    assert len(exact) >= 3


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Lamp", "h1.title"),
        ("A-1", '//th[normalize-space()="SKU"]/following-sibling::td[1]'),
        ("978", '//b[normalize-space()="ISBN:"]/following-sibling::text()[normalize-space()][1]'),
        ("Acme", 'span[itemprop="brand"]'),
        ("odd", '//h2[normalize-space()=concat("Say ", \'"\', "it\'s", \'"\', "")]/following-sibling::p[1]'),
    ],
)
def test_kinds_of_evidence(text, query):
    page = PageBlocks(PAGE)
    block = next(block for block in page.blocks if block.text == text)
    assert query in {one.selector.query for one in candidates_for([page.spots[block.n]])}


def test_an_icon_with_a_long_title_is_known_by_its_class():
    page = PageBlocks(f'<p><i class="ico-clock" title="{"as long as it takes " * 9}"></i> 3 hours</p>')
    queries = [one.selector.query for one in candidates_for([page.spots[1]])]
    assert [query for query in queries if "ico-clock" in query and "@title" not in query]
    assert max(map(len, queries)) < 200


def test_a_value_that_stands_in_two_kinds_of_data_is_looked_for_in_both():
    page = PageBlocks("""<script type="application/ld+json">{"@type": "Product", "sku": "A-1"}</script>
        <script>window.__STATE__ = {"sku": "A-2"}</script>""")
    made = [one.selector for one in candidates_for(list(page.spots.values()))]
    assert [texts_at(page.source, one) for one in made] == [["A-1"], ["A-2"]]


def test_selectors_can_be_pasted_into_a_shell():
    page, parsel = PageBlocks(PAGE), ParselSelector(PAGE)
    for block in page.blocks:
        for one in candidates_for([page.spots[block.n]]):
            run = parsel.css if one.selector.language == "css" else parsel.xpath
            found = run(one.selector.query)
            assert len(found) == len(nodes_at(page.source, one.selector)), one.selector


@pytest.mark.parametrize(
    ("pairs", "text", "expected"),
    [
        ([("£23.99", "23.99"), ("£7.00", "7.00")], "£5.00", "5.00"),
        ([("£23.99", "23.99"), ("£7.00", "7.00")], "Free", None),
        ([("In stock (20 available)", "20"), ("In stock (3 available)", "3")], "In stock (7 available)", "7"),
        ([("In stock (20 available)", "20"), ("In stock (3 available)", "3")], "Unavailable", None),
        ([("1 review", "1"), ("20 reviews", "20")], "3 reviews", "3"),
        (
            [("Freitag, 5. Mai 2023, 19:15 Uhr", "5. Mai 2023"), ("Montag, 1. Juni 2023, 9:00 Uhr", "1. Juni 2023")],
            "Montag, 6. Juni 2024, 8:00 Uhr",
            "6. Juni 2024",
        ),
        ([("12,00 € (erm. 6,00 €)", "12,00 €"), ("9,00 €", "9,00 €")], "8,50 € (erm. 4,00 €)", "8,50 €"),
        ([("Home | Lamps | Blue", "Blue"), ("Home | Beds | Oak", "Oak")], "Home | Chairs | Red", "Red"),
        ([("by Ann Lee", "Ann Lee")], "by Bo Diddley", "Bo Diddley"),
        (
            [("Par: Léa Noël le 3 mai 2023 21:45", "3 mai 2023"), ("Par: Jean le 30 mars 2024 01:50", "30 mars 2024")],
            "Par: Anne-Marie Roy le 12 avril 2021 7:05",
            "12 avril 2021",
        ),
    ],
)
def test_what_of_a_text_is_the_value(pairs, text, expected):
    pattern = learn_pattern(pairs)
    assert pattern is not None
    assert take(pattern, text) == expected


def test_a_text_that_is_the_value_needs_no_pattern():
    assert learn_pattern([("a", "a"), ("b", "b")]) is None
    assert learn_pattern([]) is None


@given(st.lists(st.tuples(st.text(max_size=30), st.text(min_size=1, max_size=8), st.text(max_size=30)), max_size=4))
def test_patterns_never_fail_and_what_they_take_is_in_the_text(parts):
    pairs = [(" ".join(f"{a}{v}{b}".split()), " ".join(v.split())) for a, v, b in parts]
    pattern = learn_pattern([pair for pair in pairs if pair[1]])
    for text, _ in pairs if pattern is not None else ():
        value = take(pattern, text)
        assert value is None or value in text


def learned(
    htmls: list[str],
    values: list[str | list[str] | None],
    many: bool = False,
    shown: int = 3,
    value_type: FieldType = "string",
) -> LearnedField:
    """From the first pages, on which the first block that is (or holds) a value is pointed at."""
    pages = [PageBlocks(html) for html in htmls]
    samples = []
    for page, value in list(zip(pages, values, strict=True))[:shown]:
        pointed = []
        for one in value if isinstance(value, list) else [value] if value else []:
            block = next(b for b in sorted(page.blocks, key=lambda b: (b.text != one, len(b.text))) if one in b.text)
            pointed.append(Pointed("f", (block.n,), one))
        samples.append(AnnotatedPage.of(page, pointed))
    return learn_field(Field("f", value_type, many), TrainingSet(samples, pages[shown:]))


def extracted(result: LearnedField, html: str) -> object:
    assert result.rule is not None, result.doubt
    return compile_extractor(TemplateExtractor("p", (result.rule,))).extract(html, "http://h/").record["f"]


def rows(**facts: str) -> str:
    return "<table>" + "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in facts.items()) + "</table>"


def test_labels_hold_where_rows_shift():
    pages = [rows(A="1x", B=f"b{n}", C=f"c{n}") if n % 2 else rows(B=f"b{n}", C=f"c{n}") for n in range(12)]
    result = learned(pages, [f"b{n}" for n in range(12)])
    assert extracted(result, rows(Z="9", A="1", B="bb", C="cc")) == "bb"
    assert extracted(result, rows(A="1", C="cc")) is None


def test_a_place_behind_the_label_of_another_field_on_other_pages_leads_to_nothing():
    def page(n: int, has_kind: bool) -> str:
        kind = f"<div>Kind</div><div>kind {n}</div>" if has_kind else ""
        return f"<div id=facts>{kind}<div>Size</div><div>size {n}</div><div>Ref</div><div>ref {n}</div></div>"

    pages = [PageBlocks(page(n, n % 2 == 0 or n < 3)) for n in range(12)]
    samples = []
    for one in pages[:3]:
        texts = {block.text.partition(" ")[0]: block.n for block in one.blocks if " " in block.text}
        samples.append(AnnotatedPage.of(one, [Pointed(name, (n,)) for name, n in texts.items()]))
    result = learn_field(Field("size", "string"), TrainingSet(samples, pages[3:]))
    assert result.rule is not None
    extractor = compile_extractor(TemplateExtractor("p", (result.rule,)))
    assert extractor.extract(page(20, False), "http://h/").record == {"size": "size 20"}


def test_cards_with_the_same_class_do_not_leak():
    def page(n: int, price: bool = True) -> str:
        main = f"<h1>n{n}</h1>" + (f"<p class='price'>{n}.50</p>" if price else "<p class='none'>sold out</p>")
        return f"<div class='main'>{main}</div><aside><div class='card'><p class='price'>99.{n}</p></div></aside>"

    result = learned([page(n, n != 2) for n in range(12)], [None if n == 2 else f"{n}.50" for n in range(12)], shown=4)
    assert extracted(result, page(40)) == "40.50"
    assert extracted(result, page(41, price=False)) is None


def test_what_cannot_be_read_on_other_pages_is_asked_about_once():
    texts = [f"{n + 2} €" if n < 4 else f"{n + 2} € (members: {n} €)" for n in range(10)]
    pages = [rows(Price=text, Place=f"Hall {n}") for n, text in enumerate(texts)]
    values: list[str | list[str] | None] = [f"{n + 2} €" for n in range(10)]
    result = learned(pages, values, value_type="number")
    assert result.doubt == "what leads to it cannot be read on other pages"
    assert result.disputed == tuple(range(1, 7))
    again = learned(pages, values, shown=5, value_type="number")
    assert not again.doubt
    assert extracted(again, rows(Price="30 € (members: 9 €)", Place="Hall")) == 30
    # Where the annotator has said that such a text is no value, nobody is asked again.
    priced = [text if n < 4 else "on request" for n, text in enumerate(texts)]
    pages = [rows(Price=text, Place=f"Hall {n}") for n, text in enumerate(priced)]
    assert not learned(pages, [*values[:4], *[None] * 6], shown=6, value_type="number").doubt


def test_a_slip_is_outvoted_and_doubted():
    pages = [f"<nav><a>Home</a></nav><h1>t{n}</h1><p class='by'>author {n}</p>" for n in range(12)]
    result = learned(pages, [f"author {n}" if n != 1 else "Home" for n in range(12)])
    assert result.doubt
    assert extracted(result, pages[11]) == "author 11"


def test_lists_are_whole_also_where_they_have_one_item():
    def page(*tags: str) -> str:
        items = "".join(f"<li>{tag}</li>" for tag in tags)
        return f"<h3>Tags</h3><ul>{items}</ul><h3>Menu</h3><ul><li>x</li></ul>"

    tags: list[str | list[str] | None] = [[f"t{n}", f"u{n}"] if n % 2 else [f"t{n}"] for n in range(10)]
    result = learned([page(*one) for one in tags], tags, many=True)
    assert extracted(result, page("a", "b", "c")) == ["a", "b", "c"]
    assert extracted(result, page("a")) == ["a"]


@pytest.mark.parametrize(("name", "is_asked_again"), [("weight", False), ("colour", True)])
def test_one_sample_is_enough_for_what_a_label_with_its_name_leads_to(name: str, is_asked_again: bool):
    def page(n: int) -> str:
        return f"<h1>Lamp {n}</h1><table><tr><th>Weight</th><td>{n} kg</td></tr></table>" if n else "<h1>Lamp</h1>"

    shown = AnnotatedPage(PageBlocks(page(1)), {})
    (block,) = (one for one in shown.page.blocks if one.text == "1 kg")
    samples = [AnnotatedPage.of(shown.page, [Pointed(name, (block.n,))]), AnnotatedPage(PageBlocks(page(0)), {})]
    result = learn_field(Field(name, "string"), TrainingSet(samples, [PageBlocks(page(n)) for n in range(2, 6)]))
    assert result.rule is not None
    assert bool(result.doubt) == is_asked_again


@pytest.mark.parametrize(("samples", "is_asked_again"), [(4, True), (5, False)])
def test_one_sample_against_four_is_a_slip_where_no_other_page_could_tell(samples: int, is_asked_again: bool):
    pages = [f"<h1>t{n}</h1><p><b>Kind</b> <i class='kind'>Kind {n}</i></p><p class='of'>Of {n}</p>" for n in range(9)]
    values: list[str | list[str] | None] = [f"Kind {n}" if n != 1 else "Of 1" for n in range(9)]
    assert bool(learned(pages, values, shown=samples).doubt) == is_asked_again


def test_where_all_values_are_written_alike_no_page_more_is_shown():
    prices = [f"{n}.50 €" for n in range(11)]
    for last in ("11.50 €", "Sold out"):
        pages = [f"<h1>Lamp</h1><p><b>Price</b> <span class='cost'>{price}</span></p>" for price in (*prices, last)]
        assert not learned(pages, [*prices, last]).doubt


def test_where_no_page_tells_good_selectors_apart_no_page_more_is_shown():
    pages = [f"<h1>t{n}</h1><div><p class='kind'>Kind {n}</p><p class='kind'>More {n}</p></div>" for n in range(9)]
    assert not learned(pages, [f"Kind {n}" for n in range(9)], shown=3).doubt


def test_no_page_more_is_shown_for_a_field_that_more_samples_speak_against_than_for():
    pages = [f"<h1>Lamp</h1><p class='kind'>Kind {n}</p>" for n in range(12)]
    result = learned(pages, ["Kind 0", *[None] * 11])
    assert (result.rule, result.doubt) == (None, "")
    assert learned(pages, ["Kind 0", None, *[f"Kind {n}" for n in range(2, 12)]]).doubt


def test_where_a_label_tells_that_the_value_is_there_one_sample_of_four_may_have_overlooked_it():
    pages = [f"<h1>t{n}</h1><div><h2>Description</h2></div><p>Text {n}</p>" for n in range(12)]
    values: list[str | list[str] | None] = [None if n == 1 else f"Text {n}" for n in range(12)]
    assert extracted(learned(pages, values, shown=4), pages[9]) == "Text 9"
    pages = [page.replace("<h2>Description</h2>", "") for page in pages]
    assert learned(pages, values, shown=4).rule is None


def test_a_heading_is_trusted_before_the_end_of_a_path_that_has_other_lengths():
    def page(n: int, depth: int) -> str:
        path = "".join(f"<li><a>Shelf {level}</a></li>" for level in range(depth))
        return (
            f"<ol class='breadcrumb'>{path}<li class='active'>Book {n}</li></ol><div class='m'><h1>Book {n}</h1></div>"
        )

    result = learned([page(n, 2 if n == 9 else 4) for n in range(20)], [f"Book {n}" for n in range(20)])
    assert extracted(result, page(30, 1)) == "Book 30"


def test_a_label_leads_to_the_value_where_its_class_is_another_one():
    def page(n: int, stock: str = "") -> str:
        state = "gone" if stock else "instock"
        text = stock or f"In stock ({n} available)"
        return f"<div class='main'><h1>t{n}</h1><p class='{state}'>{text}</p></div>{rows(Availability=text)}"

    result = learned([page(n) for n in range(12)], [f"In stock ({n} available)" for n in range(12)])
    assert extracted(result, page(20)) == "In stock (20 available)"
    assert extracted(result, page(21, "Unavailable")) == "Unavailable"


def test_lists_behind_a_label_are_whole_though_all_samples_have_one_item():
    def page(n: int, *names: str) -> str:
        links = ", ".join(f"<a href='/{name}'>{name}</a>" for name in names)
        return f"<h1>t{n}</h1><div><p>by {links}</p></div><p><a href='/more'>more</a></p>"

    names: list[str | list[str] | None] = [[f"n{n}", f"m{n}"] if n > 8 else [f"n{n}"] for n in range(12)]
    pages = [page(n, *given) for n, given in enumerate(names) if given]
    result = learned(pages, names, many=True)
    assert extracted(result, pages[10]) == ["n10", "m10"]


def test_a_list_may_be_pointed_at_in_links_and_in_pictures():
    def page(n: int) -> str:
        return "".join(f"<a href='/{n}/{i}.jpg'><img src='/{n}/{i}.jpg'></a>" for i in range(3)) + "<a href='/x'>x</a>"

    pages = [PageBlocks(f"<div class='gallery'>{page(n)}</div>") for n in range(8)]
    samples = []
    for one in pages[:3]:
        sources = [block.n for block in one.blocks if one.spots[block.n].attribute == "src"]
        links = [block.n for block in one.blocks if one.spots[block.n].attribute == "href"]
        samples.append(AnnotatedPage.of(one, [Pointed("f", (sources[0], *links[1:3]))]))
    result = learn_field(Field("f", "string", many=True), TrainingSet(samples, pages[3:]))
    assert extracted(result, f"<div class='gallery'>{page(50)}</div>") == ["/50/0.jpg", "/50/1.jpg", "/50/2.jpg"]


@pytest.mark.parametrize("slip", [None, "3 cm"])
def test_a_label_is_trusted_before_a_place_that_others_take_too(slip):
    has_colour = [n in (1, 2, 3, 4, 5, 7, 12, 16) for n in range(20)]

    def page(n: int, colour: bool) -> str:
        first = f"<dt>Colour</dt><dd>red {n}</dd>" if colour else ""
        return f"<dl class='facts'>{first}<dt>Weight</dt><dd>{n} kg</dd><dt>Size</dt><dd>{n} cm</dd></dl>"

    values: list[str | list[str] | None] = [f"red {n}" if has_colour[n] else None for n in range(20)]
    values[3] = slip or values[3]  # a slip of the model
    result = learned([page(n, has_colour[n]) for n in range(20)], values, shown=8)
    assert extracted(result, page(31, colour=True)) == "red 31"
    assert extracted(result, page(32, colour=False)) is None


def test_the_items_of_a_list_in_one_text_are_parted_as_on_the_samples():
    lists = [["Drama", "Crime"], ["Comedy"], ["Horror", "Drama", "Science Fiction"], ["War"], ["Crime", "War"]]
    pages = [PageBlocks(f"<h1>M{n}</h1><p class=g>Genres: {' / '.join(one)}</p>") for n, one in enumerate(lists)]
    samples = []
    for page, genres in zip(pages[:3], lists, strict=False):
        block = next(block.n for block in page.blocks if block.text.startswith("Genres"))
        samples.append(AnnotatedPage.of(page, [Pointed("genres", (block,), one) for one in genres]))
    found = learn_field(Field("genres", "string", many=True), TrainingSet(samples, pages[3:]))
    assert found.rule is not None
    extractor = TemplateExtractor("movie", (found.rule,))
    compiled = compile_extractor(TemplateExtractor.from_json(extractor.to_json()))
    assert [compiled.extract_from(page.source, "http://site.test/").record["genres"] for page in pages] == lists


def test_paragraphs_of_one_text_are_joined():
    def page(n: int) -> str:
        return f"<h1>h{n}</h1><div class='body'><p>First {n}.</p><p>Second {n}.</p><p>Third {n}.</p></div><p>Foot</p>"

    pages = [PageBlocks(page(n)) for n in range(8)]
    samples = []
    for page_blocks in pages[:3]:
        numbers = tuple(b.n for b in page_blocks.blocks if b.text.startswith(("First", "Second", "Third")))
        samples.append(AnnotatedPage.of(page_blocks, [Pointed("f", numbers)]))
    result = learn_field(Field("f"), TrainingSet(samples, pages[3:]))
    assert str(extracted(result, page(50))).split() == "First 50. Second 50. Third 50.".split()


def test_two_layouts_of_one_template_both_give_the_value():
    def page(n: int) -> str:
        name = "one" if n % 3 else "two"
        filler = "<div class='f'>filler</div>" * (n % 4)
        return f"<div id='c'>{filler}<div class='{name}'>text {n}</div><div class='tail'>tail {n}</div></div>"

    result = learned([page(n) for n in range(16)], [f"text {n}" for n in range(16)], shown=7)
    assert [extracted(result, page(n)) for n in (30, 31, 32)] == ["text 30", "text 31", "text 32"]


def reviews(*given: tuple[str, str | None]) -> str:
    items = "".join(f"<li><b class='who'>{who}</b>{f'<p>{text}</p>' if text else ''}</li>" for who, text in given)
    return f"<h1>Thing</h1><ul class='reviews'>{items}</ul><ul class='menu'><li><b>x</b></li></ul>"


def test_rows_with_missing_parts_stay_together():
    fields = [Field("who", "string", group="reviews"), Field("text", "string", group="reviews")]
    data = [[(f"w{n}{i}", None if i == 1 else f"said {n}{i}") for i in range(3)] for n in range(5)]
    pages = [PageBlocks(reviews(*one)) for one in data]
    samples = []
    for page in pages[:3]:
        who = tuple(block.n for block in page.blocks if block.hint == "b.who")
        said = tuple(block.n for block in page.blocks if block.text.startswith("said") and " w" not in block.text)
        samples.append(AnnotatedPage.of(page, [Pointed("reviews.who", who), Pointed("reviews.text", said)]))
    group = learn_group("reviews", fields, TrainingSet(samples, pages[3:]))
    extractor = TemplateExtractor("p", group.rules, (("reviews", group.rows),))
    html = reviews(("Ann", "hi"), ("Bo", None), ("Cy", "yo"))
    record = compile_extractor(extractor).extract(html, "http://h/").record
    assert record["reviews"] == [{"who": "Ann", "text": "hi"}, {"who": "Bo", "text": None}, {"who": "Cy", "text": "yo"}]


def test_a_wrong_selector_is_refused():
    for selector in (Selector("p[", "css"), Selector("//p[", "xpath")):
        with pytest.raises(ValueError, match="selector"):
            compile_extractor(TemplateExtractor("p", (FieldRule(Field("f"), (selector,)),)))


def test_an_extractor_is_the_same_after_its_json():
    selector = Selector("b", "css", None, "(.)", "class", 0.5, None)
    rule = FieldRule(Field("f", "number", group="g"), (selector,), joined=True)
    extractor = TemplateExtractor("p", (rule,), (("g", (Selector("li", "css"),)),))
    assert TemplateExtractor.from_json(extractor.to_json()) == extractor
    wrong: Any = 7
    foreign: list[Any] = [
        {},
        {"page_type": 1, "rules": [], "groups": []},
        {"page_type": "p", "rules": [{}], "groups": []},
    ]
    foreign += [replace(extractor, rules=(replace(rule, field=Field(wrong)),)).to_json()]
    foreign += [replace(extractor, rules=(replace(rule, field=Field("f", group=wrong)),)).to_json()]
    foreign += [replace(extractor, groups=(("g", (replace(selector, pattern=wrong),)),)).to_json()]
    foreign += [replace(extractor, rules=(replace(rule, field=Field("f", many=wrong)),)).to_json()]
    for value in foreign:
        with pytest.raises(ValueError, match=r"not an extractor|not a selector|not a field"):
            TemplateExtractor.from_json(value)


@pytest.mark.parametrize(
    ("setting", "with_records", "without"),
    [
        ("auto", {"product", "location"}, {"product_listing", "collection", "login"}),
        (
            "auto",
            {"listing_ad", "help-article", "collection_item"},
            {"ad_listing", "product_search", "error_404", "privacy_policy"},
        ),
        ("", {"article"}, set()),
        ("all", {"login"}, set()),
        ("none", set(), {"product"}),
        ("listing, product", {"listing", "product"}, {"article"}),
    ],
)
def test_which_page_types_have_records(setting, with_records, without):
    assert {one for one in with_records | without if one in RecordTypes.of(setting)} == with_records


def annotated(page: PageBlocks, **values: str) -> AnnotatedPage:
    """Each value is pointed at in the first block that is it."""
    blocks = {name: next(b.n for b in page.blocks if b.text == text) for name, text in values.items()}
    return AnnotatedPage.of(page, [Pointed(name, (n,)) for name, n in blocks.items()])


def test_a_sample_without_a_value_speaks_against_a_selector_that_gives_one_there():
    """The shop of Cartridge: without a sale, the only price stands where else the old one does."""
    on_sale = [n in (0, 3, 5, 9, 14) for n in range(20)]

    def page(n: int) -> PageBlocks:
        old = f"<span class='old-price'>£{n}.99</span> On sale:" if on_sale[n] else ""
        variants = f"<ul id='variations'><li>{old}<span class='price'>£{n}.50</span></li></ul>"
        return PageBlocks(f"<h1>Lamp {n}</h1>{variants}<ul class='related'><li>{old}</li></ul>")

    pages = [page(n) for n in range(20)]
    samples = [
        annotated(pages[n], price=f"£{n}.50", **({"old_price": f"£{n}.99"} if on_sale[n] else {})) for n in range(7)
    ]
    result = learn_field(Field("old_price", "number"), TrainingSet(samples, pages[7:]))
    assert result.rule is not None
    for n, one in enumerate(pages):
        extracted_at = compile_extractor(TemplateExtractor("p", (result.rule,))).extract_from(one.source, "http://h/")
        assert extracted_at.record["old_price"] == (n + 0.99 if on_sale[n] else None)
    # Without a class, only its place leads to the old price: rather none.
    texts = [etree.tostring(one.root, encoding="unicode").partition('<ul class="related')[0] for one in pages]
    plain = [PageBlocks(text.replace("old-price", "price")) for text in texts]
    samples = [
        annotated(plain[n], price=f"£{n}.50", **({"old_price": f"£{n}.99"} if on_sale[n] else {})) for n in range(7)
    ]
    assert learn_field(Field("old_price", "number"), TrainingSet(samples, plain[7:])).rule is None


def test_a_place_that_is_empty_where_the_value_is_absent_leads_to_it():
    def page(n: int, has_note: bool) -> str:
        note = f"<small>Note {n}</small>" if has_note else ""
        return f"<table><tr><td>Cover {n}</td><td><big>Book {n}</big>{note}</td></tr></table>"

    has_note = [n % 3 == 1 for n in range(16)]
    values: list[str | list[str] | None] = [f"Note {n}" if has_note[n] else None for n in range(16)]
    result = learned([page(n, has_note[n]) for n in range(16)], values, shown=7)
    assert extracted(result, page(31, has_note=True)) == "Note 31"
    assert extracted(result, page(32, has_note=False)) is None


def test_one_sample_of_a_nameless_value_is_enough_where_many_others_have_none():
    def page(n: int, badge: bool) -> str:
        return f"<div class='summary'><h1>Lamp {n}</h1>{f'<em>New {n}</em>' if badge else ''}<p>£{n}</p></div>"

    pages = [page(n, badge=n in (2, 9, 12)) for n in range(16)]
    values: list[str | list[str] | None] = ["New 2" if n == 2 else None for n in range(16)]
    assert extracted(learned(pages, values, shown=7), page(30, badge=True)) == "New 30"
    assert learned(pages, values, shown=4).rule is None


def test_a_slip_to_the_value_of_another_field_does_not_make_it_unreliable():
    pages = [PageBlocks(f"<h1>Lamp {n}</h1><p class='by'>Maker {n}</p><i class='tag'>Tag {n}</i>") for n in range(12)]
    samples = [annotated(one, f=f"Maker {n}", tag=f"Tag {n}") for n, one in enumerate(pages[:6])]
    samples[0] = annotated(pages[0], f="Lamp 0", tag="Maker 0")
    result = learn_field(Field("f"), TrainingSet(samples, pages[6:]))
    assert extracted(result, "<h1>Desk</h1><p class='by'>Carpenter</p>") == "Carpenter"


def test_a_page_on_which_all_rows_of_a_group_lost_a_field_counts_once():
    def page(n: int) -> PageBlocks:
        lines = [f"<li><b>Ware {n}{i}</b><i>{i}.5{n}</i><s>{i}.9{n}</s></li>" for i in range(3 if n else 9)]
        return PageBlocks(f"<ul class='wares'>{''.join(lines)}</ul>")

    pages, tags = [page(n) for n in range(5)], {"name": "b", "price": "i", "old": "s"}
    samples = []
    for n, one in enumerate(pages[:3]):
        found = {
            name: tuple(spot for spot, at in one.spots.items() if at.element is not None and at.element.tag == tag)
            for name, tag in tags.items()
        }
        given = [Pointed(f"wares.{name}", spots) for name, spots in found.items() if n or name != "old"]
        samples.append(AnnotatedPage.of(one, given))
    fields = [Field(name, "string", group="wares") for name in tags]
    assert {rule.field.name for rule in learn_group("wares", fields, TrainingSet(samples, pages[3:])).rules} == {*tags}


def test_a_text_of_the_menu_is_no_field():
    """The shop of Oscar: most categories are not on their pages in these words, and one of them is in the menu."""
    menu = "<nav><ul class='menu'><li><a>Clothing</a></li><li><a>Books</a></li></ul></nav>"
    pages = [PageBlocks(f"{menu}<h1>Book {n}</h1><p>Text {n}</p>") for n in range(12)]
    for shown in (1, 2, 3, 6):
        samples = [
            annotated(one, **({"categories": "Clothing"} if n < shown else {})) for n, one in enumerate(pages[:6])
        ]
        assert learn_field(Field("categories"), TrainingSet(samples, pages[6:])).rule is None, shown


def test_numbers_that_a_weak_model_points_at_here_and_there_are_no_field():
    rate = "<form class='rating'><label><input type='radio'>4</label></form>"

    def page(n: int) -> PageBlocks:
        day = f"{n + 1} May 20{n + 10}"
        return PageBlocks(f"<h1>News {n}</h1><time>{day}</time><a href='#c'>{n % 3} comments</a>{rate}<p>Text {n}</p>")

    pages = [page(n) for n in range(14)]
    samples = []
    for n, one in enumerate(pages[:7]):
        text, quote = [("4", "4"), (f"{n % 3} comments", str(n % 3)), (f"{n + 1} May 20{n + 10}", f"{n + 10}")][n % 3]
        block = next(b.n for b in one.blocks if b.text == text)
        samples.append(AnnotatedPage.of(one, [Pointed("price", (block,), quote)]))
    assert learn_field(Field("price", "number"), TrainingSet(samples, pages[7:])).rule is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("12 May 2024", "24"), ("12 May 2024", "2024"), ("12 May 2024", "12"), ("£1,299.50", "299"), ("2024-05-12", "05")],
)
def test_no_pattern_takes_a_piece_out_of_a_number_or_a_date(text, value):
    assert learn_pattern([(text, value), (text, value)]) is None


@pytest.mark.parametrize(
    ("text", "value"), [("4.5/5", "4.5"), ("12 May 2024, 19:15", "19:15"), ("ISBN 978-0-1", "978-0-1")]
)
def test_a_pattern_takes_whole_numbers(text, value):
    pattern = learn_pattern([(text, value)])
    assert pattern is not None
    assert take(pattern, text) == value


def test_a_value_ends_at_the_mark_behind_it():
    pattern = learn_pattern([("License: MIT. By Sphinx", "MIT"), ("License: Apache-2.0. By Sphinx", "Apache-2.0")])
    assert pattern is not None
    assert take(pattern, "License: BSD. Updated on 3 May. By Sphinx") != "BSD. Updated on 3 May"


def test_the_agreement_counts_samples_without_a_value():
    pages = [rows(A=f"a{n}", **({"B": f"b{n}"} if n % 2 else {})) for n in range(12)]
    result = learned(pages, [f"b{n}" if n % 2 else None for n in range(12)], shown=6)
    assert result.rule is not None
    assert (result.rule.selectors[0].samples, result.rule.selectors[0].agreement) == (3, 1.0)


def test_two_pages_are_enough_and_a_second_layout_needs_one_sample():
    both = learned(["<h1>a</h1><p class='sku'>A1</p>", "<h1>b</h1><p class='sku'>B2</p>"], ["A1", "B2"], shown=2)
    assert extracted(both, "<h1>c</h1><p class='sku'>C3</p>") == "C3"

    def page(n: int) -> str:
        now = f"<span class='amount'>£{n}.50</span>"
        return f"<p class='price'>{f'<del><span>£{n}.99</span></del> <ins>{now}</ins>' if n % 5 == 0 else now}</p>"

    pages = [PageBlocks(page(n)) for n in range(20)]
    samples = [
        annotated(one, price=f"£{n}.50", **({"old": f"£{n}.99"} if n % 5 == 0 else {}))
        for n, one in enumerate(pages[1:7], 1)
    ]
    result = learn_field(Field("price", "number"), TrainingSet(samples, pages[7:]))
    assert result.rule is not None
    extractor = compile_extractor(TemplateExtractor("p", (result.rule,)))
    assert [extractor.extract_from(one.source, "http://h/").record["price"] for one in pages] == [
        n + 0.5 for n in range(20)
    ]


@pytest.mark.parametrize(("label", "is_name"), [("Published:", True), ("Published on", False)])
def test_a_text_that_starts_with_a_label_is_named_by_it_where_it_is_marked_as_one(label: str, is_name: bool):
    selector = Selector(f'//text()[starts-with(normalize-space(), "{label}")]', "xpath", evidence="label")
    page = PageBlocks(f"<p>{label} 3 May</p>")
    assert _names_it(selector, TrainingSet([AnnotatedPage.of(page, [])], [])) is is_name
