"""Who may lead a crawl where: neither a name nor a proxy is a way around the check of private addresses."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import CannotResolveHostError
from twisted.internet.defer import Deferred
from twisted.internet.error import DNSLookupError

from llmcrawler.core.frontier.protocol import Lease, UrlTask
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.failures import RequestRefused
from llmcrawler.engine.request_context import CONTEXT, RequestContext
from llmcrawler.middlewares.addresses import AddressMiddleware, GuardedResolver, NameMiddleware
from tests.adapters.crawlers import PUBLIC, crawler_of
from tests.adapters.stubs import stub

PROXY = {"proxy": "http://gate.example:80"}
INSIDE = "http://127.0.0.1:8000/"


def kind_of_refusal(middleware, request) -> str | None:
    try:
        middleware.process_request(request)
    except RequestRefused as refused:
        return refused.kind
    return None


def leased(url: str, referer: str | None, **meta) -> Request:
    return Request(url, meta={CONTEXT: RequestContext(lease=Lease(UrlTask(url, "", referer=referer))), **meta})


@pytest.mark.parametrize(
    ("request_", "is_refused"),
    [
        (leased(INSIDE, None), False),
        (leased(INSIDE + "a", INSIDE), False),
        (leased(INSIDE + "a", PUBLIC), True),
        (leased(INSIDE + "a", INSIDE, redirect_urls=[INSIDE + "b"]), False),
        (leased(INSIDE + "a", None, redirect_urls=[INSIDE, PUBLIC]), True),  # there and back
        (leased("http://127.0.0.1:8001/", None, redirect_urls=[INSIDE]), True),
        (Request(INSIDE + "robots.txt"), False),
        (Request(INSIDE + "sitemap.xml", meta={CONTEXT: RequestContext(found_at=PUBLIC)}), True),
        (Request(INSIDE + "sitemap.xml", meta={CONTEXT: RequestContext(found_at=INSIDE)}), False),
        (Request("http://127.0.0.1:8001/"), True),
        (leased(PUBLIC, INSIDE), False),
    ],
)
def test_only_the_pages_of_a_private_start_lead_into_it(request_, is_refused):
    middleware = AddressMiddleware.from_crawler(crawler_of(INSIDE, PUBLIC))
    assert kind_of_refusal(middleware, request_) == ("private_address" if is_refused else None)


@pytest.mark.parametrize(
    ("addresses", "is_refused"),
    [
        ({"rebind.example": ["10.0.0.7"]}, True),
        ({"rebind.example": ["93.184.215.14", "::1"]}, True),
        ({"rebind.example": ["93.184.215.14"]}, False),
        ({}, False),  # no name service here; the proxy has one
    ],
)
async def test_a_name_of_a_private_address_is_refused_though_the_proxy_looks_it_up(addresses, is_refused):
    middleware = NameMiddleware.from_crawler(crawler_of(names=addresses))
    request = Request("http://rebind.example/x", meta=dict(PROXY))
    if not is_refused:
        await middleware.process_request(request)
        return
    with pytest.raises(RequestRefused, match=r"rebind.example is (10\.0\.0\.7|::1)") as refused:
        await middleware.process_request(request)
    assert refused.value.kind == "private_address"


async def test_names_are_not_looked_up_where_no_proxy_does_or_where_the_user_says_so():
    inside = {"rebind.example": ["10.0.0.7"]}
    request = Request("http://rebind.example/x", meta=dict(PROXY))
    unchecked = NameMiddleware.from_crawler(crawler_of(names=inside, PROXY_CHECK_NAMES=False))
    assert await unchecked.process_request(request) is None
    # Without a proxy the resolver judges the address that is connected to.
    checked = NameMiddleware.from_crawler(crawler_of(names=inside))
    assert await checked.process_request(Request("http://rebind.example/x")) is None


@pytest.mark.parametrize("meta", [PROXY, {}])
async def test_the_proxys_own_machine_is_no_target(meta):
    crawler = crawler_of(names={"gate.example": ["192.168.1.1"], "example.com": ["93.184.215.14"]})
    middleware = NameMiddleware.from_crawler(crawler)
    await middleware.process_request(Request(PUBLIC, meta=dict(PROXY)))
    resolver = GuardedResolver(stub(), 0, 1.0, lambda: [crawl_of(crawler).hosts])
    assert resolver._check("192.168.1.1", "gate.example") == "192.168.1.1"
    with pytest.raises(RequestRefused):
        await middleware.process_request(Request("http://gate.example:8080/admin", meta=dict(meta)))


async def test_a_start_host_may_be_private_through_a_proxy_too():
    middleware = NameMiddleware.from_crawler(crawler_of("http://wiki.corp/", names={"wiki.corp": ["10.1.2.3"]}))
    assert await middleware.process_request(Request("http://wiki.corp/page", meta=dict(PROXY))) is None


def test_a_name_that_the_resolver_refused_is_no_unknown_one():
    crawler = crawler_of()
    middleware, request = NameMiddleware.from_crawler(crawler), Request("http://rebind.example/x")
    error = CannotResolveHostError("no results for hostname lookup: rebind.example")
    assert middleware.process_exception(request, error) is None
    resolver = GuardedResolver(stub(), 0, 1.0, lambda: [crawl_of(crawler).hosts])
    with pytest.raises(DNSLookupError):
        resolver._check("10.0.0.7", "rebind.example")
    with pytest.raises(RequestRefused, match=r"rebind.example is 10\.0\.0\.7") as refused:
        middleware.process_exception(request, error)
    assert refused.value.kind == "private_address"
    resolver._check("93.184.215.14", "rebind.example")
    assert middleware.process_exception(request, error) is None


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
    assert kind_of_refusal(AddressMiddleware.from_crawler(crawler_of()), Request(url)) == "private_address"


def test_nobody_waits_for_a_name_server_when_the_reactor_stops():
    """The reactor waits for the threads of its own pool, and Python for all that are no daemons."""
    resolver = resolver_of("https://example.com/")
    pool: Any = resolver.reactor.getThreadPool()
    ran = threading.Event()
    pool.callInThread(ran.set)
    assert ran.wait(60)
    assert [thread.daemon for thread in pool.threads] == [True]
    pool.stop()
