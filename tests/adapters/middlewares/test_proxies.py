"""What a proxy does to a request, and that it is no way around the check of private addresses."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadConnectionRefusedError, DownloadTimeoutError, IgnoreRequest, NotConfigured
from scrapy.http import HtmlResponse, Response

from llmcrawler.engine.failures import RequestRefused
from llmcrawler.engine.request_context import CONTEXT, RequestContext, context_of
from llmcrawler.middlewares.proxies import ProxyMiddleware, ValidationMiddleware
from tests.adapters.crawlers import PUBLIC as URL
from tests.adapters.crawlers import crawler_of
from tests.adapters.stubs import stub

LOGIN = "http://me:secret@gate.example:80"


PROXIES: dict[str, Any] = {"PROXY_CHECK_NAMES": False, "PROXIES": [LOGIN, "http://two.example:80"]}


def proxy_of(**settings) -> ProxyMiddleware:
    return ProxyMiddleware.from_crawler(crawler_of(**{**PROXIES, **settings}))


async def sent(middleware: ProxyMiddleware, meta: dict[str, Any] | None = None) -> Request:
    """A request that is on its way."""
    request = Request(URL, meta=meta)
    await middleware.process_request(request)
    return request


def test_without_proxies_nothing_stands_in_the_way():
    with pytest.raises(NotConfigured):
        proxy_of(PROXIES=[])
    with pytest.raises(NotConfigured):
        ValidationMiddleware.from_crawler(crawler_of(**PROXIES | {"PROXIES": []}))


async def test_credentials_are_on_the_request_only_while_it_is_on_its_way():
    request = await sent(middleware := proxy_of())
    assert request.meta["proxy"] == "http://gate.example:80"
    assert request.headers["Proxy-Authorization"].startswith(b"Basic ")
    assert "secret" not in str(request.meta)
    middleware.process_response(request, Response(URL, request=request))
    assert "Proxy-Authorization" not in request.headers
    assert "proxy" not in request.meta
    assert context_of(request).proxy == "http://gate.example:80"


@pytest.mark.parametrize("proxy", ["http://own.example:3128", None])
async def test_a_proxy_that_the_request_names_itself_is_left_alone(proxy):
    request = await sent(middleware := proxy_of(), {"proxy": proxy})
    answer = Response(URL, status=403, request=request)
    assert request.meta["proxy"] == proxy
    assert middleware.process_response(request, answer) is answer


async def test_a_proxy_of_the_environment_gives_way():
    request = Request(URL, meta={"proxy": "http://env.example:1", "_scheme_proxy": True, "_auth_proxy": "x"})
    request.headers["Proxy-Authorization"] = "Basic env"
    middleware = proxy_of(PROXIES=["http://two.example:80"])
    await middleware.process_request(request)
    assert request.meta["proxy"] == "http://two.example:80"
    assert "Proxy-Authorization" not in request.headers


async def test_a_request_that_goes_back_is_no_retry_and_keeps_what_it_had():
    middleware = proxy_of()
    known = RequestContext(lease=(lease := stub()))
    request = await sent(middleware, {CONTEXT: known, "download_timeout": 30, "retry_times": 1})
    assert request.meta["download_timeout"] == 10
    again = middleware.process_exception(request, DownloadConnectionRefusedError("no"))
    assert context_of(again).lease is lease
    assert (again.meta["retry_times"], again.meta["download_timeout"]) == (1, 30)
    await middleware.process_request(again)
    assert again.meta["proxy"] == "http://two.example:80"
    assert context_of(again).tried_proxies == ("http://gate.example:80",)


async def test_a_timeout_that_is_not_the_proxys_is_at_last_one_of_the_page():
    again, tries = await sent(middleware := proxy_of()), 0
    while again is not None:
        await middleware.process_request(again)
        again, tries = middleware.process_exception(again, DownloadTimeoutError("slow")), tries + 1
    assert 1 < tries <= 10


async def test_what_is_not_the_proxys_business_is_left_to_others():
    request = await sent(middleware := proxy_of())
    assert middleware.process_exception(request, IgnoreRequest("robots")) is None
    assert middleware.process_exception(request, DownloadTimeoutError("not through us")) is None


async def test_a_redirect_to_a_captcha_is_a_ban_and_is_not_followed():
    request = await sent(middleware := proxy_of())
    wall = Response(URL, status=302, headers={"Location": "/captcha?back=/"}, request=request)
    again = middleware.process_response(request, wall)
    assert isinstance(again, Request)
    assert again.url == URL


@pytest.mark.parametrize(
    ("setting", "meta", "taken"),
    [
        ("", {}, "http://any.example:1"),
        ("de", {}, "http://de.example:1"),
        ("", {"proxy_country": "de"}, "http://de.example:1"),
        ("de", {"proxy_country": "*"}, "http://de.example:1"),
        ("", {"proxy_country": "it"}, "http://any.example:1"),
    ],
)
async def test_the_country_comes_from_the_request_and_else_from_the_setting(setting, meta, taken):
    proxies = {"DE": ["de.example:1"], "*": ["any.example:1"]}
    request = await sent(proxy_of(PROXIES=proxies, PROXY_COUNTRY=setting), meta)
    assert request.meta["proxy"] == taken


async def test_a_country_without_proxies_refuses_its_request_only():
    with pytest.raises(RequestRefused, match="no proxy in IT") as refused:
        await sent(proxy_of(PROXIES={"DE": ["de.example:1"]}), {"proxy_country": "IT"})
    assert refused.value.kind == "no_proxy"
    with pytest.raises(RequestRefused, match="'Italy' is not a country"):
        await sent(proxy_of(), {"proxy_country": "Italy"})


async def test_a_redirect_keeps_the_proxy_of_a_sticky_host():
    request = await sent(middleware := proxy_of(PROXY_STICKY=True))
    middleware.process_response(request, Response(URL, status=302, headers={"Location": "/x"}, request=request))
    redirected = request.replace(url=URL + "x")
    await middleware.process_request(redirected)
    assert redirected.meta["proxy"] == "http://gate.example:80"


async def test_a_gateway_error_of_a_proxy_that_never_worked_is_its_own():
    crawler = crawler_of(**PROXIES)
    middleware, judge = ProxyMiddleware.from_crawler(crawler), ValidationMiddleware.from_crawler(crawler)
    request = await sent(middleware, {CONTEXT: RequestContext(lease=stub())})
    again = middleware.process_response(request, Response(URL, status=502, request=request))
    assert isinstance(again, Request)
    await middleware.process_request(again)
    page = middleware.process_response(again, Response(URL, request=again))
    assert isinstance(page, Response)
    assert await judge.process_response(again, page) is page
    await middleware.process_request(request := Request(URL))
    error = Response(URL, status=502, request=request)
    assert middleware.process_response(request, error) is error


async def test_a_status_of_the_users_that_is_believed_convicts_nobody():
    crawler = crawler_of(**PROXIES, PROXY_BAN_STATUSES=[404])
    middleware, judge = ProxyMiddleware.from_crawler(crawler), ValidationMiddleware.from_crawler(crawler)
    request = Request(URL, meta={CONTEXT: RequestContext(lease=stub())})
    outcome: Request | Response = request
    while isinstance(outcome, Request):
        request = outcome
        await middleware.process_request(request)
        response = Response(URL, status=404, request=request)
        outcome = middleware.process_response(request, response)
    assert outcome is response
    assert await judge.process_response(request, response) is response
    middleware.spider_closed()
    assert crawler.stats.get_value("llmcrawler/politeness/proxies/dropped") == 0


async def test_a_captcha_that_the_cache_kept_is_fetched_anew():
    crawler = crawler_of(**PROXIES)
    judge = ValidationMiddleware.from_crawler(crawler)
    crawler.spider = stub(crawler=crawler, request_of=None)
    request = Request(URL, meta={CONTEXT: RequestContext(lease=stub())})
    kept = HtmlResponse(URL, body=b"<title>Are you a robot?</title>", request=request, flags=["cached"])
    again = await judge.process_response(request, kept)
    assert again.meta["dont_cache"]
