"""Field names: labels on pages, names that people ask for, page types, furniture."""

import json
from collections import Counter
from importlib.resources import files

import pytest

from llmcrawler.core.understanding.extraction.field_names import (
    affinity,
    canonical_name,
    is_furniture,
    schema_paths,
    snake_case,
    usual_fields,
    usual_kind,
)
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.text_kinds import KINDS

_TABLE = json.loads(
    files("llmcrawler.core.understanding.extraction").joinpath("field_names.json").read_text(encoding="utf-8")
)


def test_labels_are_called_as_the_usual_fields_that_they_are_words_for() -> None:
    names = {
        "Preis:": "price", "Prix": "price", "Precio": "price", "価格": "price", "Цена": "price", "Cena": "price",
        "UVP": "list_price", "RRP": "list_price", "Was": "list_price", "Old price:": "list_price",
        "UPC": "upc", "EAN": "ean", "ISBN-13": "isbn", "ISBN": "isbn", "Artikel-Nr.": "sku", "MPN": "mpn",
        "Número de páginas": "pages", "Seitenzahl": "pages", "Pagina's": "pages", "Number of reviews": "review_count",
        "Author(s)": "author", "Автор": "author", "著者": "author", "Författare": "author", "Written by": "author",
        "Weight (kg)": "weight", "Prep time (minutes)": "prep_time", "Størrelse": "size", "Zutaten": "ingredients",
        "Arbeitgeber": "company", "Godziny otwarcia": "opening_hours", "Öffnungszeiten": "opening_hours",
        "Schlagwörter": "tags", "Mots-clés": "tags", "Tagi": "tags", "タグ": "tags", "publishedAt": "date_published",
        "Paragraphs": "body", "Absätze": "body", "Párrafos": "body",
    }  # fmt: skip
    assert {label: canonical_name(label) for label in names} == names


def test_other_labels_keep_their_own_words() -> None:
    names = {
        "Price (incl. tax)": "price_incl_tax", "Price (excl. tax)": "price_excl_tax", "Thread count": "thread_count",
        "Härtegrad": "hartegrad", "12": "", " : ": "",
    }  # fmt: skip
    assert {label: canonical_name(label) for label in names} == names


def test_no_word_stands_for_two_fields() -> None:
    words = [
        (snake_case(word).replace("_", ""), name)
        for name, one in _TABLE["fields"].items()
        for word in (name, *(word for words in one["words"].values() for word in words.split(", ")))
    ]
    fields = Counter(word for word, _ in set(words))
    assert [word for word, count in fields.items() if count > 1] == []
    assert "" not in fields


def test_the_most_usual_fields_have_words_in_all_languages() -> None:
    languages = set("en de fr es it nl pl pt sv da cs ru ja".split())
    usual = "price list_price availability sku brand description author date_published category tags location".split()
    assert {name for name in usual if set(_TABLE["fields"][name]["words"]) < languages} == set()


def test_the_table_refers_to_its_own_fields_only() -> None:
    fields = set(_TABLE["fields"])
    assert {name for one in _TABLE["page_types"].values() for name in one["fields"].split()} <= fields
    assert {*_TABLE["kin"], *(name for one in _TABLE["kin"].values() for name in one)} <= fields


@pytest.mark.parametrize(
    ("page_type", "description", "some"),
    [
        ("product", "", {"title", "price", "list_price", "availability", "sku"}),
        ("book", "", {"author", "isbn", "price"}),
        ("book_page", "", {"author", "isbn"}),
        ("stellenangebot", "", {"company", "salary", "valid_through"}),
        ("titel", "one novel of the shop, not its category", {"author", "isbn"}),
        ("opening", "a vacancy with its company", {"company", "employment_type"}),
        ("forum_thread", "", {"posts"}),
        ("product_review", "", {"item_reviewed", "rating"}),
        ("location", "", {"address", "opening_hours"}),
        ("real-estate", "", {"rooms", "area"}),
        ("event", "", {"start_date", "organizer"}),
        ("listing", "", {"items"}),
        ("рецепт", "", {"ingredients"}),
        ("other", "", {"title", "description"}),
    ],
)
def test_page_types_have_their_usual_fields(page_type: str, description: str, some: set[str]) -> None:
    assert some <= {one.name for one in usual_fields(page_type, description)}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("author", "person"),
        ("Farbe", "color"),
        ("frame_color", "color"),
        ("weightKg", "weight"),
        ("description", None),
        ("flurb", None),
        ("", None),
    ],
)
def test_usual_fields_have_kinds_of_values(name: str, kind: str | None) -> None:
    assert usual_kind(name) == kind


