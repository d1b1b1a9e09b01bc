"""What a text of a page is worth as a value of each type, and that nothing comes out that is not in it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcrawler.core.understanding.extraction.record_schema import FieldType
from llmcrawler.core.understanding.extraction.typed_values import fits, typed

PAGE = "https://shop.test/c/page?x=1"


@pytest.mark.parametrize(
    ("text", "lang", "number"),
    [
        ("12", "", 12),
        ("£1,299.00", "en", 1299.0),
        ("£1.299,00", "en", 1299.0),
        ("1 299,00 €", "fr", 1299.0),
        ("1\u00a0299,00\u202f€", "fr", 1299.0),
        ("1'299.50 CHF", "de-CH", 1299.5),
        ("1,23,456.50", "en-IN", 123456.5),
        ("1.234.567", "en", 1234567),
        ("12,5 kg", "en", 12.5),
        ("-5 %", "", -5),
        ("\u22125", "", -5),
        ("-£5", "", -5),
        ("£-5", "", -5),
        ("$.99", "en", 0.99),
        ("5.–", "de", 5),
        ("1.299,-", "nl", 1299),
        ("1.299,-", "en", 1299),
        ("EUR12.99", "", 12.99),
        ("Rs.500", "", 500),
        ("In stock (19 available)", "en", 19),
        ("1,234 reviews", "en", 1234),
        ("٣", "ar", 3),
        ("١٬٢٩٩٫٥٠ ر.س", "ar", 1299.5),
        ("۱۲۳٬۰۰۰ تومان", "fa", 123000),
    ],
)
def test_a_number_is_read_past_its_currency_unit_and_separators(text: str, lang: str, number: float) -> None:
    value = typed(text, "number", lang=lang)
    assert value == number
    assert type(value) is type(number)


@pytest.mark.parametrize(
    ("text", "lang", "number"),
    [
        ("1.299", "de", 1299),
        ("1.299", "de_DE", 1299),
        ("1.299", "en-GB", 1.299),
        ("1.299", "de-CH", 1.299),
        ("1,299", "de", 1.299),
        ("1,299", "en", 1299),
        ("0,299", "en", 0.299),
        ("0.299", "de", 0.299),
        ("1.299", "", 1.299),
        ("1,299", "", 1299),
        ("€1.299", "", 1299),
        ("EUR 1.299", "", 1299),
        ("1,299 ر.س", "ar-SA", 1299),
        ("١٫٢٩٩ د.ك", "ar", 1.299),
        ("1.299 د.م.", "ar-MA", 1299),
    ],
)
def test_three_digits_behind_a_mark_are_decimals_where_the_language_has_it_so(
    text: str, lang: str, number: float
) -> None:
    assert typed(text, "number", lang=lang) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "free",
        "5-10",
        "4.5 out of 5",
        "12:30",
        "1.2.3",
        "1,2,3",
        "2 3",
        "SKU-5",
        "X200",
        "Covid-19",
        "Model 15 128 GB",
        "1.2K",
        "1.2 million",
        "3 Mio. Euro",
        "٢ مليون ريال",
        "9007199254740993.5",
        "Delivery is free for orders of 50 pounds and over",
        "9" * 5000,
    ],
)
def test_what_is_no_single_number_is_none(text: str) -> None:
    assert typed(text, "number") is None


@pytest.mark.parametrize(("text", "number"), [("1,234 reviews", 1234), ("4.0", 4), ("4.5", None)])
def test_an_integer_has_no_fraction(text: str, number: int | None) -> None:
    assert typed(text, "integer", lang="en") == number


@pytest.mark.parametrize(
    ("text", "lang", "iso"),
    [
        ("2024-05-12", "", "2024-05-12"),
        ("2024-05-12T10:30:00Z", "", "2024-05-12T10:30:00+00:00"),
        ("2024-05-12 10:30", "", "2024-05-12T10:30:00"),
        ("2024-05-12T10:30:00+0200", "", "2024-05-12T10:30:00+02:00"),
        ("Sun, 12 May 2024 10:30:00 GMT", "", "2024-05-12T10:30:00+00:00"),
        ("2024/5/2", "", "2024-05-02"),
        ("٢٠٢٤-٠١-١٥", "ar", "2024-01-15"),
        ("2024年3月4日", "ja", "2024-03-04"),
        ("2024. 3. 4.", "ko", "2024-03-04"),
        ("12.05.2024", "en", "2024-05-12"),
        ("12.05.24", "de", "2024-05-12"),
        ("12 May 2024", "", "2024-05-12"),
        ("12.–14. Mai 2024", "de", "2024-05-12"),  # of days of one year the first
        ("30. April – 2. Mai 2024", "de", "2024-04-30"),
        ("May 12-14, 2024", "en", "2024-05-12"),
        ("Sunday, May 12th, 2024 at 3:15 PM", "en", "2024-05-12T15:15:00"),
        ("May 12, 2024 12:05 am", "en", "2024-05-12T00:05:00"),
        ("12 May 2024 10:00 EST", "en", "2024-05-12T10:00:00-05:00"),
        ("12. März 2024", "de", "2024-03-12"),
        ("Dienstag, 12. März 2024", "de", "2024-03-12"),
        ("1er mars 2024", "fr", "2024-03-01"),
        ("4 mars 2024 à 10h30", "fr", "2024-03-04T10:30:00"),
        ("3 de mayo de 2024", "es", "2024-05-03"),
        ("5 мая 2024 г.", "ru", "2024-05-05"),
        ("12 mai 2024", "en", "2024-05-12"),
        ("3 Mai 24", "de", "2024-05-03"),
    ],
)
def test_a_date_comes_out_as_iso_with_the_time_that_stands_there(text: str, lang: str, iso: str) -> None:
    assert typed(text, "date", lang=lang) == iso


def test_the_order_of_day_and_month_is_the_languages() -> None:
    dates = {"en": "2024-03-04", "en-US": "2024-03-04", "en_GB": "2024-04-03", "de": "2024-04-03", "ja": None, "": None}
    assert {lang: typed("03/04/2024", "date", lang=lang) for lang in dates} == dates


@pytest.mark.parametrize("lang", ["", "en", "de"])
def test_a_day_over_twelve_leaves_no_doubt(lang: str) -> None:
    assert typed("25/04/2024", "date", lang=lang) == typed("04/25/2024", "date", lang=lang) == "2024-04-25"


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2 days ago",
        "May 2024",
        "12 May",
        "2024",
        "10:30",
        "1.2.13",
        "v1.2.2003",
        "Version 1.2.2003",
        "30 February 2024",
        "31/31/2024",
        "30 février 2024",
        "2024-13-01",
        "12 May 2024 - 14 May 2024",
        "Chapter 12 of 2024",
        "25:30 on 12 May 2024",
        "12 May 2024 at 25:30",
        "1715500000",
        "x" * 100 + " 12 May 2024",
    ],
)
def test_what_lacks_a_part_of_a_date_is_none(text: str) -> None:
    assert typed(text, "date", lang="en") is None


@pytest.mark.server
def test_dates_in_iso_numbers_and_english_load_no_date_library() -> None:
    code = (
        "import sys\nfrom llmcrawler.core.understanding.extraction.typed_values import typed\n"
        "for text in ('2024-05-12', '12/05/2024', '12 May 2024 10:30', '£12.50'):\n"
        "    assert typed(text, 'number' if '£' in text else 'date', lang='en')\n"
        "assert 'dateparser' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("true", True),
        ("Yes", True),
        ("In stock", True),
        ("In stock (19 available)", True),
        ("In Stock!", True),
        ("in_stock", True),
        ("https://schema.org/InStock", True),
        ("http://schema.org/OutOfStock", False),
        ("Out of stock", False),
        ("Not available", False),
        ("nein", False),
        ("Nicht vorrätig", False),
        ("Rupture de stock", False),
        ("Sold out", False),
        ("https://schema.org/PreOrder", None),
        ("Back in stock soon", None),
        ("https://shop.test/no", None),
        ("maybe", None),
        ("19", None),
    ],
)
def test_a_truth_value_is_a_whole_text_that_says_so(text: str, truth: bool | None) -> None:
    assert typed(text, "boolean") is truth


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("£272.48", None),
        ("prices/£5.html", "https://shop.test/c/prices/£5.html"),
        ("https://x.test/a", "https://x.test/a"),
        ("/a b.jpg", "https://shop.test/a%20b.jpg"),
        ("b.html", "https://shop.test/c/b.html"),
        ("?page=2", "https://shop.test/c/page?page=2"),
        ("//cdn.test/x.png", "https://cdn.test/x.png"),
        ("www.maker.test", "https://www.maker.test"),
        ("maker.com/blue", "https://maker.com/blue"),
        ("shop.maker.de", "https://shop.maker.de"),
        ("notes.md", "https://shop.test/c/notes.md"),
        ("mailto:a@x.test", "mailto:a@x.test"),
        ("tel:+49301234", "tel:+49301234"),
        ("Details", None),
        ("Read more", None),
        ("a@x.test", None),
        ("#top", None),
        ("javascript:void(0)", None),
        ("data:image/png;base64,AAAA", None),
        ("http://[", None),
        ("http:///x", None),
        ("mailto:", None),
    ],
)
def test_a_url_is_absolute_and_a_word_is_none(text: str, url: str | None) -> None:
    assert typed(text, "url", base_url=PAGE) == url


def test_a_relative_url_on_no_page_is_none() -> None:
    assert typed("/a", "url") is None


@pytest.mark.parametrize("field_type", ["string", None])
def test_a_string_keeps_its_lines_and_folds_white_space(field_type: FieldType | None) -> None:
    assert typed("  Blue \t mug\n\n of\u00a0stone ", field_type) == "Blue mug\nof stone"
    assert typed(" \n ", field_type) is None
    assert typed("–", field_type) is None  # as cells have it that are empty


@pytest.mark.parametrize("text", ["N/A", "(none)", "Unassigned", "—", "k. A.", "keine Angabe", "Aucun", "sin asignar"])
def test_what_stands_for_no_value_is_none(text: str) -> None:
    assert typed(text, "string") is None


def test_a_date_that_may_be_read_in_two_ways_fits_a_date() -> None:
    assert fits("03/04/2024", "date")
    assert fits("/a", "url")
    assert not fits("In stock", "number")


@pytest.mark.slow
@settings(max_examples=500)
@given(
    st.text(alphabet=st.sampled_from("0123456789.,' -£€%kK()x"), max_size=40),
    st.sampled_from(["number", "integer"]),
    st.sampled_from(["", "en", "de"]),
)
def test_the_digits_of_a_number_are_those_of_its_text(text: str, field_type: FieldType, lang: str) -> None:
    value = typed(text, field_type, lang=lang)
    if value is not None:
        digits = f"{value:.20f}".rstrip("0") if isinstance(value, float) and abs(value) < 1e-4 else repr(value)
        shown = [one for one in digits.split("e")[0] if one.isdigit()]
        assert "".join(shown).strip("0") in "".join(one for one in text if one.isdigit())


@settings(max_examples=200)
@given(st.dates(), st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%b %d, %Y", "%A, %d. %B %Y", "%d.%m.%Y"]))
def test_a_date_written_in_full_comes_back(day: object, form: str) -> None:
    year = int(f"{day:%Y}")
    if 1000 <= year < 2200:
        assert typed(f"{day:{form}}", "date", lang="en") == f"{day}"
