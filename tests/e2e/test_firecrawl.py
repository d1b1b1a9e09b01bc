"""Firecrawl's own clients, unchanged, against `llmcrawler serve`."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from tests.e2e.crawling import TIMEOUT_SECONDS
from tests.e2e.documents import DOCS
from tests.e2e.test_serve import serving
from tests.servers import mock_pages
from tests.servers.mock_site import MockSite

firecrawl = pytest.importorskip("firecrawl")
types = pytest.importorskip("firecrawl.v2.types")
errors = pytest.importorskip("firecrawl.v2.utils.error_handler")

TOKEN = "a token of sixteen characters".replace(" ", "-")
PRODUCT = mock_pages.product_path(3)


class Product(BaseModel):
    name: str
    price: float | None = None


@pytest.fixture(scope="module")
def site():
    with MockSite().in_thread() as site:
        yield site


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder, variables = tmp_path_factory.mktemp("serve") / "jobs", {"LLMCRAWLER_TOKEN": TOKEN}
    with serving(folder, "--allow-private", variables=variables) as server:
        yield server.url.rstrip("/")
        assert server.end() == 0


@pytest.fixture(scope="module")
def client(url):
    return firecrawl.Firecrawl(api_url=url, api_key=TOKEN)


@pytest.fixture(scope="module")
def crawl(client, site):
    return client.crawl(site.url(), limit=40, exclude_paths=["^/login"], poll_interval=1)


def test_a_scrape_gives_the_formats_that_were_asked_for(client, site):
    formats = ["markdown", "html", "rawHtml", "links", {"type": "json", "schema": Product}]
    page = client.scrape(site.url(PRODUCT), formats=formats)
    name = mock_pages.product_name(3)
    assert name in page.markdown
    assert page.json == {"name": name, "price": 9.5}
    assert page.raw_html == mock_pages.product(3)
    assert "application/ld+json" in page.raw_html
    assert name in page.html
    assert "<script" not in page.html
    assert site.url() in page.links
    metadata = page.metadata_dict
    assert metadata.pop("scrape_id")
    assert metadata == {
        "title": f"{name} - Mock Shop",
        "language": "en",
        "url": site.url(PRODUCT),
        "source_url": site.url(PRODUCT),
        "status_code": 200,
    }


def test_a_map_lists_urls_and_search_chooses(client, site):
    found = client.map(site.url(), search="lamp product", limit=3)
    assert len(found.links) == 3
    assert all("/product/" in link.url and "lamp" in link.title.lower() for link in found.links)


def test_a_crawl_is_waited_for_and_comes_in_pages(client, site, crawl):
    assert (crawl.status, crawl.completed, crawl.total, crawl.next, crawl.warning) == ("completed", 40, 40, None, None)
    urls = {document.metadata.source_url for document in crawl.data}
    assert len(urls) == len(crawl.data) == 40
    assert site.url("/login/") not in urls
    assert all(document.markdown for document in crawl.data if "/product/" in document.metadata.url)

    by_hand = client.get_crawl_status(crawl.id, types.PaginationConfig(auto_paginate=False))
    assert (len(by_hand.data), by_hand.status) == (25, "completed")
    rest = client.get_crawl_status_page(by_hand.next)
    assert (len(rest.data), rest.next, rest.id) == (15, None, crawl.id)
    assert urls == {document.metadata.source_url for document in by_hand.data + rest.data}


def test_a_batch_has_an_answer_for_each_url(client, site):
    urls = [site.url("/about/"), site.url("/nope/"), site.url("/private/x/"), site.url("/odd/paper")]
    batch = client.batch_scrape(urls, formats=["markdown"], poll_interval=1)
    assert (batch.status, batch.completed, batch.total) == ("completed", 4, 4)
    found = {document.metadata.source_url: document for document in batch.data}
    assert found.keys() == {*urls[:2]}
    assert found[urls[0]].markdown.startswith("# About us")
    assert (found[urls[1]].metadata.status_code, found[urls[1]].metadata.error) == (404, "404 Not Found")
    failed = client.get_batch_scrape_errors(found[urls[0]].metadata.scrape_id)
    assert failed.robots_blocked == [urls[2]]
    assert [(one.url, one.code) for one in failed.errors] == [(urls[3], "SCRAPE_UNSUPPORTED_FILE_ERROR")]


def test_a_crawl_is_cancelled_once(client, site, crawl):
    started = client.start_crawl(site.url())
    assert started.id in [one.id for one in client.get_active_crawls().crawls]
    assert client.cancel_crawl(started.id) is True
    assert client.get_crawl_status(started.id).status == "cancelled"
    assert client.cancel_crawl(crawl.id) is False


def test_errors_are_the_clients_own(client, url, site, crawl):
    with pytest.raises(errors.BadRequestError, match="allowExternalLinks=True"):
        client.crawl(site.url(), allow_external_links=True)
    with pytest.raises(errors.BadRequestError, match=r"formats\.0\.type='summary'"):
        client.scrape(site.url(), formats=["summary"])
    with pytest.raises(errors.BadRequestError, match="limit=5000: at most 1000"):
        client.start_crawl(site.url(), limit=5_000)
    with pytest.raises(errors.FirecrawlError, match="there is no job 'none'") as none:
        client.get_crawl_status("none")
    assert none.value.code == "NOT_FOUND"
    with pytest.raises(errors.FirecrawlError, match="POST /v2/search: Not Found"):
        client.search("tea")
    with pytest.raises(errors.UnauthorizedError):
        firecrawl.Firecrawl(api_url=url, api_key="wrong").get_crawl_status(crawl.id)


@pytest.mark.nightly
def test_pages_that_cannot_be_read_are_told_as_firecrawl_does(client, site):
    with pytest.raises(errors.WebsiteNotSupportedError, match=r"robots\.txt forbids it") as forbidden:
        client.scrape(site.url("/private/x/"))
    assert forbidden.value.code == "CRAWL_DENIAL"
    with pytest.raises(errors.InternalServerError, match="refused") as refused:
        client.scrape("http://127.0.0.1:9/")
    assert refused.value.code == "SCRAPE_SITE_ERROR"
    with pytest.raises(errors.DNSResolutionError):
        client.scrape("http://no-such-name.invalid/")


@pytest.mark.nightly
def test_a_watcher_tells_of_the_end(client, crawl):
    seen: list[dict[str, object]] = []
    watcher = client.watcher(crawl.id, kind="crawl", poll_interval=1, timeout=TIMEOUT_SECONDS)
    watcher.add_event_listener("done", seen.append)
    watcher.start()
    watcher._thread.join(TIMEOUT_SECONDS)
    assert [one["status"] for one in seen] == ["completed"]


@pytest.mark.nightly
async def test_the_client_for_asyncio_does_the_same(url, site):
    client = firecrawl.AsyncFirecrawl(api_url=url, api_key=TOKEN)
    page = await client.scrape(site.url("/about/"), formats=["markdown"])
    assert page.markdown.startswith("# About us")
    crawl = await client.crawl(url=site.url(), limit=30, poll_interval=1)
    assert (crawl.status, len(crawl.data)) == ("completed", 30)
    assert not (await client.get_crawl_errors(crawl.id)).robots_blocked


def test_the_docs_have_every_option_of_the_client():
    text = (DOCS / "firecrawl.md").read_text(encoding="utf-8")
    named = {*re.findall(r"\w+", " ".join(re.findall("`([^`]+)`", re.sub("```.*?```", "", text, flags=re.DOTALL))))}
    spelled = {"deduplicateSimilarUrls": "deduplicateSimilarURLs"}
    spelled |= {"regexOnFullUrl": "regexOnFullURL", "ignoreInvalidUrls": "ignoreInvalidURLs", "redactPii": "redactPII"}
    kinds = (types.ScrapeOptions, types.CrawlRequest, types.MapOptions, types.BatchScrapeRequest)
    options = {to_camel(name) for kind in kinds for name in kind.model_fields} - {"options"}
    assert {spelled.get(name, name) for name in options} - named == set()
