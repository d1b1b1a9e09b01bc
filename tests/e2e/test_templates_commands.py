"""`scrapy templates` and `parse` with what a crawl has learned."""

import json
import shutil
from pathlib import Path

import pytest

from llmcrawler import Extractor, extract_batch
from llmcrawler.commands import templates
from llmcrawler.core.storage import TemplatesFile
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.core.understanding.extraction.corrections import (
    PageToTry,
    correct_page_type,
    correct_selector,
    rename_field,
)
from llmcrawler.core.understanding.extraction.extractor import FieldRule
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.selectors import Selector
from tests.adapters.commands.run_here import printed
from tests.e2e.crawling import explore, scrapy
from tests.e2e.test_explore import LABELS, llm_settings
from tests.e2e.test_templates_file import answering
from tests.servers import mock_pages
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite

PRODUCT = mock_pages.product_path(7)


@pytest.fixture(scope="module")
def site():
    with MockSite().in_thread() as site:
        yield site


@pytest.fixture(scope="module")
def learned(tmp_path_factory, site):
    folder = tmp_path_factory.mktemp("learned")
    with FakeLLM(answering(label_by_url(LABELS, "homepage"))).in_thread() as llm:
        explore(folder, site.url(), llm_settings(llm) | {"TEMPLATES_FILE": folder / "learned.json"})
    return folder / "learned.json"


def test_templates_shows_types_patterns_and_selectors(learned, site):
    shown = scrapy("templates", learned)
    assert shown.returncode == 0
    assert site.origin.removeprefix("http://") in shown.stdout
    lines = shown.stdout.splitlines()
    (product,) = [line.split() for line in lines if " product " in line and "/product/" in line]
    assert product[1:4] == ["product", "30", "/product/*/"]
    (number,) = [line for line in lines if line.startswith("number ")]
    assert "string" in number
    assert "100%" in number
    assert "\x1b" not in shown.stdout


def test_what_is_piped_is_not_cut(learned, tmp_path):
    wide = json.loads(learned.read_text())
    selector = "//div" + "[normalize-space()='[bold]x']/following-sibling::div" * 20
    (entries,) = wide["sites"].values()
    entries[0]["selectors"] = [{"field": "x\x1b[31m", "xpath": selector, "coverage": 1.0, "agreement": None}]
    (tmp_path / "wide.json").write_text(json.dumps(wide))
    shown = printed(templates.Command(), tmp_path / "wide.json")
    assert selector in shown
    assert "\x1b" not in shown


def test_templates_as_json_are_those_of_the_file(learned, site):
    shown = printed(templates.Command(), learned, "--json", "--site", "127.0.0.1")
    assert json.loads(shown) == json.loads(learned.read_text())["sites"]


def test_templates_of_a_jobdir(learned, tmp_path):
    shutil.copy(learned, tmp_path / "templates.json")
    assert printed(templates.Command(), tmp_path) == printed(templates.Command(), learned)


def test_parse_shows_the_page_and_its_links_and_fetches_nothing_else(site):
    before = dict(site.measures.hits)
    shown = scrapy("parse", "--spider=explore", "--nocolour", site.url(PRODUCT))
    assert shown.returncode == 0
    assert "Traceback" not in shown.stderr
    assert site.url(PRODUCT) in shown.stdout
    assert f"<GET {site.url('/about/')}>" in shown.stdout
    now = {path: count - before.get(path, 0) for path, count in site.measures.hits.items()}
    assert {path for path, count in now.items() if count} == {"/robots.txt", PRODUCT}


def test_parse_with_pipelines_shows_the_record_by_the_stored_template(learned, site):
    before = learned.read_bytes()
    shown = scrapy("parse", "--pipelines", "--nocolour", site.url(PRODUCT), settings={"TEMPLATES_FILE": learned})
    assert "'number': 'M-0007'" in shown.stdout, shown.stderr
    assert "'page_type': 'product'" in shown.stdout
    assert "Traceback" not in shown.stderr
    assert learned.read_bytes() == before


@pytest.mark.parametrize("path", ["/odd/500", "/odd/moved"])
def test_parse_of_what_is_no_page_shows_its_error_or_its_target(site, path):
    shown = scrapy("parse", "--pipelines", "--nocolour", site.url(path), settings={"RETRY_TIMES": 0})
    assert "Traceback" not in shown.stderr
    assert "'kind': 'page'" in shown.stdout


def test_parse_follows_as_deep_as_it_is_told(site):
    shown = scrapy("parse", "-d", "2", "--nocolour", "--nolinks", site.url("/about/"))
    assert "Traceback" not in shown.stderr
    assert shown.stdout.count("'kind': 'page'") > 3


PAGES = [PageToTry(mock_pages.product(n), f"http://site.test{mock_pages.product_path(n)}") for n in (1, 2, 3)]


def test_what_a_person_has_corrected_stays_whatever_later_crawls_learn(tmp_path, site, learned):
    file = TemplatesFile(Path(shutil.copy(learned, tmp_path)))
    (name,) = file.load()
    (template,) = [one["template"] for one in file.load()[name].templates if one["page_type"] == "product"]
    correct_page_type(file, name, template, "article", DEFAULT_PAGE_TYPES.names)
    heading = FieldRule(Field("number"), (Selector("div.product > h1", "css"),))
    assert correct_selector(file, name, template, heading, PAGES)[:2] == (3, 3)
    answer = answering(label_by_url(LABELS, "homepage"))
    calls = [0]

    def contradict(document):
        """The model says what it said before, and while the crawl runs a person corrects one thing more."""
        if document["task"] != "classify" and not calls[0]:
            calls[0] += 1
            rename_field(file, name, template, "price", "amount")
        return answer(document)

    with FakeLLM(contradict).in_thread() as llm:
        outcome = explore(tmp_path, site.url(), llm_settings(llm) | {"TEMPLATES_FILE": file.path})
    products = [page for page in outcome.pages if "/product/" in page["url"]]
    assert {(page["page_type"], page["decided_by"]) for page in products} == {("article", "person")}
    assert calls[0], "the records of the other page type are learned anew"
    assert {page["record"]["number"] for page in products} == {page["record"]["name"] for page in products}
    kept = json.loads(file.path.read_text())["corrections"][name][template]
    assert (kept["by"], kept["page_type"], kept["names"]) == ("person", "article", {"price": "amount"})

    html, url = mock_pages.product(2), site.url(mock_pages.product_path(2))
    (line,), read = extract_batch([{"html": html, "url": url}], file.path), Extractor.load(file.path).record(html, url)
    assert read.page_type == line["page_type"] == "article"
    assert read.record == line["record"]
    assert read.record["number"] == read.record["name"] == mock_pages.product_name(2)
    assert read.record["amount"] == 6.5
    shown = json.loads(printed(templates.Command(), "--json", file.path))[name]
    (entry,) = [one for one in shown if one["template"] == template]
    assert (entry["page_type"], entry["by"]) == ("article", "person")
    by_person = {one["field"] for one in entry["selectors"] if one.get("by") == "person"}
    assert by_person == {"number", "amount"}
    table = printed(templates.Command(), file.path)
    assert "article (by a person)" in table
    assert "amount (by a person)" in table
