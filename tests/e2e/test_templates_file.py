"""What a crawl has learned, in a file: the next crawl of the same site asks the model nothing."""

import json

import pytest

from tests.e2e.crawling import explore
from tests.e2e.test_explore import LABELS, llm_settings
from tests.servers import mock_pages
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite


@pytest.fixture
def llm():
    with FakeLLM(answering(label_by_url(LABELS, "homepage"))).in_thread() as llm:
        yield llm


def answering(label):
    """A model that labels pages by `label` and points at the name, the price and the number of a thing."""

    def answer(document):
        return label(document) if document["task"] == "classify" else {"fields": FIELDS, "pages": point(document)}

    return answer


FIELDS = [
    {"name": "name", "type": "string", "description": "What it is called", "many": False},
    {"name": "price", "type": "number", "description": "What it costs", "many": False},
    {"name": "number", "type": "string", "description": "Its number", "many": False},
]


def point(document):
    return [{"id": page["id"], "values": list(values(page))} for page in document["pages"]]


def values(page):
    """The first block after each of these is its value: texts stand in the order of the page."""
    texts = [(block["n"], block["text"]) for block in page["blocks"]]
    name = next((n for n, text in texts if text == page["title"].partition(" - ")[0]), None)
    price = next((n for n, text in texts if text.startswith("£")), None)
    number = next((n for n, text in texts if text.startswith("M-")), None)
    for field, block in (("name", name), ("price", price), ("number", number)):
        if block is not None:
            yield {"field": field, "blocks": [block], "quote": dict(texts)[block]}


def told(outcome):
    """What a page line says of the page's kind, by path: it must not change from crawl to crawl."""
    return {page["url"].split("/", 3)[3]: (page["page_type"], page["template"]) for page in outcome.pages}


def test_the_second_and_the_third_crawl_make_no_call_and_say_the_same(tmp_path, site, llm):
    file = tmp_path / "learned.json"
    settings = llm_settings(llm) | {"TEMPLATES_FILE": file}
    outcomes, calls, files = [], [], []
    for _ in range(3):
        outcomes.append(explore(tmp_path, site.url(), settings))
        calls.append(llm.calls)
        files.append(json.loads(file.read_text()))
        assert outcomes[-1].exit_status == 0, outcomes[-1].log
    first, second, third = outcomes
    assert calls[0] > 0
    assert calls[1:] == [calls[0]] * 2
    assert told(second) == told(third)
    assert {path: kind for path, (kind, _) in told(first).items()} == {
        path: kind for path, (kind, _) in told(second).items()
    }
    # Ids of the first crawl's lines that have been merged or parted since are not those of the end.
    final = {template["template"] for template in first.templates}
    assert {template["template"]: template["page_count"] for template in second.templates}.keys() == final
    assert sum(template["page_count"] for template in second.templates) == len(second.pages)
    assert files[1] == files[2]


def test_other_fields_are_learned_anew(tmp_path, site, llm):
    settings = llm_settings(llm) | {"TEMPLATES_FILE": tmp_path / "learned.json"}
    explore(tmp_path, site.url(), settings)
    calls = llm.calls
    outcome = explore(tmp_path, site.url(), settings, fields="name")
    assert llm.calls > calls
    assert outcome.log.count("Other fields are requested") == 1
    assert {tuple(page["record"]) for page in outcome.pages if page["record"]} == {("name",)}


def test_without_a_model_what_was_learned_decides(tmp_path, site, llm):
    settings = {"TEMPLATES_FILE": tmp_path / "learned.json"}
    first = explore(tmp_path, site.url(), llm_settings(llm) | settings)
    second = explore(tmp_path, site.url(), settings | {"LLM_PROVIDER": "none"})
    assert {page["url"]: page["page_type"] for page in second.pages} == {
        page["url"]: page["page_type"] for page in first.pages
    }
    assert "rule" not in {page["decided_by"] for page in second.pages}


