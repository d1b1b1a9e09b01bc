"""What the annotator without a model points at, on templates made here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.resources import files
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from llmcrawler.core.understanding.extraction.blocks import Induced, TrainingPage
from llmcrawler.core.understanding.extraction.candidate_scorer import FEATURES
from llmcrawler.core.understanding.extraction.column_annotator import annotate
from llmcrawler.core.understanding.extraction.extractor import compile_extractor
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema, requested_fields, schema_of
from llmcrawler.core.understanding.extraction.training_run import ColumnAnnotator, TrainingRules, TrainingRun

NAMES = "Amber lamp,Broad kettle,Calm mirror,Deep drawer,Early basket,Faint candle,Gentle needle,Heavy anchor".split(
    ","
)
MAKERS = "Nordlys,Cavallo,Gillis,Dunn,Nordlys,Cavallo,Gillis,Dunn".split(",")
FRAME = '<header><a href="/">Home of things</a></header>{}<footer><b>Phone:</b> <span>0800 123</span></footer>'


def product(n: int, more: str = "", price_label: str = "Price") -> str:
    old = f'<del class="old-price">£{n + 20}.50</del>' if n % 4 == 0 else ""
    return f"""<html lang="en"><head><title>{NAMES[n]} | Things</title></head><body>{
        FRAME.format(f'''
    <main><h1>{NAMES[n]}</h1><p class="price">{old}<span class="now">£{n + 10}.99</span></p>
    <table><tr><th>Brand</th><td>{MAKERS[n]}</td></tr><tr><th>{price_label}</th><td>£{n + 10}.99</td></tr>
    <tr><th>Thread count</th><td>{30 * n + 100}</td></tr><tr><th>Made in</th><td>Europe</td></tr></table>
    <p class="stock">In stock ({3 * n + 2} available)</p>{more}</main>''')
    }</body></html>"""


def pages_of(html_of: Callable[[int], str], count: int = 8) -> list[TrainingPage]:
    return [TrainingPage(f"http://shop.example/p/{n}", NAMES[n], "en", html_of(n), frozenset()) for n in range(count)]


def pointed_texts(answer: Induced, pages: list[TrainingPage], field: str) -> list[str | None]:
    """The text that is pointed at on each page, None where there is none."""
    found: list[str | None] = []
    for place, page in enumerate(pages):
        blocks = page.blocks().blocks
        given = [one for one in answer.values[str(place)] if one.field == field and one.blocks]
        found.append(given[0].quote or blocks[given[0].blocks[0] - 1].text if given else None)
    return found


def records(
    pages: list[TrainingPage], fields: str | RequestedSchema = "", kind: str = "product"
) -> list[dict[str, Any]]:
    requested = requested_fields(fields) if fields and isinstance(fields, str) else fields or None
    run = TrainingRun(kind, ColumnAnnotator(requested), TrainingRules())
    result = asyncio.run(run.run(pages))
    assert result.extractor is not None
    return [compile_extractor(result.extractor).extract(page.html, page.url, page.lang).record for page in pages]


def test_a_training_without_a_model_is_one_piece_of_work_for_another_process() -> None:
    pieces: list[Callable[..., Any]] = []

    async def train(function: Callable[..., Any], *arguments: Any) -> Any:
        pieces.append(function)
        return function(*arguments)

    run = TrainingRun("product", ColumnAnnotator(), TrainingRules(), train=train)
    result = asyncio.run(run.run(pages_of(product)))
    assert len(pieces) == 1
    assert [one.record["title"] for one in result.found] == NAMES


def test_usual_fields_and_labelled_ones_are_found_without_a_request() -> None:
    found = records(pages_of(product))
    assert [one["title"] for one in found] == NAMES
    assert [one["brand"] for one in found] == MAKERS
    assert [one["thread_count"] for one in found] == [30 * n + 100 for n in range(8)]
    assert [one["num_available"] for one in found] == [3 * n + 2 for n in range(8)]


def test_what_is_the_same_on_all_pages_and_what_stands_in_the_frame_is_no_field() -> None:
    for one in records(pages_of(product)):
        assert "made_in" not in one
        assert "phone" not in one
        assert "telephone" not in one


def test_a_price_that_is_struck_out_is_the_old_one_and_null_elsewhere() -> None:
    found = records(pages_of(product), "title,price:number,old_price:number")
    assert [one["old_price"] for one in found] == [n + 20.5 if n % 4 == 0 else None for n in range(8)]
    assert [one["price"] for one in found] == [pytest.approx(n + 10.99) for n in range(8)]


@pytest.mark.parametrize("label", ["Price", "Preis", "Prix", "Precio", "Cena", "価格"])
def test_a_label_in_another_language_is_understood(label: str) -> None:
    pages = pages_of(lambda n: product(n, price_label=label).replace('class="now"', "").replace('class="price"', ""))
    answer = annotate(pages, "product", requested_fields("price:number"))
    assert pointed_texts(answer, pages, "price") == [f"£{n + 10}.99" for n in range(8)]


def test_a_field_that_is_on_no_page_is_not_pointed_at() -> None:
    answer = annotate(pages_of(product), "product", requested_fields("title,isbn,mileage:number"))
    assert {one.key for one in answer.fields} == {"title"}


@pytest.mark.parametrize("field", ["sku", "mpn", "author"])
def test_what_looks_like_a_field_that_the_pages_do_not_have_is_not_taken_for_it(field: str) -> None:
    """A sku may be any code, and "Thread count" says that the one on the pages is none."""
    answer = annotate(pages_of(product), "product", requested_fields(f"title,{field}"))
    assert {one.key for one in answer.fields} == {"title"}


def test_a_number_within_a_text_is_pointed_at_by_a_quote() -> None:
    pages = pages_of(product)
    answer = annotate(pages, "product", requested_fields("num_available:integer"))
    assert pointed_texts(answer, pages, "num_available") == [str(3 * n + 2) for n in range(8)]


def test_what_only_a_data_attribute_says_is_pointed_at_and_what_the_text_says_too_is_not() -> None:
    def ordered(n: int) -> str:
        bar = f'<div class="buy" data-sku="QX-{70 * n + 211}" data-price="{n + 10}.99">£{n + 10}.99</div>'
        return product(
            n, bar + f'<div class="delivery" data-weight="{40 * n + 150}" data-toggle="tab{n}">Delivery</div>'
        )

    assert [one["sku"] for one in records(pages_of(ordered), "sku")] == [f"QX-{70 * n + 211}" for n in range(8)]
    shown = [block.hint for block in pages_of(ordered)[0].blocks().blocks if "@data" in block.hint]
    assert shown == ["div.buy@data-sku"]


@pytest.mark.parametrize(
    ("script", "path"),
    [
        ('<script id="__NEXT_DATA__" type="application/json">{}</script>', "__NEXT_DATA__"),
        ("<script>window.__APP_STATE__ = {};</script>", "__APP_STATE__"),
        ('<script id="product-7" type="application/json">{}</script><script>var a = 1</script>', "product-"),
    ],
)
def test_what_only_the_json_of_a_script_says_is_pointed_at_and_what_the_text_says_too_is_not(
    script: str, path: str
) -> None:
    def ordered(n: int) -> str:
        sold = {"sku": f"QX-{70 * n + 211}", "price": f"{n + 10}.99", "tint": n, "related": [{"sku": "A-1"}]}
        data = {"props": {"menu": {"title": "Home"}, "item": sold}}
        return product(n, f"<p>£{n + 10}.99</p>{script.replace('{}', json.dumps(data))}")

    pages = pages_of(ordered)
    assert [one["sku"] for one in records(pages, "sku")] == [f"QX-{70 * n + 211}" for n in range(8)]
    shown = [block.hint for block in pages[0].blocks().blocks if block.hint.startswith("json ")]
    assert shown == [f"json {path}.props.item.sku"]


def test_an_amount_that_only_a_script_states_in_cents_is_not_the_price_that_is_seen() -> None:
    def ordered(n: int) -> str:
        return product(n, f'<p class="price">£{n + 10}.99</p><script>{{"price": {100 * n + 1099}}}</script>')

    assert [one["price"] for one in records(pages_of(ordered), "price:number")] == [
        float(f"{n + 10}.99") for n in range(8)
    ]


def test_pages_that_show_something_else_in_a_place_say_nothing_of_the_field() -> None:
    def named_by_a_number(n: int) -> str:
        return product(n).replace(f"<h1>{NAMES[n]}</h1>", "<h1>2001</h1>") if n in (2, 5) else product(n)

    found = records(pages_of(named_by_a_number))
    assert found[0]["title"] == NAMES[0]
    assert "sku" not in found[0]


def test_structured_data_speaks_for_what_it_says_and_is_not_learned_again() -> None:
    def stating(n: int) -> str:
        said = {"@type": "Product", "name": NAMES[n], "brand": MAKERS[n], "offers": {"price": f"{n + 10}.99"}}
        return product(
            n, f'<script type="application/ld+json">{json.dumps({"@context": "https://schema.org", **said})}</script>'
        )

    pages = pages_of(stating)
    named = {one.key for one in annotate(pages, "product", None).fields}
    assert not named & {"price", "brand"}  # the title is, since that in a head is no good one
    assert "thread_count" in named
    answer = annotate(pages, "product", requested_fields("brand"))
    assert pointed_texts(answer, pages, "brand") == MAKERS


def test_a_page_that_stands_alone_gives_what_is_clear_on_it() -> None:
    (page,) = pages_of(product, 1)
    answer = annotate([page], "product", requested_fields("title,brand,thread_count"))
    assert pointed_texts(answer, [page], "title") == ["Amber lamp"]
    assert pointed_texts(answer, [page], "brand") == ["Nordlys"]


@pytest.mark.parametrize("html", ["", "<html>", "<p>" * 5_000, "<table>" + "<tr><th>a<td>b" * 500, "<b>:</b>" * 2_000])
def test_odd_pages_give_no_fault(html: str) -> None:
    pages = [TrainingPage(f"http://shop.example/{n}", "", "", html, frozenset()) for n in range(3)]
    for requested in (None, requested_fields("title,price:number,tags[]")):
        assert annotate(pages, "product", requested).values.keys() == {"0", "1", "2"}
        assert annotate(pages[:1], "product", requested).values.keys() == {"0"}


def test_a_label_that_is_called_as_a_group_of_objects_is_no_field_beside_it() -> None:
    def reviewed(n: int) -> str:
        reviews = "".join(
            f'<div class="review"><span class="author">{MAKERS[(n + k) % 8]}</span><time>2024-0{k + 1}-1{n}</time>'
            f"<p>The {NAMES[n]} is what I was looking for since {n + k} years.</p></div>"
            for k in range(3)
        )
        return product(n, f'<p><b>Reviews:</b> <span>{n + 3}</span></p><div id="reviews">{reviews}</div>')

    fields = annotate(pages_of(reviewed), "product", None).fields
    assert {one.group for one in fields} >= {"reviews"}
    assert "reviews" not in {one.key for one in fields}


def test_the_title_at_the_end_of_a_breadcrumb_is_no_other_field() -> None:
    def led_to(n: int) -> str:
        path = f'<ol class="path"><li><a href="/">Home</a></li><li class="sku category active">{NAMES[n]}</li></ol>'
        return product(n).replace("<main>", f"{path}<main>")

    for one in records(pages_of(led_to)):
        assert {name for name, value in one.items() if value == one["title"]} == {"title"}


def test_a_date_that_is_asked_for_without_a_type_is_read_as_one() -> None:
    pages = pages_of(lambda n: product(n, f"<p>Published: {n + 1} March 2024</p>"))
    assert [one["published"] for one in records(pages, "title,published")] == [f"2024-03-0{n + 1}" for n in range(8)]


def test_a_title_without_a_heading_of_the_first_rank_is_told_by_the_pages_own() -> None:
    def thread(n: int) -> str:
        posts = "".join(
            f"<div class=post><div class=who><b>{MAKERS[n - at]}</b></div><p>{at} {n}</p></div>" for at in (0, 1)
        )
        return f"<title>{NAMES[n]} | A forum</title><p class=path>Index</p><h2 class=topic>{NAMES[n]}</h2>{posts}"

    assert [one["title"] for one in records(pages_of(thread), "title")] == NAMES


def test_what_only_the_structured_data_says_is_found_where_it_is_asked_for() -> None:
    def hidden(n: int) -> str:
        data = {
            "@type": "Product",
            "name": NAMES[n],
            "sku": f"A-{n}7",
            "offers": {"@type": "Offer", "priceCurrency": "EUR"},
        }
        return product(n, f'<script type="application/ld+json">{json.dumps(data)}</script>')

    found = records(pages_of(hidden), "title,sku,currency")
    assert [(one["sku"], one["currency"]) for one in found] == [(f"A-{n}7", "EUR") for n in range(8)]


def test_a_value_behind_the_very_label_that_is_asked_for_may_look_like_anything() -> None:
    pages = pages_of(lambda n: product(n, f"<dl><dt>Hours</dt><dd>{20 + n % 3} a week</dd></dl>"))
    assert [one["hours"] for one in records(pages, "title,hours")] == [f"{20 + n % 3} a week" for n in range(8)]


def test_several_numbers_in_one_text_are_told_apart_by_what_they_count() -> None:
    pages = pages_of(lambda n: product(n, f"<p class=info>{n + 1},{n}07 views, {n + 2} replies</p>"))
    found = records(pages, "title,views:integer,replies:integer")
    assert [(one["views"], one["replies"]) for one in found] == [
        (1000 * (n + 1) + 100 * n + 7, n + 2) for n in range(8)
    ]


def test_rows_are_found_by_what_is_asked_of_them_whatever_they_are_called() -> None:
    def shelf(n: int) -> str:
        cards = "".join(
            f'<div class="col"><h3><a href="/p/{n}{at}">{NAMES[(n + at) % 8]} {at}</a></h3><b>£{n + at}.50</b></div>'
            for at in range(3 + n % 2)
        )
        return f"<title>Shelf {n}</title><h1>Shelf {n}</h1><div class=grid>{cards}</div>"

    asked = [
        Field("title", "string", group="cards"),
        Field("url", "url", group="cards"),
        Field("price", "number", group="cards"),
    ]
    requested = RequestedSchema(schema_of(asked), tuple(asked))
    found = records(pages_of(shelf), requested, "listing")
    assert [len(one["cards"]) for one in found] == [3 + n % 2 for n in range(8)]
    assert found[0]["cards"][1] == {"title": f"{NAMES[1]} 1", "url": "http://shop.example/p/01", "price": 1.5}


def test_a_known_label_on_few_pages_is_enough() -> None:
    def rare(n: int) -> str:
        return product(
            n, f"<p><strong>License:</strong> <i>{('MIT', 'BSD')[n // 7]}-{n}</i></p>" if n in (1, 7) else ""
        )

    found = [one["license"] for one in records(pages_of(rare), "title,license")]
    assert found == [None, "MIT-1", None, None, None, None, None, "BSD-7"]


def test_a_link_that_is_called_as_what_is_asked_for_is_its_value() -> None:
    pages = pages_of(lambda n: product(n, f'<ul><li><a href="https://site{n}.example/">Home page</a></li></ul>'))
    assert [one["website"] for one in records(pages, "title,website:url")] == [
        f"https://site{n}.example/" for n in range(8)
    ]


def test_a_box_of_the_page_itself_may_be_made_as_that_of_related_things() -> None:
    def boxed(n: int) -> str:
        others = (f"<p><a href='/p/{other}'>{NAMES[other]}</a> <i>£{other}9.50</i></p>" for other in (n - 2, n - 1))
        told = "".join(f"<p>Part {part} of lot {n} is made by hand.</p>" for part in range(9))
        own = f"<h4>{NAMES[n]}</h4><p class=maker>{MAKERS[n]}</p>{told}"
        boxes = "".join(f"<div class=row>{inner}</div>" for inner in (own, *others))
        return f"<html><head><title>{NAMES[n]}</title></head><body>{boxes}</body></html>"

    pages = pages_of(boxed)
    found = annotate(pages, "product", requested_fields("title,maker,price"))
    assert pointed_texts(found, pages, "title") == NAMES
    assert pointed_texts(found, pages, "maker") == MAKERS
    assert pointed_texts(found, pages, "price") == [None] * len(pages)


def test_what_is_said_of_related_things_is_no_field_of_the_page() -> None:
    def page(n: int) -> str:
        other = f'<div class="related"><h3>{NAMES[n - 1]}</h3><s class="old-price">£{n + 50}.10</s></div>' * (n % 2)
        return f"<title>{NAMES[n]}</title><body><h1>{NAMES[n]}</h1><p class=price>£{n}.50</p>{other}"

    assert all(one.get("old_price") is None for one in records(pages_of(page), "title,price:number,old_price:number"))


def test_of_a_path_that_is_asked_for_in_the_singular_the_last_category_is_given() -> None:
    kinds = ["Lamps"] + ["Tools"] * 7  # crawls come along categories

    def page(n: int) -> str:
        links = "".join(f'<li><a href="/{one}/">{one}</a></li>' for one in ("Home", "Shop", kinds[n]))
        return product(n, f'<ul class="breadcrumb">{links}<li>{NAMES[n]}</li></ul>')

    pages = pages_of(page)
    assert [one["category"] for one in records(pages, "title,category")] == kinds
    assert [one["categories"] for one in records(pages)] == [["Shop", one] for one in kinds]


def test_a_date_keeps_its_time_and_a_writer_no_full_stop() -> None:
    def page(n: int) -> str:
        return f"""<title>{NAMES[n]}</title><body><h1>{NAMES[n]}</h1><p class="author">Written by {MAKERS[n]} Holt.</p>
        <time class="published" datetime="2024-05-{n + 10}T08:{n + 10}:00+00:00">{n + 10} May 2024</time>"""

    found = records(pages_of(page), "title,author,published:date", "article")
    assert [one["author"] for one in found] == [f"{one} Holt" for one in MAKERS]
    assert [one["published"] for one in found] == [f"2024-05-{n + 10}T08:{n + 10}:00+00:00" for n in range(8)]


def test_a_heading_says_that_what_is_below_it_is_of_other_pages() -> None:
    def page(n: int) -> str:
        other = f'<article><h3>{NAMES[n - 1]}</h3><s class="old-price">£{n + 50}.10</s></article>' * (n % 2)
        head = f"<title>{NAMES[n]}</title><body><h1>{NAMES[n]}</h1><p class=price>£{n}.50</p>"
        return f"{head}<section><h2>You might also like</h2>{other}</section>"

    assert all(one.get("old_price") is None for one in records(pages_of(page), "title,price:number,old_price:number"))


def test_a_cell_that_holds_a_label_need_not_be_a_heading_cell() -> None:
    def page(n: int) -> str:
        row = "<tr class='a'><td><b>Colour</b></td><td>ivory</td></tr>" * (n < 3)
        return product(n, f"<table>{row}<tr class='b'><td><b>Code</b></td><td>K{n}</td></tr></table>")

    answer = annotate(pages_of(page), "product", requested_fields("title,colour"))
    assert pointed_texts(answer, pages_of(page), "colour") == ["ivory"] * 3 + [None] * 5


@pytest.mark.parametrize("between", ["<br>", ", "])
def test_street_town_and_postal_code_are_found_within_an_address(between: str) -> None:
    streets, towns = ["Am Anger", "Lange Gasse"] * 4, ["Jena", "Bad Aibling", "Halle"] * 3

    def page(n: int) -> str:
        lines = f"{streets[n]} {n + 20}{between}{37500 + n} {towns[n]}"
        return f"<title>{NAMES[n]}</title><body><h1>{NAMES[n]}</h1><div class=adresse>{lines}</div>"

    found = records(pages_of(page), "titel,strasse,plz,stadt", "event")
    assert [(one["strasse"], one["plz"], one["stadt"]) for one in found] == [
        (f"{streets[n]} {n + 20}", f"{37500 + n}", towns[n]) for n in range(8)
    ]


def test_what_is_asked_for_and_named_nowhere_is_null_though_only_one_text_is_left() -> None:
    def page(n: int) -> str:
        head = f"<title>{NAMES[n]}</title><body><h1>{NAMES[n]}</h1><b class=price>£{n}.50</b>"
        return f"{head}<p>{MAKERS[n]} works</p><div>All sizes</div>"

    found = records(pages_of(page), "title,price:number,maintainer")
    assert all(one["title"] and one.get("maintainer") is None for one in found)


TOWNS = "Foix,Metz,Brest,Le Mans,Nice,Sète,Dijon,Pau".split(",")


@pytest.mark.parametrize("end", [", FR", ",", " · France", ":"])
def test_a_value_does_not_have_the_end_that_is_the_same_on_all_pages(end: str) -> None:
    skills = "<ul class=skills><li>{}{}</li><li>{} ware{}</li></ul>"

    def page(n: int) -> str:
        return product(n, f"<span class=city>{TOWNS[n]}{end}</span>{skills.format(MAKERS[n], end, MAKERS[n], end)}")

    schema = RequestedSchema({}, (Field("title"), Field("city"), Field("skills", many=True)))
    found = records(pages_of(page), schema)
    assert [(one["city"], one["skills"]) for one in found] == [
        (town, [maker, f"{maker} ware"]) for town, maker in zip(TOWNS, MAKERS, strict=True)
    ]


def test_the_scheme_of_an_address_that_stands_in_the_text_is_no_label() -> None:
    found = records(pages_of(lambda n: product(n, f"<p>https://{MAKERS[n]}.example</p>")))
    assert not any("https" in one for one in found)


def test_a_value_under_a_heading_for_contact_is_the_pages_own() -> None:
    def page(n: int) -> str:
        mail = f"<div><h2>Contact</h2><p><a href=mailto:m{n}@shop.example>m{n}@shop.example</a></p></div>"
        return f"<title>{NAMES[n]}</title><body><main><h1>{NAMES[n]}</h1><p>{MAKERS[n]}</p></main>{mail}"

    assert [one["email"] for one in records(pages_of(page), "name,email", "profile")] == [
        f"m{n}@shop.example" for n in range(8)
    ]


@pytest.mark.parametrize(
    "sold",
    [
        '<p class="seller">Sold by our friends of <a href="/{}">{}</a></p>',
        '<p class="seller">Vendido por <a href="/{}">{}</a></p>',
        '<div class="seller">Sold by <b id="{}">{}</b></div>',
    ],
)
def test_of_a_text_that_is_else_the_same_on_all_pages_the_part_that_varies_is_pointed_at(sold: str) -> None:
    pages = pages_of(lambda n: product(n, sold.format(n, MAKERS[n])))
    assert pointed_texts(annotate(pages, "product", requested_fields("seller")), pages, "seller") == MAKERS


SIZES = [f"{5 * n + 31} cm" for n in range(8)]
STATES = "new,used,new,worn,used,new,worn,new".split(",")


def test_what_stands_between_two_headings_is_the_value_of_the_first_alone() -> None:
    more = "<div><h3>Width</h3><p>{}</p><h3>Status</h3><p>{}</p></div>"
    found = records(pages_of(lambda n: product(n, more.format(SIZES[n], STATES[n]))), "title,width,status")
    assert [(one["width"], one["status"]) for one in found] == list(zip(SIZES, STATES, strict=True))


@pytest.mark.parametrize(
    "line",
    [
        '<div class="fact"><svg aria-label="Breite"></svg><span>{}</span></div>',
        '<p class="fact"><i title="Breite"></i> {}</p>',
        '<p class="fact"><i class="icon icon-width"></i> {}</p>',
        '<p class="fact" data-label="Breite">{}</p>',
    ],
)
def test_an_icon_and_an_attribute_name_the_value_that_has_no_other_label(line: str) -> None:
    def html(n: int) -> str:
        others = "".join(line.replace("Breite", name).replace("width", name).format(n + 3) for name in ("Foo", "Bar"))
        return product(n, (others[: len(others) * (n % 2)]) + line.format(SIZES[n]))

    assert [one["width"] for one in records(pages_of(html), "title,width")] == SIZES


def test_a_label_that_means_another_of_the_fields_is_believed() -> None:
    pages = pages_of(lambda n: product(n, f"<dl><dt>Maintainer</dt><dd>Ann {MAKERS[n]}</dd></dl>"))
    found = records(pages, "title,author,maintainer")
    assert [one["maintainer"] for one in found] == [f"Ann {maker}" for maker in MAKERS]
    assert not any(one.get("author") for one in found)


def test_a_date_is_no_isbn() -> None:
    pages = pages_of(lambda n: product(n, f"<dl><dt>Available from</dt><dd>2024-11-1{n}</dd></dl>"))
    assert not any(one.get("isbn") for one in records(pages, "title,isbn"))


@pytest.mark.parametrize(("name", "is_told"), [("", False), ("published", True)])
def test_of_two_dates_that_nothing_tells_apart_neither_is_taken(name: str, is_told: bool) -> None:
    line = f'<p><i class="{name}">{{}} May 2023</i><b>{{}} June 2024</b></p>'
    found = records(pages_of(lambda n: product(n, line.format(n + 11, 28 - n))), "title,date_published,date_modified")
    assert [one.get("date_published") for one in found] == [f"2023-05-{n + 11}" if is_told else None for n in range(8)]


def test_how_many_stand_below_a_heading_is_not_what_it_names() -> None:
    pages = pages_of(lambda n: product(n, f"<div><h3>Award</h3><span>({n % 3 + 1})</span></div>"))
    assert not any(one.get("award") for one in records(pages, "title,award"))


def test_where_a_label_is_missing_no_other_cell_gives_a_number_for_it() -> None:
    """Read as on English pages, "163.894 km" is no whole number; on Spanish ones it is."""

    def html(n: int) -> str:
        year = f"<tr><td>Año</td><td>{1950 + n}</td></tr>" if n % 2 else ""
        rows = f"<tr><td>Kilometraje</td><td>{n + 11}.894 km</td></tr><tr><td>Color</td><td>{STATES[n]}</td></tr>"
        return f'<html lang="es"><h1>{NAMES[n]}</h1><main><table>{rows}{year}</table></main></html>'

    pages = [TrainingPage(f"http://shop.example/p/{n}", NAMES[n], "es", html(n), frozenset()) for n in range(8)]
    found = records(pages, "title,year:integer", "vehicle")
    assert [one["year"] for one in found] == [1950 + n if n % 2 else None for n in range(8)]


PEOPLE = "Ada Ström,Bo Lindt,Cy Moreau,Di Okafor,Ed Palmer,Flo Quint,Gus Reyes,Hal Stone".split(",")


def person(n: int, below: str, more: str = "") -> str:
    return f"""<html><head><title>{PEOPLE[n]}</title></head><body><nav><a href="/">Staff</a></nav>
    <div class="top">Call <a href="tel:0800555000">0800 555000</a></div><main><h1>{PEOPLE[n]}</h1>{below}</main>{more}
    </body></html>"""


@pytest.mark.parametrize(
    ("phone", "site"),
    [
        ('<p><a href="tel:{0}">{0}</a></p>', '<p><a href="https://{1}/">{1}</a></p>'),
        ("<p>{0}</p>", '<p><a href="https://{1}">https://{1}</a></p>'),
        (
            '<p><span class="ic"><i class="fas fa-phone-alt"></i></span><span>{0}</span></p>',
            '<p><span class="ic"><i class="fas fa-globe fa-fw"></i></span><span>www.{1}</span></p>',
        ),
        (
            '<div><div class="ic"><i class="fa fa-mobile-alt fa-fw"></i></div><div>{0}</div></div>',
            '<div><div class="ic"><i class="fa fa-link fa-fw"></i></div><div><a href="//{1}">{1}</a></div></div>',
        ),
    ],
)
def test_a_phone_and_a_website_are_told_by_icon_link_or_shape_in_whatever_place_of_the_line(
    phone: str, site: str
) -> None:
    """Most pages lack one of them or both, so that their places are no guide."""

    def html_of(n: int) -> str:
        lines = [*[phone] * (n % 2), *[site] * (n % 3 > 0), "<p>{2}@x.example</p>"]
        return person(n, "".join(lines).format(f"0{211 + n} 44{n}21{n}", f"home{n}.example", MAKERS[n]))

    pages = pages_of(html_of)
    for one, n in zip(records(pages, "name,phone,website,email", "person"), range(8), strict=True):
        assert one["email"] == f"{MAKERS[n]}@x.example"
        assert one["phone"] == (f"0{211 + n} 44{n}21{n}" if n % 2 else None)
        assert (one["website"] or "").rstrip("/").rpartition("/")[2].removeprefix("www.") == (
            f"home{n}.example" if n % 3 else ""
        )


MONTHS = "March April May June July August September October".split()
TOWNS = "Bristol Carlisle Durham Exeter Falmouth Glasgow Hereford Inverness".split()
KINDS = ("Full-time", "Part-time", "Contract")


def job(n: int, line: str, more: str = "") -> str:
    return f"<html lang='en'><body><h1>{NAMES[n]}</h1>{line}<p>{NAMES[n]} is wanted soon.</p>{more}</body></html>"


@pytest.mark.parametrize(
    ("days", "start", "end"),
    [("12.–14. {} 2024", 12, 14), ("3 {} 2024 - Fri, 5 {} 2024", 3, 5), ("From 3 {} 2024 to 9 {} 2024", 3, 9)],
)
def test_both_ends_of_a_range_of_dates_are_told_and_a_single_day_has_no_end(days: str, start: int, end: int) -> None:
    def event(n: int) -> str:
        return job(n, f'<div class="when">{(days if n % 2 else "7 {} 2024").replace("{}", MONTHS[n])}</div>')

    found = records(pages_of(event), "title,start_date:date,end_date:date", "event")
    assert [(one["start_date"], one["end_date"]) for one in found] == [
        (f"2024-{n + 3:02}-{start:02}", f"2024-{n + 3:02}-{end:02}") if n % 2 else (f"2024-{n + 3:02}-07", None)
        for n in range(8)
    ]


def test_the_ends_of_a_range_of_pay_are_told() -> None:
    pages = pages_of(lambda n: job(n, f"<p>Salary: ${40 + n},000 to ${50 + n},000 a year</p>"))
    found = records(pages, "title,salary_min:integer,salary_max:integer", "job")
    assert [(one["salary_min"], one["salary_max"]) for one in found] == [
        (40_000 + 1000 * n, 50_000 + 1000 * n) for n in range(8)
    ]


def test_an_element_whose_class_is_its_value_is_one_field_on_all_pages() -> None:
    def page(n: int) -> str:
        kind = KINDS[n % 3]
        return job(n, f'<ul class="meta"><li class="job-type {kind.lower()}">{kind}</li><li class="size">{n}</li></ul>')

    found = records(pages_of(page), "title,employment_type", "job")
    assert [one["employment_type"] for one in found] == [KINDS[n % 3] for n in range(8)]


def test_data_attributes_tell_elements_apart_that_look_alike() -> None:
    def page(n: int) -> str:
        spans = (("unit", MAKERS[n]), ("job-location", TOWNS[n]))
        return job(n, " ".join(f'<span class="x1" data-ui="{name}">{text}</span>' for name, text in spans))

    found = records(pages_of(page), "title,location", "job")
    assert [one["location"] for one in found] == TOWNS


def test_what_stands_on_cards_that_lead_to_pages_like_these_is_no_field_of_the_page() -> None:
    def page(n: int) -> str:
        others = [(n + step) % 8 for step in (1, 2, 3)]
        cards = "".join(
            f'<li class="job"><a href="/p/{one}"><h3>{NAMES[one]}</h3><p class="location">{TOWNS[one]}</p></a></li>'
            for one in others
        )
        return job(n, "", f"<div><h2>New today</h2><ul>{cards}</ul></div>")

    assert all(one.get("location") is None for one in records(pages_of(page), "title,location", "job"))


def test_what_a_column_says_one_of_on_each_page_is_a_value_and_no_label() -> None:
    """ "Contract" is a word for the kind of employment, too."""
    pages = pages_of(lambda n: job(n, f'<p class="label">{KINDS[n % 3]}</p><p>{TOWNS[n]}</p>'))
    answer = annotate(pages, "job", requested_fields("title,employment_type"))
    assert not {*TOWNS} & {*pointed_texts(answer, pages, "employment_type")}


@pytest.mark.parametrize(("before", "behind"), [("at ", ""), ("", " /"), ("bei ", "")])
def test_a_value_does_not_have_what_the_template_writes_around_it(before: str, behind: str) -> None:
    pages = pages_of(lambda n: job(n, f'<span class="company">{before}{MAKERS[n]} {TOWNS[n]}{behind}</span>'))
    assert [one["company"] for one in records(pages, "title,company", "job")] == [
        f"{maker} {town}" for maker, town in zip(MAKERS, TOWNS, strict=True)
    ]


def test_a_town_behind_a_street_without_a_postal_code_is_told() -> None:
    pages = pages_of(lambda n: job(n, f'<p class="address">Mill Lane {n + 3} · {TOWNS[n]}</p>'))
    assert [one["city"] for one in records(pages, "title,city", "event")] == TOWNS


FIRMS = "Nordlys Ltd,Cavallo S.L.,Gillis & Co,Dunn Works,Ekholm Labs".split(",")
SECTION = "<section><h2>{}</h2><div>{}</div></section>"


@pytest.mark.parametrize(
    ("heading", "item"),
    [
        ("Work", "<div class='item'><h3>{0}</h3><span>Welder</span><i>{1} - {2}</i><p>{0}, {3} of them.</p></div>"),
        ("Expérience", "<div class='item'><p>Welder</p><p><b>{0}</b> <span>févr. {1} – nov. {2}</span></p></div>"),
        ("Beruflicher Werdegang", "<table><tr><td>{1}–{2}</td><td>{0}</td></tr></table>"),
        ("Work history <small>(3)</small>", "<header><h3>{0}</h3><em>{1}</em></header><div>Welder</div>"),
        ("Trayectoria", "<h4>{0}</h4><p>Welder</p><p>{1} - {2}</p>"),
    ],
)
def test_under_a_heading_each_item_is_told_by_the_text_that_no_other_has(heading: str, item: str) -> None:
    def firms(n: int) -> list[str]:
        return [FIRMS[(n + at) % 5] for at in range(1 + n % 3)]

    def html_of(n: int) -> str:
        years = [2001 + 3 * at for at in range(3)]
        items = "".join(
            item.format(firm, year, year + 2, n) for firm, year in zip(firms(n), years, strict=False)
        ).replace("</table><table>", "")
        study = f"<div class='item'><h3>{MAKERS[n]}</h3><span>B.Sc.</span><i>1999 - 2000</i></div>"
        return person(n, SECTION.format("Education", study) + SECTION.format(heading, items))

    found = records(pages_of(html_of), requested_fields_of("employers"), "person")
    assert [one["employers"] for one in found] == [firms(n) for n in range(8)]


def requested_fields_of(name: str) -> RequestedSchema:
    fields = (Field("name"), Field(name, "string", True))
    return RequestedSchema(schema_of(fields), fields)


def test_a_word_before_names_is_no_part_of_them_but_the_first_of_a_text_is() -> None:
    def page(n: int) -> str:
        makers = f"<p class='maker'>by {MAKERS[n]} Works</p><p class='availability'>In stock ({n + 3} available)</p>"
        return f"<body><main><h1>{NAMES[n]}</h1>{makers}</main></body>"

    pages = pages_of(page)
    answer = annotate(pages, "product", requested_fields("maker, availability"))
    assert pointed_texts(answer, pages, "maker") == [f"{one} Works" for one in MAKERS]
    assert pointed_texts(answer, pages, "availability") == [f"In stock ({n + 3} available)" for n in range(8)]


def test_heads_of_columns_are_no_labels_of_one_another() -> None:
    def page(n: int) -> str:
        head = "<tr><th><a href='/sort/owner'>Owner</a></th><th><a href='/sort/code'>Postal code</a></th></tr>"
        cells = f"<td class='owner'>Jo {NAMES[n]}</td><td class='postal-code'>{10_000 + 37 * n}</td>"
        return f"<body><main><h1>{NAMES[n]}</h1><table>{head}<tr>{cells}</tr></table></main></body>"

    found = records(pages_of(page), "owner, postal_code", "place")
    assert found == [{"owner": f"Jo {NAMES[n]}", "postal_code": str(10_000 + 37 * n)} for n in range(8)]


def test_a_field_of_a_form_below_a_heading_is_not_what_the_heading_names() -> None:
    def page(n: int) -> str:
        form = f'<form><label>for <input value="{n}"> people</label></form>'
        return job(n, f"<h2>Ingredients</h2>{form}<table><tr><td>{n} g</td><td>rice</td></tr></table>")

    answer = annotate(pages_of(page), "recipe", requested_fields("title,ingredients"))
    assert not [one for values in answer.values.values() for one in values if one.field == "ingredients"]


def test_a_date_that_a_page_has_in_two_forms_is_one_and_no_date_of_a_change_beside_it() -> None:
    dated = '<p class="meta"><time datetime="2024-03-0{0}T09:00">{0} March 2024</time></p><p>A word on {0} things</p>'
    pages = pages_of(lambda n: f"<main><h1>{NAMES[n]}</h1>{dated.format(n + 1)}</main>")
    answer = annotate(pages, "article", requested_fields("date_published:date,date_modified:date"))
    assert [one.key for one in answer.fields] == ["date_published"]


def test_a_word_for_furniture_around_the_whole_page_says_nothing_of_its_labels() -> None:
    page = '<body class="with-nav-menu"><main><h1>{}</h1><dl><dt>Author</dt><dd>Ada {}</dd></dl></main></body>'
    pages = pages_of(lambda n: page.format(NAMES[n], MAKERS[n]))
    assert pointed_texts(annotate(pages, "proposal", None), pages, "author") == [f"Ada {one}" for one in MAKERS]


def test_a_link_in_the_cell_of_a_label_is_a_label() -> None:
    row = '<table><tr><th><a href="/help#{1}">Component</a></th><td>{0}</td></tr></table>'
    pages = pages_of(lambda n: f"<h1>{NAMES[n]} is broken</h1>{row.format(MAKERS[n], n)}")
    assert pointed_texts(annotate(pages, "issue", requested_fields("component")), pages, "component") == MAKERS


def test_what_is_read_to_the_blind_alone_is_the_label_of_the_link_behind_it() -> None:
    line = '<ul><li><i class="fa"></i><span class="sr-only">Autor</span> <a href="/u/{1}">Ada {0}</a></li></ul>'
    pages = pages_of(lambda n: f"<h1>{NAMES[n]}</h1>{line.format(MAKERS[n], n)}")
    answer = annotate(pages, "forum_thread", requested_fields("author"))
    assert pointed_texts(answer, pages, "author") == [f"Ada {one}" for one in MAKERS]


def test_a_thread_is_by_who_has_written_its_first_post() -> None:
    post = (
        '<article class="post"><a class="username" href="/u">{} Gillis</a><time>{} May 2024</time><p>{}</p></article>'
    )
    said = "It has come apart in the middle, and nobody knows who could mend it before the winter."
    names = [f"{one} Gillis" for one in "Ada Bea Cleo Dora Edda Fritz Gerd Hans".split()]

    def thread(n: int) -> str:
        writers = [names[n], names[(n + 1) % 8], names[(n + 3) % 8]]
        posts = (post.format(name.split()[0], 1 + k + n, f"{k} {n} {said}") for k, name in enumerate(writers))
        return f"<h1>{NAMES[n]}?</h1><div>{''.join(posts)}</div>"

    pages = pages_of(thread)
    asked = RequestedSchema(
        {}, (*map(Field, ("title", "author")), Field("author", group="posts"), Field("text", group="posts"))
    )
    assert pointed_texts(annotate(pages, "forum_thread", asked), pages, "author") == names


def test_a_class_of_two_parts_names_by_the_second_what_is_no_comment() -> None:
    parts = '<p class="package-header__subtitle">{0} for {1}</p><p class="comment__subtitle">{1} is fine, says {0}</p>'
    pages = pages_of(lambda n: f"<h1>{NAMES[n]}</h1>{parts.format(NAMES[n].split()[1], MAKERS[n])}")
    answer = annotate(pages, "package", requested_fields("subtitle"))
    wanted = [f"{name.split()[1]} for {maker}" for name, maker in zip(NAMES, MAKERS, strict=True)]
    assert pointed_texts(answer, pages, "subtitle") == wanted


def test_the_title_with_a_word_around_it_is_no_text() -> None:
    page = '<h1>{0} is out of order</h1><p class="short_desc">Bug {1}: {0} is out of order</p>'
    answer = annotate(pages_of(lambda n: page.format(NAMES[n], n)), "issue", requested_fields("title,description"))
    assert [one.key for one in answer.fields] == ["title"]


def test_the_higher_of_two_prices_that_some_pages_have_is_the_old_one_and_their_difference_is_none() -> None:
    def sold(n: int) -> str:
        now = n * n + 11
        old = f"<div class=high>${now + n + 5}.50</div>" if n % 2 else ""
        saved = f"<div class=gain>(you save <b>${n + 5}.50</b>)</div>" if n % 2 else ""
        return f"<main><h1>{NAMES[n]}</h1><div class=prices>{old}<div class=low>${now}.00</div>{saved}</div></main>"

    found = records(pages_of(sold), "title,price:number,list_price:number")
    assert [one["price"] for one in found] == [n * n + 11 for n in range(8)]
    assert [one["list_price"] for one in found] == [n * n + n + 16.5 if n % 2 else None for n in range(8)]


@pytest.mark.parametrize("first", ["<li><a href='/'><i></i></a></li>", "<li><a href='/'>Home</a></li>", ""])
def test_the_path_to_a_page_may_begin_with_an_icon_or_be_one_category(first: str) -> None:
    def shelf(n: int) -> str:
        path = f"<ol class=breadcrumb>{first}<li><a href='/c/{n % 3}'>{MAKERS[n % 3]}</a></li></ol>"
        return f"{path}<h1>{NAMES[n]}</h1><p>Price: ${n + 3}.20</p>"

    assert [one["category"] for one in records(pages_of(shelf), "title,category")] == [MAKERS[n % 3] for n in range(8)]


def test_a_label_whose_own_value_is_empty_does_not_have_the_next_ones() -> None:
    def offer(n: int) -> str:
        prices = f"<div><b>RRP:</b> <span></span></div><div><b>Now:</b> <span>${n + 10}.00</span></div>"
        return f"<h1>{NAMES[n]}</h1><div>{prices}</div>"

    found = records(pages_of(offer), "title,price:number,list_price:number")
    assert [(one["price"], one.get("list_price")) for one in found] == [(n + 10, None) for n in range(8)]


def test_a_label_that_stands_twice_with_the_same_value_has_it() -> None:
    def home(n: int) -> str:
        return f"<h1>{NAMES[n]}</h1><p><b>Reference:</b> R{n}7</p><ul><li><b>Reference:</b> <i>R{n}7</i></li></ul>"

    found = records(pages_of(home), "title,reference", "real_estate")
    assert [one["reference"] for one in found] == [f"R{n}7" for n in range(8)]


def test_a_paragraph_below_a_heading_is_no_town() -> None:
    def home(n: int) -> str:
        about = (
            f"The {NAMES[n]} stands in a quiet street. " + "It ends at the river, where trams stop until midnight. " * 2
        )
        return f"<h1>{NAMES[n]}</h1><h4>Location</h4><p>{about}</p>"

    assert [one.get("city") for one in records(pages_of(home), "title,city", "real_estate")] == [None] * 8


def test_what_stands_in_elements_that_are_alike_is_told_apart_by_its_place() -> None:
    towns = "Lyon,Porto,Graz,Turin,Leeds,Ghent,Basel,Malmö".split(",")

    def advert(n: int) -> str:
        lines = (f"{NAMES[n]} maker", f"Posted 2023-05-{n + 11}", f"hr{n}@firm.example", towns[n])
        return f"<main><h1>{NAMES[n]} maker wanted</h1>{''.join(f'<p class=line>{line}</p>' for line in lines)}</main>"

    found = records(pages_of(advert), "title,email,date_published", "job")
    assert [one["email"] for one in found] == [f"hr{n}@firm.example" for n in range(8)]
    assert [one["date_published"] for one in found] == [f"2023-05-{n + 11}" for n in range(8)]


def test_the_trees_know_the_features_that_there_are() -> None:
    file = files("llmcrawler.core.understanding.extraction").joinpath("candidate_scorer.npz")
    with np.load(BytesIO(file.read_bytes())) as arrays:
        first, second = (int(arrays[f"{step} feature"].max()) for step in ("first", "second"))
    assert first < len(FEATURES) <= second < len(FEATURES) + 6


def specified(n: int, rows: str) -> str:
    return product(n, f"<section class=facts>{rows}</section>")


def test_a_label_may_stand_behind_its_value_or_at_the_head_of_its_column() -> None:
    def page(n: int) -> str:
        behind = (
            f"<div><div>{n + 40} mm</div><div>Depth</div></div><div><div>{2 * n + 7} mm</div><div>Width</div></div>"
        )
        head = "<tr><td>Net price</td><td>Tax</td><td>Delivery</td></tr>"
        row = f"<tr><td>£{n + 2}.50</td><td>{n % 3 + 5} %</td><td>{n + 2} days</td></tr>"
        return specified(n, f"{behind}<table>{head}{row}</table>")

    found = records(pages_of(page), "title,depth,width,tax,delivery")
    assert [(one["depth"], one["width"]) for one in found] == [(f"{n + 40} mm", f"{2 * n + 7} mm") for n in range(8)]
    assert [(one["tax"], one["delivery"]) for one in found] == [(f"{n % 3 + 5} %", f"{n + 2} days") for n in range(8)]


def test_a_unit_is_part_of_its_value() -> None:
    pages = pages_of(lambda n: specified(n, f"<dl><dt>File size</dt><dd>{n + 3}.{n} KB</dd></dl>"))
    assert [one["file_size"] for one in records(pages, "title,file_size")] == [f"{n + 3}.{n} KB" for n in range(8)]


EXTRAS = "Oven timer,Child lock,Quiet fan,Spare bulb,Long cord".split(",")


@pytest.mark.parametrize(
    "form",
    ["<p><b>Extras:</b> {}</p>", "<dl><dt>Extras</dt><dd>{}</dd></dl>", "<h3>Extras</h3><ul><li>{}</li></ul>"],
    ids=["text", "cell", "items"],
)
def test_a_list_behind_a_label_has_its_items(form: str) -> None:
    wanted = [[EXTRAS[n % 5], EXTRAS[(n + 2) % 5], *EXTRAS[(n + 3) % 5 :][: n % 2]] for n in range(8)]
    between = "</li><li>" if "<li>" in form else ", "
    pages = pages_of(lambda n: specified(n, form.format(between.join(wanted[n]))))
    schema = RequestedSchema({}, (Field("title"), Field("extras", many=True)))
    assert [one["extras"] for one in records(pages, schema)] == wanted


def test_a_name_that_may_mean_an_address_keeps_its_text_where_nobody_asked_for_one() -> None:
    pages = pages_of(lambda n: specified(n, f"<dl><dt>Repository</dt><dd>{EXTRAS[n % 5]}</dd></dl>"))
    found = records(pages, "title,repository")
    assert [one["repository"] for one in found] == [EXTRAS[n % 5] for n in range(8)]


def test_a_word_that_texts_begin_with_tells_them_apart_where_all_have_one_class() -> None:
    def page(n: int) -> str:
        rooms = f"<li>Batch {n + 20}</li>" if n % 3 else ""
        return specified(n, f"<ul><li>Shelf {7 * n + 11}</li>{rooms}<li>Door {n + 300}</li></ul>")

    found = records(pages_of(page), "title,shelf,batch")
    assert [(one["shelf"] or "").split()[-1:] for one in found] == [[f"{7 * n + 11}"] for n in range(8)]
    assert [(one["batch"] or "").split()[-1:] for one in found] == [[f"{n + 20}"] if n % 3 else [] for n in range(8)]


def test_of_two_texts_behind_a_label_on_all_pages_the_first_is_the_sites_in_every_process() -> None:
    """Both are as frequent; the order of a set, which differs from process to process, must not choose."""
    said = {"Color": ("red", "blue"), "Material": ("oak", "brass"), "Weight": ("2 kg", "3 kg"), "Size": ("L", "M")}
    rows = [f"<p><b>{label}:</b> <span>{one[at]}</span></p>" for at in (0, 1) for label, one in said.items()]
    pages = pages_of(lambda n: product(n, "".join(rows)))
    found = annotate(pages, "product", requested_fields(",".join(map(str.lower, said))))
    assert [pointed_texts(found, pages, label.lower())[0] for label in said] == [one[1] for one in said.values()]
