import asyncio
import threading
from http.cookies import SimpleCookie

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler
from tldextract.tldextract import _PublicSuffixListTLDExtractor

from llmcrawler.crawl.credentials import Credentials
from llmcrawler.middlewares.cookies import CrawlCookiesMiddleware

URL = "http://shop.example.co.uk/"


@pytest.fixture
def middleware(monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("somebody was asked")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    return CrawlCookiesMiddleware.from_crawler(get_crawler())


def set_cookies(middleware, *cookies, url=URL):
    asyncio.run(middleware.process_response(Request(url), Response(url, headers={"Set-Cookie": list(cookies)})))


def sent_to(middleware, url=URL):
    request = Request(url)
    asyncio.run(middleware.process_request(request))
    found = SimpleCookie((request.headers.get("Cookie") or b"").decode())
    return {name: morsel.value for name, morsel in found.items()}


def test_cookies_come_back_and_nobody_is_asked_about_suffixes(middleware):
    set_cookies(middleware, "a=1", "b=2; Domain=example.co.uk", "c=3; Domain=co.uk", "d=4; Domain=other.co.uk")
    assert sent_to(middleware) == {"a": "1", "b": "2"}
    assert sent_to(middleware, "http://www.example.co.uk/") == {"b": "2"}
    assert sent_to(middleware, "http://victim.co.uk/") == {}


def test_the_suffixes_are_read_in_a_thread_and_only_where_there_is_a_cookie(middleware, monkeypatch):
    threads = []
    read = _PublicSuffixListTLDExtractor.__init__

    def noted(*arguments, **options):
        threads.append(threading.current_thread())
        read(*arguments, **options)

    monkeypatch.setattr(_PublicSuffixListTLDExtractor, "__init__", noted)
    set_cookies(middleware)
    sent_to(middleware)
    assert threads == []
    set_cookies(middleware, "a=1; Domain=example.co.uk")
    set_cookies(middleware, "b=1; Domain=example.co.uk")
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_a_private_suffix_is_a_public_one_too(middleware):
    set_cookies(middleware, "a=1; Domain=github.io", url="http://mallory.github.io/")
    assert sent_to(middleware, "http://alice.github.io/") == {}


def test_a_site_has_a_bounded_number_of_cookies(middleware):
    for number in range(0, 5000, 100):
        set_cookies(middleware, *(f"n{some}=1; Path=/" for some in range(number, number + 100)))
    set_cookies(middleware, *(f"m{number}=1" for number in range(100_000)))
    assert len(sent_to(middleware)) == 180
    set_cookies(middleware, "n0=2; Path=/")  # one that is there may change
    assert sent_to(middleware)["n0"] == "2"


def test_a_cookie_is_no_longer_than_browsers_have_it(middleware):
    set_cookies(middleware, f"long={'x' * 5000}", "short=1", f"path=1; Path=/{'x' * 5000}")
    assert sent_to(middleware) == {"short": "1"}


@pytest.mark.slow
def test_a_jar_has_a_bounded_number_of_domains(middleware):
    for number in range(1100):
        set_cookies(middleware, "a=1", url=f"http://h{number}.example/")
    (jar,) = middleware.jars.jars.values()
    assert len(jar._cookies) == 1000


def test_the_users_cookies_are_for_the_very_host_and_a_site_may_replace_them(middleware):
    sid = {"name": "sid", "value": "mine", "path": "/", "secure": False, "domain": ".co.uk"}
    middleware._credentials = Credentials({}, [sid], [URL])
    assert sent_to(middleware, f"{URL}robots.txt") == {"sid": "mine"}
    assert sent_to(middleware, "http://www.shop.example.co.uk/") == {"sid": "mine"}
    assert sent_to(middleware, "http://cdn.shop.example.co.uk/") == sent_to(middleware, "http://evil.co.uk/") == {}
    set_cookies(middleware, "sid=theirs; Path=/")
    assert sent_to(middleware) == {"sid": "theirs"}
