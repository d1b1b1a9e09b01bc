"""The benchmark of themes, on two templates made here: what counts as truth, how it is saved and scored."""

import asyncio
from datetime import datetime

import pytest

from benchmarks import theme_sites
from benchmarks.null_discipline import crawled
from benchmarks.records_quality import ScriptedModel
from benchmarks.theme_builders import Bench
from benchmarks.theme_scoring import LEARN_PAGES, learned, lines_of_report, requested_of, scored
from benchmarks.theme_sites import Template, build, fields_of, stored
from llmcrawler.core.understanding.extraction.annotators import LLMAnnotator


def shop(bench, name, language, records):
    for n, r in enumerate(records):
        price = f"{r['price']:.2f} €".replace(".", ",")
        brand = f"<dl><dt>Marke</dt><dd>{r['brand']}</dd></dl>" if r["brand"] else ""
        html = f"<h1>{r['title']}</h1><p class=price>{price}</p>{brand}<p>{r['description']}</p>"
        yield (
            f"/p/{n}",
            f"<html lang={language}><body>{html}</body></html>",
            {key: r[key] for key in ("title", "price", "brand", "sku")},
        )


def blog(bench, name, language, records):
    for n, r in enumerate(records):
        day = f"{r['date_published']:%d/%m/%Y}"
        tags = "".join(f"<a class=tag>{tag}</a>" for tag in r["tags"] or ())
        html = f"<article><h2>{r['title']}</h2><time>{day}</time>{tags}<p>{r['paragraphs'][0]}</p></article>"
        yield (
            f"/b/{n}",
            f"<html lang={language}><body>{html}</body></html>",
            {key: r[key] for key in ("title", "date_published", "tags")},
        )


TEMPLATES = {"shop": Template("product", "de", shop), "blog": Template("article", "fr", blog)}


@pytest.mark.parametrize("name", TEMPLATES)
def test_records_of_a_saved_template_are_learned(name, tmp_path, monkeypatch):
    monkeypatch.setattr(theme_sites, "TEMPLATES", TEMPLATES)
    build(tmp_path, name, Bench(tmp_path / "work"))
    site = stored(tmp_path / name, 12)
    assert len(site.records) == 12
    assert "sku" not in {field for page in site.records for field in page.fields}, "no page shows it"
    outcome = asyncio.run(crawled(site, 0.0, 1))
    assert outcome.scores.macro > 0.95, str(outcome.scores)


def test_an_annotator_learns_from_the_first_pages_and_is_scored_on_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(theme_sites, "TEMPLATES", TEMPLATES)
    build(tmp_path, "shop", Bench(tmp_path / "work"))
    site = stored(tmp_path / "shop")
    model = ScriptedModel({page.path: page.fields for page in site.pages}, 0.0, 1)
    result = learned(site, lambda requested: LLMAnnotator(model.ask, model.name, requested=requested), asked=True)
    assert {key: score.f1 for key, score in result.fields.items()} == {"title": 1, "price": 1, "brand": 1}
    assert result.fields["title"].wanted == len(site.records) - LEARN_PAGES
    assert any("macro F1 1.000" in line for line in lines_of_report([result]))


def test_a_value_counts_where_the_page_shows_it_in_whatever_form():
    html = """<html><head><title>Nie</title></head><body><p data-x="Nur hier">Am 5. März 2024 um 14:30</p>
    <b>1.234,50 €</b><ul><li>rot<li>grün</ul><script>versteckt</script></body></html>"""
    record = {
        "date": datetime(2024, 3, 5, 14, 30),  # noqa: DTZ001 - as a page shows it
        "price": 1234.5,
        "colors": ["rot", "grün"],
        "sizes": ["rot", "blau"],
        "in_head": "Nie",
        "in_attribute": "Nur hier",
        "in_script": "versteckt",
        "part_of_word": "ot",
        "none": None,
    }
    fields, meanings = fields_of(record, html, "de")
    assert fields == {"date": "5. März 2024 um 14:30", "price": "1.234,50 €", "colors": ["rot", "grün"]}
    assert meanings == {"date": "2024-03-05T14:30", "price": 1234.5}


def test_a_field_goes_by_its_other_names_but_serves_one_field_only():
    truth = {"title": "A", "date_published": "2024-03-05", "tags": ["x", "y"]}
    record = {"headline": "a", "published": "2024-03-05T10:00:00", "keywords": ["#x", "z"], "menu": "Home"}
    result = scored([(truth, record), ({"title": "B"}, {"headline": "C", "published": "2024-01-01"})], ["en", "en"])
    assert result.names == {"title": "headline", "date_published": "published", "tags": "keywords"}
    assert result.others == ("menu",)
    counts = {key: (score.right, score.given, score.wanted) for key, score in result.fields.items()}
    assert counts == {"title": (1, 2, 2), "date_published": (1, 2, 1), "tags": (1, 2, 2)}


def test_objects_are_scored_by_their_properties():
    posts = [{"author": "Ann", "text": "One"}, {"author": "Bo", "text": "Two"}]
    result = scored([({"posts": posts}, {"comments": [{"author": "Ann", "text": "Two"}]})], ["en"])
    counts = {key: (score.right, score.given, score.wanted) for key, score in result.fields.items()}
    assert counts == {"posts.author": (1, 1, 2), "posts.text": (1, 1, 2)}


def test_the_fields_of_the_truth_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(theme_sites, "TEMPLATES", TEMPLATES)
    build(tmp_path, "blog", Bench(tmp_path / "work"))
    fields = {one.key: (one.type, one.many) for one in requested_of(stored(tmp_path / "blog")).fields}
    assert fields == {"title": (None, False), "date_published": ("date", False), "tags": (None, True)}
