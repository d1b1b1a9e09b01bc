"""Records of structured data: sources, types, malformed data, and the fields that a user asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from llmcrawler.core.understanding.extraction.record_schema import Field, requested_fields
from llmcrawler.core.understanding.extraction.structured_record import (
    PageToRead,
    may_have_record,
    not_stated_in,
    structured_record,
)
from llmcrawler.core.understanding.extraction.structured_values import choice, currency_code, duration, gtin
from llmcrawler.core.understanding.extraction.typed_values import read_decimal
from llmcrawler.errors import TooCostly

URL = "https://shop.example/lamps/7"


def record(html: str, page_type: str = "product", title: str = "A lamp", **given: Any) -> dict[str, Any] | None:
    return structured_record(PageToRead(html, URL, title, "en", page_type, **given))


def scripts(*objects: Any) -> str:
    return "".join(f"<script type='application/ld+json'>{json.dumps(one)}</script>" for one in objects)


def of_product(**properties: Any) -> dict[str, Any]:
    found = record(scripts({"@type": "Product", "name": "A lamp", **properties}))
    assert found is not None
    return {name: value for name, value in found.items() if name not in ("@type", "name")}


PRODUCT = {
    "@type": "Product",
    "name": "A lamp",
    "offers": {"price": "12.50", "priceCurrency": "EUR", "availability": "InStock"},
}


@pytest.mark.parametrize(
    "html",
    [
        scripts({"@type": "Product", "name": "A lamp", "offers": {"@type": "Offer", "price": "12,50 €",
            "availability": "http://schema.org/InStock"}}),
        scripts({"@context": {"schema": "http://schema.org/"}, "@type": ["schema:Product"], "schema:name": "A lamp",
            "schema:offers": [{"schema:price": 12.5, "schema:priceCurrency": "eur",
            "schema:availability": "in stock"}]}),
        scripts({"@graph": [{"@type": "Product", "name": "A lamp", "offers": {"@id": "#o"}},
            {"@type": "Offer", "@id": "#o", "priceSpecification": {"price": "12.50", "priceCurrency": "EUR"},
             "availability": {"@id": "https://schema.org/InStock"}}]}),
        scripts({"@type": "WebPage", "mainEntity": {"@type": "http://schema.org/Product", "name": {"@value": "A lamp"},
            "offers": {"price": "12.50", "priceCurrency": "EUR", "availability": "InStock"}}}),
        """<div itemscope itemtype='http://schema.org/Product'><h1 itemprop=name>A lamp</h1><b itemprop=price>12.50</b>
        <meta itemprop=priceCurrency content=EUR><link itemprop=availability href='https://schema.org/InStock'></div>""",
        """<div vocab='http://schema.org/' typeof=Product><h1 property=name>A lamp</h1><p property=offers typeof=Offer>
        <b property=price content='12.50'>12</b><i property=priceCurrency>EUR</i><a property=availability
        href='http://schema.org/InStock'>there</a></p></div>""",
        """<meta property=og:title content='A lamp'><meta property=product:price:amount content='12.50'>
        <meta property=product:price:currency content=EUR><meta property=og:availability content=instock>""",
        scripts({"@type": "Product", "name": "A lamp"})
        + "<meta property=product:price:amount content='12.50'><meta property=product:price:currency content=EUR>"
        "<meta property=product:availability content='In stock'>",
    ],
)  # fmt: skip
def test_each_source_gives_the_same_record(html: str) -> None:
    found = record(html)
    assert found is not None
    price = found["offers"]["price"]
    assert found | {"offers": found["offers"] | {"price": "12.50" if price == "12.5" else price}} == PRODUCT


def test_the_first_source_counts_and_the_others_complete_it() -> None:
    html = scripts({"@type": "Product", "name": "A lamp", "sku": "1", "offers": {"price": "5"}}) + (
        "<div itemscope itemtype='http://schema.org/Product'><b itemprop=name>A lamp</b><b itemprop=sku>2</b>"
        "<b itemprop=mpn>M</b></div><meta property=og:image content=/i.png><meta property=og:title content=Other>"
        "<meta property=product:price:amount content=6><meta property=product:price:currency content=EUR>"
    )
    assert record(html) == {
        "@type": "Product",
        "name": "A lamp",
        "sku": "1",
        "mpn": "M",
        "offers": {"price": "5", "priceCurrency": "EUR"},
        "image": ["https://shop.example/i.png"],
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"brand": {"@type": "Brand", "name": "Acme"}}, {"brand": "Acme"}),
        ({"brand": [{"name": "Acme"}, "ACME"]}, {"brand": "Acme"}),
        ({"image": ["/a.png", {"@type": "ImageObject", "url": "b.png"}, "/a.png", {"contentUrl": 3}, None]},
         {"image": ["https://shop.example/a.png", "https://shop.example/lamps/b.png"]}),
        ({"gtin13": "4006381333931", "gtin12": "123"}, {"gtin13": "4006381333931"}),
        ({"sku": 1234, "mpn": "A &amp; <b>B</b>"}, {"sku": 1234, "mpn": "A & B"}),
        ({"aggregateRating": [{"ratingValue": "4,5", "reviewCount": "1,204", "bestRating": 5, "itemReviewed": {}}]},
         {"aggregateRating": {"ratingValue": 4.5, "reviewCount": 1204, "bestRating": 5}}),
        ({"aggregateRating": "4.5/5"}, {"aggregateRating": {"ratingValue": 4.5}}),
        ({"offers": "1.234,56 €"}, {"offers": {"price": "1234.56", "priceCurrency": "EUR"}}),
        ({"offers": {"price": "on request", "priceCurrency": "ZZZ", "availability": None}}, {}),
        ({"offers": {"@type": "AggregateOffer", "lowPrice": 3, "highPrice": "9.50", "priceCurrency": "USD"}},
         {"offers": {"price": "3", "lowPrice": "3", "highPrice": "9.50", "priceCurrency": "USD"}}),
        ({"offers": [{"price": 7, "priceCurrency": "USD", "availability": "OutOfStock", "sku": "a"},
                     {"price": "5.00", "priceCurrency": "USD", "availability": "InStock", "sku": "b"}]},
         {"offers": {"price": "5.00", "lowPrice": "5.00", "highPrice": "7", "priceCurrency": "USD", "offerCount": 2,
                     "availability": "InStock", "offers": [
                         {"price": "7", "priceCurrency": "USD", "availability": "OutOfStock", "sku": "a"},
                         {"price": "5.00", "priceCurrency": "USD", "availability": "InStock", "sku": "b"}]}}),
        ({"hasVariant": [{"@type": "Product", "sku": "v", "offers": {"price": 4}}]},
         {"hasVariant": {"sku": "v", "offers": {"price": "4"}}, "offers": {"price": "4"}}),
        ({"additionalProperty": [{"@type": "PropertyValue", "name": "Watts", "value": "40"}]},
         {"additionalProperty": {"name": "Watts", "value": 40}}),
        ({"offers": [[{"price": 3}]], "brand": 7.5, "review": "good", "name2": float("inf")},
         {"brand": "7.5", "review": "good"}),
        ({"shippingDetails": {"a": 1}, "@id": "#x", "potentialAction": {}, "isRelatedTo": {"name": "Other"}}, {}),
    ],
)  # fmt: skip
def test_values_are_plain_whatever_form_they_have(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert of_product(**given) == wanted


ARTICLE = "<meta property=og:type content=article><meta property=og:title content='On lamps'>"


def test_what_a_page_shows_is_not_taken_from_its_head() -> None:
    html = ARTICLE + "<meta name=description content=Short><meta property=article:published_time content=2024-05-01>"
    page = PageToRead(html, URL, "On lamps", "en", "article")
    assert structured_record(page, shown=("title", "summary")) == {"@type": "Article", "datePublished": "2024-05-01"}
    stated = PageToRead(
        scripts({"@type": "Article", "headline": "On lamps", "description": "Long"}), URL, "On lamps", "", "article"
    )
    found = structured_record(stated, shown=("title", "description"))
    assert found is not None
    assert (found["headline"], found["description"]) == ("On lamps", "Long")


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        (scripts({"@type": "NewsArticle", "headline": "On lamps", "author": [{"name": "Jane Doe"}, "Joe", "jane doe"],
            "datePublished": "May 1, 2024", "keywords": "a, b;a", "articleSection": ["News"], "wordCount": "120"}),
         {"@type": "NewsArticle", "headline": "On lamps", "author": ["Jane Doe", "Joe"], "datePublished": "2024-05-01",
          "keywords": ["a", "b"], "articleSection": "News", "wordCount": 120}),
        (scripts({"@graph": [
            {"@type": "Article", "headline": "On lamps", "author": {"@id": "#j"}, "isPartOf": {"@id": "#w"}},
            {"@type": "Person", "@id": "#j", "name": "Jane"}, {"@type": "WebPage", "@id": "#w",
            "dateModified": "2024-05-01T10:00:00Z", "name": "On lamps | Site"}]}),
         {"@type": "Article", "headline": "On lamps", "author": ["Jane"], "dateModified": "2024-05-01T10:00:00+00:00"}),
        (ARTICLE + "<meta property=article:published_time content=2024-05-01><meta property=article:author"
         " content=https://facebook.com/jane><meta name=author content=Jane><meta property=article:tag content=a>"
         "<meta property=article:tag content=b>",
         {"@type": "Article", "headline": "On lamps", "name": "On lamps", "datePublished": "2024-05-01",
          "keywords": ["a", "b"], "author": ["Jane"]}),
        ("""<meta name=citation_title content='On lamps'><meta name=citation_author content='Doe, Jane'>
         <meta name=citation_author content='Roe, R.'><meta name=citation_publication_date content=2024/05/01>""",
         {"@type": "Article", "headline": "On lamps", "name": "On lamps", "author": ["Doe, Jane", "Roe, R."],
          "datePublished": "2024-05-01"}),
        ("""<meta name=DC.title content='On lamps'><meta name=dcterms.created content=1714557600>
         <meta name=parsely-section content=News>""",
         {"@type": "Article", "headline": "On lamps", "name": "On lamps", "datePublished": "2024-05-01T10:00:00+00:00",
          "articleSection": "News"}),
        (scripts({"@type": "Article", "headline": "On lamps", "datePublished": "0001-01-01T00:00:00",
          "dateModified": "soon"}),
         {"@type": "Article", "headline": "On lamps"}),
    ],
)  # fmt: skip
def test_articles_have_authors_and_dates(html: str, wanted: dict[str, Any]) -> None:
    assert record(html, "article", "On lamps | Site") == wanted


@pytest.mark.parametrize(
    ("page_type", "given", "wanted"),
    [
        ("event", {"@type": "MusicEvent", "startDate": "2024-05-01T20:00", "location": {"@type": "Place",
            "name": "Hall", "address": {"@type": "PostalAddress", "addressLocality": "Bonn", "addressCountry":
            {"name": "DE"}}},
            "organizer": {"name": "Club"}, "offers": {"price": 0}, "eventStatus": "https://schema.org/EventCancelled"},
         {"startDate": "2024-05-01T20:00:00", "location": {"name": "Hall", "address": {"addressLocality": "Bonn",
          "addressCountry": "DE"}}, "organizer": "Club", "offers": {"price": "0"}, "eventStatus": "EventCancelled"}),
        ("job", {"@type": "JobPosting", "title": "Baker", "hiringOrganization": {"name": "Bread Ltd"}, "validThrough":
            "2024-06-01", "employmentType": ["FULL_TIME"], "jobLocation": [{"address": {"addressLocality": "Bonn"}}],
            "baseSalary": {"currency": "EUR", "value": {"minValue": "30000", "maxValue": 40000, "unitText": "YEAR"}}},
         {"title": "Baker", "hiringOrganization": "Bread Ltd", "validThrough": "2024-06-01", "employmentType":
          "FULL_TIME", "jobLocation": {"address": {"addressLocality": "Bonn"}}, "baseSalary": {"currency": "EUR",
          "value": {"minValue": 30000, "maxValue": 40000, "unitText": "YEAR"}}}),
        ("recipe", {"@type": "Recipe", "recipeIngredient": ["1 egg", " 2  cups flour"], "cookTime": "1 hour 20 min",
            "recipeInstructions": [{"@type": "HowToSection", "itemListElement": [{"text": "Mix"}, {"text": "Bake"}]},
            "Eat"], "nutrition": {"calories": "90 kcal"}, "recipeYield": "4"},
         {"recipeIngredient": ["1 egg", "2 cups flour"], "cookTime": "PT1H20M", "recipeInstructions": ["Mix", "Bake",
          "Eat"], "nutrition": {"calories": "90 kcal"}, "recipeYield": "4"}),
        ("book", {"@type": "Book", "isbn": "978-3-16-148410-0", "author": "Jane", "numberOfPages": "320"},
         {"isbn": "978-3-16-148410-0", "author": ["Jane"], "numberOfPages": 320}),
        ("restaurant", {"@type": "Restaurant", "telephone": "+49 1", "servesCuisine": "German"},
         {"telephone": "+49 1", "servesCuisine": "German"}),
        ("lamp", {"@type": "Sculpture", "material": "Clay"}, {"material": "Clay"}),
    ],
)  # fmt: skip
def test_other_things_have_what_is_said_of_them(page_type: str, given: Any, wanted: Any) -> None:
    name = {} if page_type == "job" else {"name": "A lamp"}
    title = "Baker" if page_type == "job" else "A lamp"
    assert record(scripts({**given, **name}), page_type, title) == {"@type": given["@type"], **wanted, **name}


@pytest.mark.parametrize(
    ("html", "page_type"),
    [
        ("<title>A lamp</title><meta name=description content=d><meta name=keywords content=k>", "product"),
        ("<meta property=og:title content='A lamp'><meta property=og:site_name content=Lamps>", "product"),
        (
            scripts({"@type": "Organization", "name": "A lamp"}, {"@type": "BreadcrumbList", "itemListElement": []}),
            "product",
        ),
        (scripts({"@type": "Product", "name": "Chair"}, {"@type": "Product", "name": "Table"}), "product"),
        (scripts({"@type": "FAQPage", "mainEntity": [{"@type": "Question", "name": "A lamp?"}]}), "article"),
        (scripts({"@type": "HVACBusiness", "name": "Lamps Ltd"}), "article"),
        (scripts({"@type": "Museum", "name": "A lamp", "telephone": "1", "sameAs": ["https://x.example"]}), "service"),
        ("<script type='application/ld+json'>{broken</script>", "product"),
        (scripts(["Product", {"@type": 7}, {"@type": ["Product", None]}]), "product"),
    ],
)
def test_what_says_nothing_of_the_page_is_no_record(html: str, page_type: str) -> None:
    assert record(html, page_type) is None


def test_the_product_of_a_page_is_the_one_that_it_is_named_after() -> None:
    found = record(scripts(*({"@type": "Product", "name": name} for name in ("A lamp no 2", "A lamp", "A lamp no 3"))))
    assert found == {"@type": "Product", "name": "A lamp"}


def test_where_the_type_is_a_guess_only_an_object_counts() -> None:
    html = ARTICLE + "<meta name=author content=Jane>"
    assert record(html, "article", is_sure=True) is not None
    assert record(html, "article", is_sure=False) is None


def cyclic(size: int) -> str:
    """Objects that all refer to each other."""
    nodes = [
        {"@id": f"#{n}", "@type": "Product", "name": "A lamp", "links": [{"@id": f"#{m}"} for m in range(size)]}
        for n in range(size)
    ]
    return scripts({"@graph": nodes})


@pytest.mark.parametrize(
    "html",
    [
        scripts({"@type": "Product", "name": "A lamp", "description": "x" * 300_000, "sku": "1"}),
        scripts({"@type": "Product", "name": "A lamp", "sku": "1", **{f"k{n}": n for n in range(50_000)}}),
        scripts({"@type": "Product", "name": "A lamp", "sku": "1", "review": [{"reviewBody": "x" * 900}] * 500}),
        "<script type='application/ld+json'>{\"@type\":\"Product\",\"name\":\"A lamp\",\"sku\":\"1\",\"a\":"
        + "[" * 900 + "]" * 900 + "}</script>",
        cyclic(60),
        "<meta property=og:title content='A lamp'>" + "<meta property=og:image content=x.png>" * 5_000,
    ],
)  # fmt: skip
def test_a_page_cannot_make_its_record_huge(html: str) -> None:
    found = record(html)
    assert found is not None
    assert found["name"] == "A lamp"
    assert len(json.dumps(found)) < 300_000


def test_a_page_that_takes_too_many_steps_is_too_costly() -> None:
    with pytest.raises(TooCostly):
        structured_record(PageToRead(scripts({"@type": "Product", "name": "A"}), URL, "A", "", "product"), None, 3)


SHOP = scripts({
    "@type": "Product", "name": "A lamp", "brand": {"name": "Acme"}, "image": ["/a.png", "/b.png"],
    "gtin13": "4006381333931",
    "offers": {"price": "12.50", "priceCurrency": "EUR", "availability": "OutOfStock"}, "datePublished": "2024-05-01",
    "aggregateRating": {"ratingValue": 4.5, "reviewCount": 7}, "author": ["Jane", "Joe"], "color": "red",
    "review": [{"author": "Ann", "reviewBody": "Good"}, {"author": "Bob", "reviewBody": "Bad"}],
})  # fmt: skip


def asked(*fields: Field) -> dict[str, Any] | None:
    return structured_record(PageToRead(SHOP, URL, "A lamp", "en", "product"), fields)


def test_fields_that_a_user_asks_for_are_found_by_name_and_by_what_people_call_them() -> None:
    requested = requested_fields(
        "title,price:number,currency,in_stock:boolean,ean,brand,rating:number,reviews:integer,images[]:url,image:url"
        ",authors[],author,published:date,offers_price,colour,weight"
    )
    assert asked(*requested.fields) == {
        "title": "A lamp", "price": 12.5, "currency": "EUR", "in_stock": False, "ean": "4006381333931", "brand": "Acme",
        "rating": 4.5, "reviews": 7, "images": ["https://shop.example/a.png", "https://shop.example/b.png"],
        "image": "https://shop.example/a.png", "authors": ["Jane", "Joe"], "author": "Jane, Joe",
        "published": "2024-05-01", "offers_price": "12.50", "colour": "red", "weight": None,
    }  # fmt: skip


def test_nested_fields_and_lists_of_objects_are_found_too() -> None:
    of_reviews = Field("author", group="reviews"), Field("body", group="reviews")
    assert asked(Field("price.amount", "number"), Field("price.currency"), *of_reviews) == {
        "price": {"amount": 12.5, "currency": "EUR"},
        "reviews": [{"author": "Ann", "body": "Good"}, {"author": "Bob", "body": "Bad"}],
    }


def test_a_page_with_none_of_the_fields_has_no_record() -> None:
    assert asked(Field("weight"), Field("height", "number")) is None


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (currency_code, {"EUR": "EUR", "usd": "USD", "12 €": "EUR", "US$5": "USD", "$5": None, "ABC": None}),
        (choice, {"http://schema.org/PreOrder": "PreOrder", "in_stock": "InStock", "oos": "OutOfStock", "": None,
            "Auf Lager": "InStock", "in 2 days": "in 2 days"}),
        (duration, {"pt30m": "PT30M", "T1M33S": "PT1M33S", "45 minutes": "PT45M", "a while": "a while", "": None}),
        (read_decimal, {"1.234,56": "1234.56", "$1,299.00": "1299.00", "12": "12", "1.299,-": "1299", "007": "7",
            "-3": None, "3 - 5": None, "": None, ".99": "0.99"}),
        (gtin, {"4006381333931": "4006381333931", "4006381333932": None, "00000000": None, "9638-5074": "96385074"}),
    ],
)  # fmt: skip
def test_codes_are_read_and_what_is_none_is_left(
    read: Callable[[str], str | None], texts: dict[str, str | None]
) -> None:
    assert {text: read(text) for text in texts} == texts


_TWO = "<meta name=author content=Ann><META\nCONTENT='2024-01-02' NAME='Date'/>"


@pytest.mark.parametrize(
    ("html", "may_have"),
    [
        ('<script type="application/ld+json">{}</script>', True),
        ("<div itemscope>", True),
        ('<div typeof="Product">', True),
        ("<div typeof property=x>", True),
        ("<div TYPEOF=Product><script>typeof x</script>", True),
        (_TWO, True),
        ('<meta name="descr&#105;ption" content="x">', True),
        ('<meta content="a"b" name="x">', True),
        ("", False),
        ("<title>A</title><meta charset=utf-8><meta name='description' content='itemprop=\"author\"'>", False),
        ('<meta property="og:title" content="A"><meta name="twitter:title" content="A"><meta name=keywords>', False),
        ("<script>if (typeof x === 'y' || typeof(z) == 1) f(typeof a)</script>", False),
        ("<metadata name=author><metadata name=date>", False),
    ],
)
def test_which_pages_may_have_a_record(html: str, may_have: bool) -> None:
    assert may_have_record(html, of_metas=True) == may_have


def test_metas_count_where_they_are_asked_for() -> None:
    assert not may_have_record(_TWO, of_metas=False)


def test_what_structured_data_says_under_its_own_name_is_said_once() -> None:
    stated = {"@type": "Book", "name": "A", "datePublished": "2023-05-11T10:00", "publisher": "The shop", "url": URL}
    learned = {"title": "A", "published": "2023-05-11", "publisher": "Hanser", "type": "hardcover", "pages": 90}
    assert not_stated_in(stated, learned) == {"publisher": "Hanser", "type": "hardcover", "pages": 90}
