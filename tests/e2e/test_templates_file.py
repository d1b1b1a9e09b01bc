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
    """What a page line says of the page by path: it must not change from crawl to crawl."""
    return {
        page["url"].split("/", 3)[3]: (page["page_type"], page["template"], page["record"]) for page in outcome.pages
    }


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
    assert {path: one[0] for path, one in told(first).items()} == {path: one[0] for path, one in told(second).items()}
    assert sum(record is not None for _, _, record in told(second).values()) > 20
    # Ids of the first crawl's lines that have been merged or parted since are not those of the end.
    final = {template["template"] for template in first.templates}
    assert {template["template"]: template["page_count"] for template in second.templates}.keys() == final
    assert sum(template["page_count"] for template in second.templates) == len(second.pages)
    assert files[1] == files[2]


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


def test_a_jobdir_keeps_what_was_learned(tmp_path, site, llm):
    settings = llm_settings(llm) | {"JOBDIR": tmp_path / "job"}
    explore(tmp_path, site.url(), settings)
    calls = llm.calls
    explore(tmp_path, site.url(), settings)
    assert llm.calls == calls
    assert (tmp_path / "job" / "templates.json").is_file()