def test_kinds_of_values_are_known() -> None:
    assert {one["kind"] for one in _TABLE["fields"].values() if "kind" in one} < {*KINDS}


def test_usual_fields_have_types() -> None:
    types = {one.name: (one.type, one.many) for one in usual_fields("recipe")}
    assert types["ingredients"] == ("string", True)
    assert types["rating"] == ("number", False)
    assert types["image"] == ("url", False)


@pytest.mark.parametrize(
    ("requested", "name"),
    [
        (Field("price"), "price"),
        (Field("Preis"), "price"),
        (Field("old_price", "number"), "list_price"),
        (Field("old_price"), "UVP"),
        (Field("price_incl_tax", "number"), "Price (incl. tax)"),
        (Field("priceInclVat"), "Price (incl. tax)"),
        (Field("num_reviews", "integer"), "Number of reviews"),
        (Field("book_title"), "title"),
        (Field("product_sku"), "SKU"),
        (Field("isbn13"), "isbn"),
        (Field("name"), "title"),
        (Field("ean"), "gtin"),
        (Field("assigned_to"), "Zuständig"),
        (Field("status"), "État d'avancement"),
        (Field("founding_date"), "Założono"),
        (Field("owner"), "Proprietario"),
        (Field("population", "integer"), "人口"),
        (Field("applicants", "integer"), "Počet uchazečů"),
        (Field("published", "date"), "date_published"),
        (Field("date", "date"), "date_published"),
        (Field("authors", many=True), "author"),
        (Field("offer.price", "number"), "price"),
        (Field("hersteller_name"), "brand"),
        (Field("deadline", "date"), "Bewerbungsfrist"),
        (Field("numberOfBedrooms"), "Bedrooms"),
    ],
)
def test_a_requested_field_is_surely_what_is_called_so(requested: Field, name: str) -> None:
    assert affinity(requested, name) >= 0.8


@pytest.mark.parametrize(
    ("requested", "name"),
    [
        (Field("isbn"), "gtin"),
        (Field("gesamtpreis"), "price"),
        (Field("price_per_night", "number"), "price"),
        (Field("amt", "number", description="Price that a customer pays"), "price"),
        (Field("f1", description="name of the publishing house"), "Publisher"),
        (Field("f2", description="The thread count of the fabric"), "Thread count"),
        (Field("summary"), "description"),
    ],
)
def test_a_requested_field_is_perhaps_what_is_called_alike(requested: Field, name: str) -> None:
    assert 0.3 <= affinity(requested, name) < 0.9


@pytest.mark.parametrize(
    ("requested", "name"),
    [
        (Field("price_excl_tax"), "Price (incl. tax)"),
        (Field("shipping_price"), "price"),
        (Field("price"), "list_price"),
        (Field("title"), "price"),
        (Field("start_date"), "end_date"),
        (Field("published", "date"), "price"),
        (Field("reviews", "date"), "review_count"),
        (Field("price", "number", description="never the author"), "author"),
        (Field(""), "price"),
        (Field("price"), "1,2"),
    ],
)
def test_a_requested_field_is_nothing_else(requested: Field, name: str) -> None:
    assert affinity(requested, name) < 0.3


def test_furniture_names_no_field() -> None:
    labels = """
        Monday|Mon-Fri:|Mo–Fr|Samstag|понедельник|月曜日|Share this|Share on Facebook|Customers also bought
        |You may also like|Related products|Newsletter|Ähnliche Produkte|Das könnte Sie auch interessieren|Teilen
        |Cookie settings|Vous aimerez aussi|También te puede interesar|Potrebbe interessarti anche|関連商品
        |この商品を買った人はこんな商品も買っています|Похожие товары|Mohlo by vás zajímat|Recently viewed|***
    """
    assert [label for label in labels.split("|") if not is_furniture(label)] == []


def test_labels_of_records_are_no_furniture() -> None:
    names = (*_TABLE["fields"], *(word for one in _TABLE["fields"].values() for word in one["words"].values()))
    words = [word for name in names for word in name.split(", ")]
    assert [word for word in words if is_furniture(word)] == []


def test_schema_org_has_its_own_words_for_what_people_say() -> None:
    assert schema_paths("in stock") == ("offers.availability",)
    assert schema_paths("Zutaten") == ("recipeIngredient",)
    assert schema_paths("thread count") == ()
