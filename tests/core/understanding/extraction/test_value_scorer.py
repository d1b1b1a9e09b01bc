"""Which blocks of a page the trained scorer takes for the values of its usual fields."""

import numpy as np
import pytest

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.value_scorer import (
    FIELDS,
    NO_SCORE,
    BlockColumn,
    Key,
    says,
    score_page,
    value_part,
)

PRODUCT = """<html><head><title>Copper kettle | Hearth</title><meta name="description" content="A kettle."></head><body>
<nav><a href="/">Home</a> <a href="/kettles">Kettles</a></nav>
<main class="product-page"><h1 class="product-title">Copper kettle</h1>
<div class="price-box"><del class="old-price">£59.00</del> <span class="price">£45.50</span></div>
<p class="stock availability">In stock</p><span class="sku">SKU: KT-204</span>
<img class="product-image" src="/media/copper-kettle.jpg">
<div class="description"><p>A kettle of solid copper that boils two litres of water in four minutes.</p></div></main>
<section class="related-products"><h2>Others also bought</h2>
<div class="card"><a href="/p/2">Tin mug</a><span class="price">£8.00</span></div>
<div class="card"><a href="/p/3">Iron pan</a><span class="price">£19.00</span></div></section>
<footer>Hearth Ltd</footer></body></html>"""
ARTICLE = """<html><head><title>Rivers rise after a week of rain - The Weekly</title></head><body>
<header><a href="/">The Weekly</a></header>
<article><h1>Rivers rise after a week of rain</h1>
<div class="byline">By <a rel="author" class="author-name" href="/a/jo">Jo Fischer</a>
<time class="published" datetime="2024-03-14T08:00:00Z">March 14, 2024</time></div>
<p>All rivers of the county stood higher on Thursday than in any March since 1990.</p></article>
<aside><h3>More news</h3><a href="/n/1">A bridge opens</a> <span>March 2, 2024</span></aside></body></html>"""


def best(html: str, name: str, url: str = "https://site.example/copper-kettle") -> str | None:
    """Return the text of the best block, None where that is more likely wrong."""
    scored = score_page(PageBlocks(html, url), {})
    scores = scored.scores[:, FIELDS.index(name)]
    at = int(np.argmax(scores))
    return scored.page.blocks[at].text if scores[at] > 0 else None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("title", "Copper kettle"),
        ("price", "£45.50"),
        ("availability", "In stock"),
        ("image", "/media/copper-kettle.jpg"),
    ],
)
def test_values_of_a_product_are_found(name, text):
    assert best(PRODUCT, name) == text


@pytest.mark.parametrize(("name", "text"), [("title", "Rivers rise after a week of rain"), ("author", "Jo Fischer")])
def test_values_of_an_article_are_found(name, text):
    assert best(ARTICLE, name, "https://weekly.example/2024/rivers-rise") == text


def test_the_price_that_is_struck_out_does_not_count_as_the_first():
    page = PRODUCT.replace("price-box", "box").replace(' class="old-price"', "").replace(' class="price">£45', ">£45")
    assert best(page, "price") == "£45.50"


def test_the_date_of_an_article_is_found():
    found = best(ARTICLE, "date_published", "https://weekly.example/2024/rivers-rise")
    assert found is not None
    assert says("date_published", found, "2024-03-14")


EVENT = """<html><head><title>Night of choirs - Town hall</title></head><body><nav><a href="/">Home</a></nav><main>
<h1>Night of choirs</h1><dl><dt>Beginn:</dt><dd>14. März 2025</dd><dt>Veranstaltungsort:</dt><dd>Altes Rathaus</dd></dl>
<p>Telefon: <a href="tel:+49301234567">+49 30 1234567</a></p></main></body></html>"""

PERSON = """<html><head><title>Ana Ruiz | Lab</title></head><body><nav><a href="/">Home</a></nav><main>
<div><div><h1>Ana Ruiz</h1><p>Ingeniera de software</p><p>Zaragoza</p></div></div>
<p>She has been with us since the first day and knows each machine by its name.</p></main></body></html>"""


def test_a_role_below_a_name_needs_no_label():
    assert best(PERSON, "job_title") == "Ingeniera de software"


@pytest.mark.parametrize(
    ("name", "text"),
    [("start_date", "14. März 2025"), ("location", "Altes Rathaus"), ("telephone", "+49 30 1234567")],
)
def test_values_behind_labels_are_found_in_other_languages(name, text):
    assert best(EVENT, name) == text


def test_an_article_has_no_price():
    assert best(ARTICLE, "price") is None


def test_what_no_visitor_reads_is_no_candidate():
    scored = score_page(PageBlocks(PRODUCT, "https://site.example/"), {})
    for block, column, scores in zip(scored.page.blocks, scored.columns, scored.scores, strict=True):
        if block.hint.startswith(("meta ", "title")):
            assert column is None
            assert (scores == NO_SCORE).all()


