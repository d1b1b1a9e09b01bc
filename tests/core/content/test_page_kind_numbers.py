"""The numbers and words that tell the kind of a page."""

from __future__ import annotations

import math

import pytest

from llmcrawler.core.content.markup import parse
from llmcrawler.core.content.page import read_with_evidence
from llmcrawler.core.content.page_kind_numbers import (
    KindEvidence,
    address_numbers,
    count_phrases,
    kind_numbers,
    phrase_tokens,
    read_address,
    schema_types,
)
from llmcrawler.core.content.page_kinds import kind_tokens

URL = "https://www.shop.example/lamps/red-desk-lamp-20417.html"


def evidence_of(html: str, url: str = URL) -> KindEvidence:
    return read_with_evidence(parse(html), html, url)[1]


def numbers_of(html: str, url: str = URL) -> dict[str, float]:
    return kind_numbers(evidence_of(html, url))


@pytest.mark.parametrize(
    ("url", "name", "value"),
    [
        ("https://a.example/", "url is root", 1),
        ("https://a.example/x/", "url is root", 0),
        ("https://a.example/blog/2024/05/a-new-lamp", "url depth", 4),
        ("https://a.example/blog/2024/05/a-new-lamp", "url year", 1),
        ("https://a.example/blog/2024/05/a-new-lamp", "url month", 1),
        ("https://a.example/blog/2024/05/a-new-lamp", "url first article", 1),
        ("https://a.example/blog/2024/05/a-new-lamp", "url last hyphens", 2),
        ("https://a.example/viewtopic.php?t=12345", "url last forum", 1),
        ("https://a.example/viewtopic.php?t=12345", "url long id", 1),
        ("https://a.example/viewtopic.php?t=12345", "url script", 1),
        ("https://docs.a.example/x", "host word docs", 1),
        ("https://mydocs.example/x", "host word docs", 0),
        ("https://lampforum.example/x", "host part forum", 1),
        ("https://www.a.example/a%20b/Products", "url last product", 1),
        ("http://[broken/blog", "url depth", 0),
    ],
)
def test_an_address_is_told_in_numbers(url: str, name: str, value: float) -> None:
    assert address_numbers(url, "")[name] == value


def test_the_title_counts_where_the_address_is_made_of_it() -> None:
    assert address_numbers("https://a.example/red-desk-lamp", "Red desk lamp | Shop")["url slug in title"] == 1
    assert address_numbers("https://a.example/red-desk-lamp", "Blue chair")["url slug in title"] == 0


def test_an_address_is_not_read_beyond_its_limit() -> None:
    assert len(read_address("https://a.example/" + "x" * 100_000).path) < 2000


def test_phrases_are_counted_by_group_with_any_number() -> None:
    tokens = phrase_tokens("Add to cart. 14 reviews. 0 posts. Reply! Last reply:")
    assert count_phrases(tokens, ("cart", "rating", "reply", "post_count", "forum")) == [1, 1, 2, 1, 0]


def test_a_phrase_at_the_end_of_a_text_is_not_completed_by_nothing() -> None:
    assert count_phrases(["add", "to"], ("cart",)) == [0]


def test_every_page_has_the_same_numbers() -> None:
    pages = ["", "<p>One", "<title>x</title><table><tr><td>1<td>2</table>", "<div><nav><a href=/>x</a></nav></div>"]
    found = [numbers_of(html) for html in pages]
    assert all(one.keys() == found[0].keys() for one in found)
    assert all(math.isfinite(value) for one in found for value in one.values())


CARD = (
    "<div class=card><h3><a href=/lamps/{0}>A fine lamp of brass {0}</a></h3><p>$ {0}.00</p>"
    "<a href=/buy/{0}>Add</a></div>"
)
SENTENCE = "I think that the lamp in my room was never this bright before. "
POST = "<div class=msg><b>Ann {0}</b><p>" + SENTENCE * 3 + "</p></div>"


def test_cards_with_prices_are_told_from_posts() -> None:
    cards = numbers_of("<main>" + "".join(CARD.format(number) for number in range(12, 20)) + "</main>")
    posts = numbers_of("<main>" + "".join(POST.format(number) for number in range(12, 20)) + "</main>")
    assert cards["cards words"] > 0.5
    assert cards["priced most"] == pytest.approx(math.log1p(8))
    assert cards["posts"] == 0
    assert posts["posts"] == pytest.approx(math.log1p(8))
    assert posts["cards words"] == posts["priced"] == 0


def test_two_of_a_kind_are_no_repeat() -> None:
    assert numbers_of("<main>" + CARD.format(1) + CARD.format(2) + "</main>")["repeats"] == 0


def test_links_are_told_by_where_they_lead() -> None:
    found = numbers_of(
        "<a href=/lamps/blue>Blue</a><a href=/lamps/tall-one>A lamp that is quite tall</a>"
        "<a href=https://else.example/blog/>Blog</a><a href=/search?q=x></a>"
    )
    assert found["links beside share"] == 0.5
    assert (
        found["links away"] == found["links to article"] == found["links with query"] == found["links unnamed"] == 0.25
    )
    assert found["links with long text share"] == 0.25


def test_prose_and_menus_are_told_apart() -> None:
    prose = "<p>" + "The lamp has stood on the desk for a year. " * 6 + "</p>"
    menu = "<ul>" + "<li><a href=/a>Lamps</a>" * 9 + "</ul>"
    assert numbers_of(prose * 5)["prose share"] == 1
    assert numbers_of(prose * 5)["run blocks"] == pytest.approx(math.log1p(5))
    assert numbers_of(menu)["prose share"] == 0
    assert numbers_of(menu)["items linked"] == 1


def test_scripts_that_some_pages_have_lost_change_no_number() -> None:
    html = "<html><head><title>A lamp</title></head><body><main><h1>Lamp</h1><p>It shines.</p></main></body></html>"
    with_scripts = html.replace("</head>", "<script src=/x.js></script><style>p{}</style></head>").replace(
        "<p>", '<!-- x --><script>var x = "<p>";</script><p data-x=1 onclick="x()">'
    )
    assert numbers_of(with_scripts) == numbers_of(html)
    assert kind_tokens(evidence_of(with_scripts)) == kind_tokens(evidence_of(html))


def test_schema_types_are_found_at_any_depth() -> None:
    data = [{"@type": "Product", "offers": [{"@type": ["http://schema.org/Offer", "schema:Demand"]}], "x": 1}]
    assert sorted(schema_types(data)) == [("Demand", 1), ("Offer", 1), ("Product", 0)]


def test_endless_structured_data_ends() -> None:
    assert len(list(schema_types([{"@type": "Thing", "x": [{"@type": "Thing"}] * 199}] * 100))) <= 3000


def test_tokens_come_in_groups_with_digits_as_0() -> None:
    html = (
        "<html class='no-js template-list'><title>Red lamp 42</title>"
        "<meta name=description content='Buy a lamp'><link rel=next href=/2>"
        "<h1>Red lamp</h1><p>Add to cart</p><p>" + "A long text that is no button. " * 4
    )
    found = kind_tokens(evidence_of(html))
    assert {"folder=lamps", "last=red-desk-lamp-0.html", "suffix=html", "host=shop"} <= set(found["address"])
    assert found["title"] == ["red", "lamp", "0", "red_lamp", "lamp_0"]
    assert "red_lamp" in found["heading"]
    assert "=add_to_cart" in found["short"]
    assert "button" not in found["short"]
    assert {"meta=description", "description=buy", "rel=next", "html=template-list"} <= set(found["meta"])
