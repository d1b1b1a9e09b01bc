"""The parts of a crawl are built once, by the first extension, for whatever spider."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from llmcrawler import settings as project_settings
from llmcrawler.core.urls import AddressGuard
from llmcrawler.crawl import context as reachable_hosts
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.context import ReachableHosts, build_crawl, crawl_of, find_crawl
from llmcrawler.middlewares.addresses import AddressMiddleware
from llmcrawler.pipelines.stages import ClassifyPipeline
from llmcrawler.spiders.explore import ExploreSpider

URL = "https://shop.example/"
PROJECT = {name: getattr(project_settings, name) for name in dir(project_settings) if name.isupper()}


def crawler_of(**settings: Any) -> Crawler:
    return get_crawler(ExploreSpider, {**PROJECT, "LLM_PROVIDER": "none", **settings})


def test_the_first_extension_builds_the_crawl_before_others_ask_for_it() -> None:
    crawl = find_crawl(crawler_of())
    assert crawl is not None
    assert crawl.options.urls == ()  # there is no spider, as in `scrapy shell`


def test_a_project_that_sets_extensions_of_its_own_has_it_all_the_same() -> None:
    assert find_crawl(crawler_of(EXTENSIONS={})) is not None


def test_a_foreign_spider_gets_a_crawl_without_start_urls() -> None:
    crawler = get_crawler(Spider, {**PROJECT, "LLM_PROVIDER": "none"})
    crawler.spider = Spider("own")
    assert build_crawl(crawler).options.urls == ()
    assert crawl_of(crawler).job is None


def test_what_is_missing_is_named() -> None:
    with pytest.raises(RuntimeError, match="CrawlSetup"):
        AddressMiddleware.from_crawler(Crawler(Spider, Settings()))


def test_components_of_a_crawl_share_its_parts() -> None:
    crawler = crawler_of()
    crawler.spider = SimpleNamespace(options=ExploreOptions(urls=(URL,)))  # type: ignore[assignment]
    crawl = build_crawl(crawler)
    assert crawl_of(crawler) is crawl
    assert ClassifyPipeline.from_crawler(crawler).sites is crawl.understanding.sites
    assert crawl.understanding.sites.of(URL) is crawl.understanding.sites.of("https://www.shop.example/a")


@pytest.mark.parametrize("provider", ["auto", "none"])
def test_without_a_key_no_model_is_asked(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LLM_API_KEY", "LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    understanding = crawl_of(crawler_of(LLM_PROVIDER=provider)).understanding
    assert (understanding.model, understanding.asker, understanding.annotator) == (None, None, None)


def test_a_job_of_a_crawl_is_its_storage(tmp_path: Any) -> None:
    crawler = crawler_of(JOBDIR=str(tmp_path / "job"))
    crawler.spider = SimpleNamespace(options=ExploreOptions(urls=(URL,)))  # type: ignore[assignment]
    crawl = build_crawl(crawler)
    assert crawl.job is not None
    assert (crawl.frontier, crawl.ledger) == (crawl.job.frontier, crawl.job.ledger)


def test_a_crawl_goes_with_its_crawler() -> None:
    crawl = weakref.ref(crawl_of(crawler_of()))
    gc.collect()
    assert crawl() is None


def hosts() -> ReachableHosts:
    return ReachableHosts(AddressGuard(("https://example.com/",)), None, checks_names=True)


def test_a_proxy_that_a_request_was_given_is_known_however_it_is_written() -> None:
    reachable = hosts()
    for address in ("http://me:secret@one.example:80", "two.example:8080", "http://[broken"):
        reachable.add_proxy(address)
    assert [reachable.is_proxy(name) for name in ("one.example", "two.example", "example.com")] == [True, True, False]


def test_of_the_refused_names_the_latest_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(reachable_hosts, "_MAX_REFUSED_NAMES", 2)
    reachable = hosts()
    for name in ("a.example", "b.example", "c.example"):
        reachable.add_refused_name(name, "private")
    assert list(reachable.refused_names) == ["b.example", "c.example"]