@pytest.mark.nightly
def test_what_was_learned_holds_on_another_port(tmp_path, site, llm):
    settings = llm_settings(llm) | {"TEMPLATES_FILE": tmp_path / "learned.json"}
    explore(tmp_path, site.url(), settings)
    calls = llm.calls
    with MockSite().in_thread() as staging:
        outcome = explore(tmp_path, staging.url(), settings)
    assert llm.calls == calls
    assert all(url.startswith(staging.url()) for one in outcome.templates for url in one["examples"])
    assert len(json.loads((tmp_path / "learned.json").read_text())["sites"]) == 2


def test_new_pages_of_known_templates_are_free_and_a_new_kind_of_page_is_asked(tmp_path, llm):
    new = {
        "/": mock_pages.links("Home", [mock_pages.product_path(n) for n in range(1, 40)] + ["/jobs/carpenter/"]),
        **{mock_pages.product_path(n): mock_pages.product(n) for n in range(31, 40)},
        "/jobs/carpenter/": "<html><body><table><tr><td>We look for a carpenter</td></tr></table></body></html>",
    }
    settings = llm_settings(llm) | {"TEMPLATES_FILE": tmp_path / "learned.json"}
    with MockSite().in_thread() as site:
        explore(tmp_path, site.url(), settings)
    shown = len(llm.documents)
    with MockSite(new).in_thread() as site:
        outcome = explore(tmp_path, site.url(), settings)
    asked = {page["url"].split("/", 3)[3] for document in llm.documents[shown:] for page in document["pages"]}
    assert "jobs/carpenter/" in asked
    assert not {url for url in asked if url.startswith("product/")}
    assert {page["page_type"] for page in outcome.pages if "/product/" in page["url"]} == {"product"}


def test_other_page_types_are_asked_anew(tmp_path, site, llm):
    settings = llm_settings(llm) | {"TEMPLATES_FILE": tmp_path / "learned.json"}
    explore(tmp_path, site.url(), settings)
    calls = llm.calls
    types = tmp_path / "types.json"
    types.write_text(json.dumps({"product": "Something for sale", "homepage": "All else"}))
    llm.answer = answering(label_by_url([("/product/", "product")], "homepage"))
    outcome = explore(tmp_path, site.url(), settings, page_types=types)
    assert llm.calls > calls
    assert outcome.log.count("Page types are not those") == 1
    assert {page["page_type"] for page in outcome.pages} == {"product", "homepage"}


def test_a_jobdir_keeps_what_was_learned(tmp_path, site, llm):
    settings = llm_settings(llm) | {"JOBDIR": tmp_path / "job"}
    explore(tmp_path, site.url(), settings)
    calls = llm.calls
    explore(tmp_path, site.url(), settings)
    assert llm.calls == calls
    assert (tmp_path / "job" / "templates.json").is_file()


def test_a_damaged_state_of_the_site_is_a_usage_error_and_left_as_it_is(tmp_path, site):
    file = tmp_path / "learned.json"
    explore(tmp_path, site.url(), {"TEMPLATES_FILE": file}, max_pages=8)
    value = json.loads(file.read_text())
    (name,) = value["state"]
    value["state"][name] = value["state"][name][:-12]
    file.write_text(json.dumps(value))
    requests = site.stats()["requests"]
    outcome = explore(tmp_path, site.url(), {"TEMPLATES_FILE": file})
    assert (outcome.exit_status, site.stats()["requests"]) == (2, requests)
    assert f"damaged in the part about {name}" in outcome.log
    assert json.loads(file.read_text()) == value


@pytest.mark.nightly
def test_a_crawl_that_is_stopped_keeps_what_it_has_learned(tmp_path, site, llm):
    settings = llm_settings(llm) | {"TEMPLATES_FILE": tmp_path / "learned.json"}
    explore(tmp_path, site.url(), settings | {"CLOSESPIDER_PAGECOUNT": 20})
    calls = llm.calls
    assert calls > 0
    classified = [document for document in llm.documents if document["task"] == "classify"]
    before = {page["url"] for document in classified for page in document["pages"]}
    explore(tmp_path, site.url(), settings)
    later = [document for document in llm.documents[calls:] if document["task"] == "classify"]
    assert not before & {page["url"] for document in later for page in document["pages"]}
