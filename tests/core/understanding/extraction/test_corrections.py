"""What a person corrects: what is refused, what a record becomes, and that the file keeps it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.storage import SiteState, TemplatesFile
from llmcrawler.core.understanding.extraction.corrections import (
    Correction,
    PageToTry,
    correct_page_type,
    correct_selector,
    correction_of,
    described_templates,
    read_corrections,
    remove_corrections,
    rename_field,
)
from llmcrawler.core.understanding.extraction.extractor import Extraction, FieldRule
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.errors import ConfigError

PAGES = [
    PageToTry(
        f"<h1>Lamp</h1><p class=price>{n}.50 €</p>{'<i>new</i>' * (n > 2)}"
        f'<script>window.__STATE__ = {{"lamp": {{"sku": "L{n}"}}}}</script>',
        f"http://a.test/{n}",
    )
    for n in (1, 2, 3)
]
SELECTORS = [
    {"field": "title", "type": "string", "css": "h1", "variant": 1},
    {"field": "price", "type": "number", "css": "b", "variant": 1},
    {"field": "reviews", "type": "rows", "css": "li", "variant": 1},
    {"field": "reviews.author", "type": "string", "css": "i", "variant": 1},
]
LEARNED = SiteState(
    [{"template": "t1", "page_type": "other", "aliases": ["t0"], "selectors": SELECTORS}, {"template": "t2"}], {}
)


@pytest.fixture
def file(tmp_path: Path) -> TemplatesFile:
    file = TemplatesFile(tmp_path / "learned.json")
    file.save({"a.test": LEARNED, "b.test": LEARNED})
    return file


def rule(query: str, name: str = "price", **given: Any) -> FieldRule:
    return FieldRule(Field(name), (Selector(query, given.pop("language", "css"), **given),))


def described(file: TemplatesFile) -> dict[str, Any]:
    return described_templates(file, "a.test", file.load()["a.test"])[0]


def test_a_crawl_that_saves_its_sites_keeps_what_was_corrected_meanwhile(file: TemplatesFile) -> None:
    correct_page_type(file, "a.test", "t1", "product", ["product"])
    rename_field(file, "a.test", "t1", "price", "amount")
    file.save({"a.test": SiteState([{"template": "t3", "aliases": ["t1"]}], {}), "c.test": LEARNED})
    stored = file.load()["a.test"]
    assert stored.corrections["t1"]["by"] == "person"
    assert described(file)["page_type"] == "product"
    assert not file.load()["b.test"].corrections
    # It is the same correction where the site moves to another port, which is a new site of the file.
    file.save({"a.test:8000": SiteState([], {}, stored.corrections)})
    assert file.load()["a.test:8000"].corrections == stored.corrections


def test_a_selector_alone_gives_its_field_and_tells_on_how_many_pages(file: TemplatesFile) -> None:
    assert correct_selector(file, "a.test", "t0", rule(".price"), PAGES) == (
        3,
        3,
        ({"price": 1.5}, {"price": 2.5}, {"price": 3.5}),
    )
    assert correct_selector(file, "a.test", "t1", rule("i", "mark"), PAGES)[:2] == (3, 1)
    in_script = rule("__STATE__.lamp.sku", "sku", language="json")
    assert correct_selector(file, "a.test", "t1", in_script, PAGES)[2][0] == {"sku": "L1"}
    rename_field(file, "a.test", "t1", "price", "offer.amount")
    rename_field(file, "a.test", "t1", "reviews", "opinions")
    by_field = {one["field"]: one for one in described(file)["selectors"]}
    assert list(by_field) == ["sku", "mark", "offer.amount", "title", "opinions", "opinions.author"]
    assert by_field["offer.amount"]["css"] == ".price"
    assert {one["by"] for name, one in by_field.items() if name != "title"} == {"person"}
    correction = correction_of(read_corrections(file.load()["a.test"].corrections), "t1", str)
    assert correction is not None
    assert correction == Correction.from_json(correction.to_json())
    own = Extraction({"offer": {"amount": 3}, "mark": None}, frozenset({"offer.amount"}))
    made = {"title": "Lamp", "price": 9, "mark": "old", "reviews": []}
    assert correction.record(made, own) == {"offer": {"amount": 3}, "mark": None, "title": "Lamp", "opinions": []}
    assert correction.record(None, Extraction({}, frozenset())) is None
    remove_corrections(file, "a.test", "t1")
    assert described(file) == LEARNED.templates[0]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (rule("h1["), "selector: 'h1[' is no css selector of tags"),
        (rule("//p[", language="xpath"), "selector: '//p[' is no xpath selector"),
        (rule("//p[count(//*[.=//*])>1]", language="xpath"), "is no xpath selector"),
        (rule(" "), "selector"),
        (rule("p", language="sql"), "language: 'sql' is not one of css, xpath, json-ld, json"),
        (rule("p", pattern="(a)(b)"), "must have one group"),
        (rule("p" * 501), "query: it is longer than 500"),
        (rule("h1"), "gives no number on any of 3 stored pages of t1"),
        (rule("h1", "reviews.author"), "part of the objects in 'reviews'"),
        (rule("h1", "<b>"), "is no name of a field"),
    ],
)
def test_what_is_no_use_is_refused_and_changes_nothing(file: TemplatesFile, given: FieldRule, told: str) -> None:
    before = file.path.read_bytes()
    with pytest.raises(ConfigError, match=re.escape(told)):
        correct_selector(file, "a.test", "t1", given, PAGES)
    assert file.path.read_bytes() == before


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("c.test", "t1", "price", "amount"), "no templates of c.test"),
        (("a.test", "t9", "price", "amount"), "no template 't9'"),
        (("a.test", "t1", "cost", "amount"), "no field 'cost'; it has price, reviews, reviews.author, title"),
        (("a.test", "t1", "price", "title"), "has another field 'title'"),
        (("a.test", "t1", "price", "a b"), "is no name of a field"),
        (("a.test", "t1", "reviews.author", "writer"), "part of the objects"),
    ],
)
def test_names_that_cannot_be_are_refused(file: TemplatesFile, given: tuple[str, str, str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        rename_field(file, *given)
    with pytest.raises(ConfigError, match="page_type: 'thing' is not one of article, product"):
        correct_page_type(file, "a.test", "t1", "thing", ["product", "article"])


def test_a_correction_that_is_none_is_told_with_the_file(file: TemplatesFile) -> None:
    correct_page_type(file, "a.test", "t1", "product", ["product"])
    file.path.write_text(file.path.read_text().replace('"names": {}', '"names": 3'))
    with pytest.raises(ConfigError, match=r"learned\.json: is damaged in the corrections of a\.test"):
        described(file)
