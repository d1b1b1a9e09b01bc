"""A name is not a way around the check of private addresses."""

import threading
from typing import Any

import pytest
from scrapy import Request
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError

from llmcrawler import settings as project_settings
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.context import build_crawl, crawl_of
from llmcrawler.engine.compat import SpiderControl
from llmcrawler.engine.failures import RequestRefused
from llmcrawler.middlewares.addresses import AddressMiddleware, GuardedResolver
from llmcrawler.spiders.explore import ExploreSpider
from tests.adapters.stubs import stub


def crawler_of(url: str):
    values = {name: getattr(project_settings, name) for name in dir(project_settings) if name.isupper()}
    crawler = get_crawler(ExploreSpider, values | {"LLM_PROVIDER": "none"})
    crawler.spider = stub(options=ExploreOptions(urls=(url,)))
    build_crawl(crawler, SpiderControl(crawler))
    return crawler


def resolver_of(*urls: str) -> GuardedResolver:
    hosts = [crawl_of(crawler_of(url)).hosts for url in urls]
    return GuardedResolver(stub(), 0, 1.0, lambda: hosts)


def test_a_public_name_that_resolves_to_a_private_address_is_not_found():
    with pytest.raises(DNSLookupError, match=r"10\.0\.0\.7"):
        resolver_of("https://example.com/")._check("10.0.0.7", "rebind.example")


def test_public_addresses_and_given_hosts_pass():
    assert resolver_of("https://example.com/")._check("8.8.8.8", "example.com") == "8.8.8.8"
    assert resolver_of("http://localhost:8000/")._check("127.0.0.1", "localhost") == "127.0.0.1"


def test_an_ipv6_address_is_its_own_name_and_is_checked_like_one():
    found: list[Any] = []
    resolver_of("http://[2606:4700::1111]/").getHostByName("2606:4700::1111").addCallback(found.append)
    assert found == ["2606:4700::1111"]
    refused: Deferred[Any] = resolver_of("https://example.com/").getHostByName("::1")
    refused.addErrback(lambda failure: found.append(failure.type))
    assert found[1] is DNSLookupError


def test_one_crawl_of_a_process_does_not_close_the_network_for_another():
    assert resolver_of("https://example.com/", "http://localhost/")._check("127.0.0.1", "localhost") == "127.0.0.1"


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "http://[::1]/", "http://2130706433/", "http://printer.local/"])
def test_a_request_of_a_public_crawl_to_a_private_host_is_refused(url):
    middleware = AddressMiddleware.from_crawler(crawler_of("https://example.com/"))
    with pytest.raises(RequestRefused) as refused:
        middleware.process_request(Request(url))
    assert refused.value.kind == "private_address"


def test_nobody_waits_for_a_name_server_when_the_reactor_stops():
    """The reactor waits for the threads of its own pool, and Python for all that are no daemons."""
    resolver = resolver_of("https://example.com/")
    pool: Any = resolver.reactor.getThreadPool()
    ran = threading.Event()
    pool.callInThread(ran.set)
    assert ran.wait(60)
    assert [thread.daemon for thread in pool.threads] == [True]
    pool.stop()
