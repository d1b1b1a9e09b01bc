"""Objects that a page's elements describe: microdata and RDFa, in as many forms as pages have them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser

from llmcrawler.core.content.structured_data import microdata, rdfa


def items(html: str) -> list[dict[str, Any]]:
    return microdata(LexborHTMLParser(html))


@pytest.mark.parametrize(
    ("html", "value"),
    [
        ("<meta itemprop=x content='1 2'>", "1 2"),
        ("<time itemprop=x datetime=2024-05-01>May</time>", "2024-05-01"),
        ("<a itemprop=url href=/x>Tea</a>", None),
        ("<a itemprop=x href=/x> Jane <b>Doe</b></a>", "Jane Doe"),
        ("<a itemprop=x href=/x><img src=i></a>", "/x"),
        ("<link itemprop=x href=/x>", "/x"),
        ("<img itemprop=x src=/i.png>", "/i.png"),
        ("<data itemprop=x value=3>three</data>", "3"),
        ("<span itemprop=x content=''>three</span>", "three"),
        ("<b itemprop=x>$<i>12</i>.<sup>99</sup></b>", "$12.99"),
        ("<div itemprop=x><p>one</p><p>two</p>three<br>four</div>", "one\ntwo\nthree\nfour"),
        ("<b itemprop='https://schema.org/x schema:y'>v</b>", "v"),
    ],
)
def test_the_value_of_a_property_is_what_the_element_says_of_it(html: str, value: str | None) -> None:
    (item,) = items(f"<div itemscope>{html}</div>")
    assert item.get("x") == value


def test_a_property_belongs_to_the_nearest_item_and_to_those_that_refer_to_it() -> None:
    html = """<section id=more><b itemprop=sku>A1</b></section>
    <div itemscope itemtype='https://schema.org/Product' itemref='more gone' itemid='#p'><b itemprop=name>Mug</b>
    <div itemprop=offers itemscope itemtype=http://schema.org/Offer/><b itemprop=price>3</b></div></div>"""
    offer = {"@type": "Offer", "price": "3"}
    assert items(html) == [{"@type": "Product", "@id": "#p", "sku": "A1", "name": "Mug", "offers": offer}]


def test_items_that_refer_to_each_other_in_a_circle_have_an_end() -> None:
    html = """<div itemscope itemref=a><b itemprop=name>x</b></div>
    <div id=a itemscope itemprop=p itemref=b><div id=b itemscope itemprop=q itemref=a></div></div>"""
    assert len(json.dumps(items(html))) < 100_000


def test_an_item_around_the_whole_page_has_what_stands_at_its_end() -> None:
    filler = "<p>text<b>more</b></p>" * 5_000
    assert items(f"<body itemscope>{filler}<b itemprop=sku>A1</b>") == [{"@type": "Thing", "sku": "A1"}]


@pytest.mark.parametrize(
    "html",
    [
        "<div itemscope itemprop=a>" * 3_000,
        "<div itemscope>" + "<div itemprop=a>" * 2_000 + "x" * 100_000,
        "<div itemscope>" + "<div>" * 2_000 + "<b itemprop=a>x</b>" * 20_000,
        "<div itemscope itemref='" + "x " * 10_000 + "'>" * 50 + "<b id=x itemprop=a>v</b>",
    ],
)
def test_what_is_read_of_a_page_is_bounded(html: str) -> None:
    assert len(json.dumps(items(html))) < 1_500_000


def test_rdfa_gives_objects_of_schema_org_and_leaves_out_other_vocabularies() -> None:
    html = """<div vocab="http://schema.org/" typeof="schema:Product" resource="#p"><h1 property="schema:name">Mug</h1>
    <meta property="og:title" content="no"><a property="brand" href="/b">Acme</a>
    <div property="offers" typeof="Offer"><span property="price" content="3.50">3,50</span></div></div>
    <div typeof="Person"><b property="foaf:name">Jane</b></div>"""
    assert rdfa(LexborHTMLParser(html)) == [
        {
            "@type": "Product",
            "@id": "#p",
            "name": "Mug",
            "brand": "Acme",
            "offers": {"@type": "Offer", "price": "3.50"},
        },
        {"@type": "Person", "name": "Jane"},
    ]
