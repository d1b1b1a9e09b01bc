"""`-a goal=`: wanted pages first, and no more than asked for."""

from __future__ import annotations

import pytest

from tests.e2e.crawling import explore
from tests.e2e.killing import JobCrawl, lines_of
from tests.servers.catalogue import Catalogue
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite

LABELS = [
    ("/ask", "contact"),
    ("/reviews", "review"),
    ("/goods/", "product"),
    ("/blog/", "article"),
    ("page=", "listing"),
]


def settings_of(llm: FakeLLM) -> dict[str, object]:
    return {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "RECORD_PAGE_TYPES": "none"}


@pytest.mark.nightly
def test_nearly_all_products_are_among_the_first_pages_and_the_same_after_a_kill(tmp_path):
    wishful, killed = Catalogue(latency_seconds=0.02), Catalogue(latency_seconds=0.02)
    first = round(1.25 * len(wishful.products))
    with FakeLLM(label_by_url(LABELS, "listing"), latency_seconds=0.2).in_thread() as llm:
        settings = settings_of(llm)
        with MockSite(wishful.routes()).in_thread() as site:
            outcome = explore(tmp_path, site.url(), settings, max_pages=first, goal="product")
            assert outcome.exit_status == 0, outcome.log
        with MockSite(killed.routes()).in_thread() as site:
            arguments = {"goal": "product", "max_pages": first}
            crawl = JobCrawl(tmp_path, site.url(), settings, arguments, feeds=["-O", tmp_path / "pages.jsonl"])
            crawl.run_until(killed, first // 2)
            assert crawl.run() == 0, crawl.logs[-1]
    urls = [line["url"] for line in lines_of(tmp_path / "pages.jsonl") if line["kind"] == "page"]
    # By breadth it would be a fifth of them. How many it is depends on the machine: benchmarks/goal_crawl.
    assert wishful.early(first) >= 0.6 * len(wishful.products)
    assert sum("/goods/" in url and url.count("/") == 4 for url in urls) >= 0.5 * len(killed.products)
    assert len(urls) == len(set(urls))


def test_a_crawl_ends_when_so_many_records_came(tmp_path):
    shop = Catalogue(with_data=True)
    with MockSite(shop.routes()).in_thread() as site:
        outcome = explore(tmp_path, site.url(), goal="product", max_records=30)
    assert outcome.exit_status == 0, outcome.log
    assert "'finish_reason': 'finished'" in outcome.log
    records = [page for page in outcome.pages if page["page_type"] == "product" and page["record"]]
    assert len(records) >= 30
    # Selectors and what each page says of itself make a record together.
    assert {(page["template"], page["record_by"]) for page in records} == {(records[0]["template"], "template")}
    assert all(page["record"]["@type"] == "Product" for page in records)
    assert all(page["record"].keys() >= {"@type", "name", "offers"} for page in records)
    assert len(outcome.pages) < len(shop.bodies) / 2  # those that were on their way, however many that were


@pytest.mark.nightly
def test_a_goal_that_no_page_of_the_site_meets_leaves_no_page_out(tmp_path):
    shop = Catalogue(products=8, posts=10)
    with MockSite(shop.routes()).in_thread() as site:
        outcome = explore(tmp_path, site.url(), goal="recipe,event", max_records=3)
    assert outcome.exit_status == 0, outcome.log
    assert len(outcome.pages) == len(shop.bodies)