def test_pages_of_a_template_share_columns():
    columns: dict[Key, BlockColumn] = {}
    first = score_page(PageBlocks(PRODUCT, "https://site.example/1"), columns)
    known = len(columns)
    second = score_page(PageBlocks(PRODUCT.replace("45.50", "46.50"), "https://site.example/2"), columns)
    assert len(columns) == known
    assert all(one is other for one, other in zip(first.columns, second.columns, strict=True))


def test_a_column_tells_where_its_blocks_stand():
    scored = score_page(PageBlocks(PRODUCT, "https://site.example/1"), {})
    of_text = {block.text: column for block, column in zip(scored.page.blocks, scored.columns, strict=True)}
    assert "del" in of_text["£59.00"].frame
    assert "related" in of_text["Others also bought"].above
    assert "nav" in of_text["Kettles"].frame


def test_an_empty_page_has_no_blocks():
    assert score_page(PageBlocks("", ""), {}).scores.shape == (0, len(FIELDS))


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("price", "Now only £1,299.00 incl. VAT", "£1,299.00"),
        ("price", "1.299,00 €", "1.299,00 €"),
        ("price", "Call us", None),
        ("availability", "Auf Lager", "Auf Lager"),
        ("availability", "Add to basket", None),
        ("availability", "Notify me when back in stock", None),
        ("availability", "Variant sold out or unavailable", None),
        ("sku", "Artikelnummer: AB-1234", "AB-1234"),
        ("sku", "see below", None),
        ("gtin", "EAN: 4006381333931", "4006381333931"),
        ("gtin", "ISBN: 978-3-16-148410-0", "978-3-16-148410-0"),
        ("gtin", "12 pieces", None),
        ("author", "By Jo Fischer", "Jo Fischer"),
        ("author", "Von Jo Fischer | 3 Minuten", "Jo Fischer"),
        ("author", "Byron Smith", "Byron Smith"),
        ("date_published", "Veröffentlicht am 3. März 2024 um 12 Uhr", "3. März 2024"),
        ("date_published", "2024年3月14日", "2024年3月14日"),
        ("date_published", "2024-03-14T08:00:00Z", "2024-03-14T08:00:00Z"),
        ("rating", "Rated 4.5 out of 5", "4.5"),
        ("description", "Short.", None),
        ("prep_time", "Prep: 1 hr 15 mins", "1 hr 15 mins"),
        ("total_time", "PT1H5M", "PT1H5M"),
        ("cook_time", "20 Minuten", "20 Minuten"),
        ("servings", "Serves 4", "4"),
        ("telephone", "Tel.: +49 30 1234567", "+49 30 1234567"),
        ("email", "Write to jo@site.example", "jo@site.example"),
        ("opening_hours", "Mon-Fri 9:00 - 17:00", "Mon-Fri 9:00 - 17:00"),
        ("opening_hours", "Every day", None),
        ("employment_type", "Vollzeit", "Vollzeit"),
        ("employment_type", "Apply", None),
        ("salary", "£40,000 a year", "£40,000 a year"),
        ("address", "12 Mill Lane, York", "12 Mill Lane, York"),
        ("address", "York", None),
    ],
)
def test_the_part_of_a_text_that_is_the_value(name, text, part):
    assert value_part(name, text) == part


@pytest.mark.parametrize(
    ("name", "text", "value", "same"),
    [
        ("price", "$1,299.00", "1299.0", True),
        ("price", "$12", "1299.0", False),
        ("availability", "Sold out", "https://schema.org/OutOfStock", True),
        ("availability", "In stock", "https://schema.org/OutOfStock", False),
        ("availability", "Lieferbar", "InStock", True),
        ("date_published", "14 March 2024", "2024-03-14T08:00:00Z", True),
        ("date_published", "03/04/2024", "2024-03-04", True),
        ("image", "https://cdn.example/a/kettle.jpg?w=300", "/media/kettle.jpg", True),
        ("title", "Copper kettle", "Copper Kettle", True),
        ("author", "By Jo Fischer", "Jo Fischer", True),
        ("author", "The Weekly", "Jo Fischer", False),
        ("total_time", "1 hr 30 mins", "PT90M", True),
        ("total_time", "1:30", "PT1H30M", True),
        ("prep_time", "20 min", "PT30M", False),
        ("servings", "Serves 4 people", "4", True),
        ("telephone", "030 1234567", "+49 30 1234567", True),
        ("address", "12 Mill Lane, York YO1", "12 Mill Lane", True),
        (
            "instructions",
            "Boil two litres of water in a large pot.",
            "Boil two litres of water in a large pot. Salt it.",
            False,
        ),
    ],
)
def test_a_text_says_a_value(name, text, value, same):
    assert says(name, text, value) is same


@pytest.mark.parametrize("text", ["1 " * 200_000, "$" * 200_000, "a" * 200_000, "1.1.1." * 50_000, "jan 1, " * 50_000])
def test_long_texts_cost_little(text):
    page = PageBlocks(f"<body><p>{text}</p><p>{text[:140]}</p><b>{text[:390]}</b></body>", "")
    assert score_page(page, {}).scores.shape[1] == len(FIELDS)
