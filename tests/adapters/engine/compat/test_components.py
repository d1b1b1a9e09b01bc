"""What is private of Scrapy's middlewares, extensions, commands and downloader."""

from __future__ import annotations

import gzip
from collections import deque
from http.cookiejar import Cookie

import pytest
from scrapy import Request, Spider
from scrapy.commands.crawl import Command as CrawlCommand
from scrapy.commands.parse import Command as ParseCommand
from scrapy.core.downloader import Downloader, Slot
from scrapy.core.downloader.handlers import DownloadHandlers
from scrapy.downloadermiddlewares import cookies as scrapy_cookies
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware, RedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions.feedexport import FeedExporter
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.cookies import CookieJar

from llmcrawler.engine import compat as components
from tests.adapters.engine.compat.private_names import URL, check_overridden, check_read, crawler_with
from tests.adapters.stubs import stub


@pytest.mark.parametrize(
    ("base", "original", "names"),
    [
        (components.DownloaderBase, Downloader, {"_get_slot", "_download"}),
        (components.FeedExporterBase, FeedExporter, {"_close_slot"}),
        (components.RedirectHooks, BaseRedirectMiddleware, {"_build_redirect_request", "_redirect"}),
        (components.CookiesBase, scrapy_cookies.CookiesMiddleware, {"_process_cookies"}),
        (components.BoundedUnpacking, HttpCompressionMiddleware, {"_handle_encoding"}),
    ],
)
def test_what_is_overridden_is_there_with_the_same_parameters(base, original, names):
    check_overridden(base, original, names)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(CrawlCommand, "_create_crawler"), (Downloader, "_process_queue"), (FeedExporter, "_get_file")],
)
def test_what_is_called_is_there(owner, name):
    assert hasattr(owner, name)


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (DownloadHandlers, ["_handlers", "_crawler"]),
        (TextResponse, ["_cached_ubody"]),
        (HttpProxyMiddleware, ["_scheme_proxy", "_auth_proxy"]),
        (ParseCommand, ["_depth"]),
    ],
)
def test_what_is_read_of_objects_is_in_their_code(owner, names):
    check_read(owner, names)


async def test_a_downloader_uses_the_slots_of_its_subclass_and_passes_each_download_through_it():
    downloads = []

    class OwnSlot(Slot):
        pass

    class Own(components.DownloaderBase):
        def make_slot(self, key, slot):
            made = OwnSlot(slot.concurrency, slot.delay, slot.jitter)
            made.queue = deque()
            return made

        def slot_made(self, key, slot):
            assert self.slots[key] is slot

        async def download(self, slot, request):
            slot.transferring.add(request)
            downloads.append((type(slot), request.url))
            slot.transferring.remove(request)
            return Response(request.url)

    crawler = crawler_with()
    crawler.spider = crawler._create_spider("test")
    downloader = Own(crawler)
    response = await downloader._enqueue_request(Request(URL))
    downloader.start_waiting(downloader.slots["a.test"])
    downloader.close()
    assert response.url == URL
    assert downloads == [(OwnSlot, URL)]


def test_an_extra_handler_is_made_once_and_closed_with_the_others():
    made = []

    class Handler:
        @classmethod
        def from_crawler(cls, crawler):
            made.append(crawler)
            return cls()

    crawler = crawler_with()
    handlers = components.DownloadHandlersBase(crawler)
    assert not handlers.has_handler("browser")
    first = handlers.extra_handler("browser", lambda: Handler)
    assert handlers.extra_handler("browser", lambda: Handler) is first
    assert handlers.has_handler("browser")
    assert made == [crawler]
    assert first in DownloadHandlers._close.__get__(handlers).__self__._handlers.values()


async def test_a_feed_is_closed_by_the_public_name(tmp_path):
    closed = []

    class Own(components.FeedExporterBase):
        async def close_slot(self, slot):
            closed.append(self.file_of(slot))

    crawler = crawler_with(FEEDS={tmp_path / "feed.jsonl": {"format": "jsonlines"}})
    feeds = Own(crawler)
    spider = Spider("test")
    feeds.open_spider(spider)
    (slot,) = feeds.slots
    feeds.item_scraped({"a": 1}, spider)
    await feeds.close_spider(spider)
    assert closed == [slot.file]
    slot.file.close()


class Redirects(components.RedirectHooks, RedirectMiddleware):
    def redirect_target(self, url):
        if "bad" in url:
            raise ValueError("bad")
        return url.replace("user@", "")

    def too_many_redirects(self, redirected, error):
        return IgnoreRequest(f"too many: {redirected.url}: {error}")


def test_a_redirect_asks_for_the_target_of_the_hook_and_ends_with_the_error_of_the_other():
    crawler = crawler_with(REDIRECT_MAX_TIMES=1)
    middleware = Redirects.from_crawler(crawler)
    there = Response(URL, status=302, headers={"Location": "http://user@b.test/"})
    first = middleware.process_response(Request(URL), there)
    assert isinstance(first, Request)
    assert first.url == "http://b.test/"
    with pytest.raises(IgnoreRequest, match=r"too many: http://b\.test/: max redirections"):
        middleware.process_response(first, there)
    with pytest.raises(ValueError, match="bad"):
        middleware.process_response(Request(URL), Response(URL, status=302, headers={"Location": "/bad"}))


def test_cookies_are_refused_by_the_hook_which_sees_what_the_jar_has():
    seen = []

    class Own(components.CookiesBase):
        def accepts(self, cookie: Cookie, kept):
            seen.append((cookie.name, sorted(kept)))
            return cookie.name != "no"

    middleware = Own()
    middleware.crawler = crawler_with()
    headers = {"Set-Cookie": ["yes=1", "no=1"]}
    middleware.process_response(Request(URL), Response(URL, headers=headers))
    later = Request(URL)
    middleware.process_request(later)
    assert later.headers["Cookie"] == b"yes=1"
    assert seen == [("yes", []), ("no", ["a.test"])]
    assert isinstance(CookieJar()._cookies, dict)


def test_public_suffixes_are_split_by_the_given_function(monkeypatch):
    monkeypatch.setattr(scrapy_cookies, "_split_domain", scrapy_cookies._split_domain)
    components.use_public_suffixes(lambda _domain: stub(domain=""))
    assert scrapy_cookies._is_public_domain("a.test")


def test_a_body_that_unpacks_too_large_is_told_apart_from_one_that_no_setting_allows():
    response = Response(URL, headers={"Content-Encoding": "gzip"}, body=gzip.compress(b"a" * 100_000))
    unpacking = components.BoundedUnpacking(crawler=crawler_with(), most_bytes=10_000)
    with pytest.raises(components.UnpacksTooLarge):
        unpacking.process_response(Request(URL), response)
    with pytest.raises(IgnoreRequest, match="DOWNLOAD_MAXSIZE"):
        unpacking.process_response(Request(URL, meta={"download_maxsize": 5_000}), response)


def test_a_text_is_decoded_once_and_by_the_hook():
    class Own(components.TextBase):
        def decode_text(self):
            calls.append(1)
            return "text"

    calls: list[int] = []
    response = Own(URL, body=b"x", encoding="utf-8")
    before = response.has_decoded_text
    assert response.text == response.text == "text"
    assert (before, response.has_decoded_text) == (False, True)
    assert calls == [1]
    plain = HtmlResponse(URL, body=b"x", encoding="utf-8")
    assert isinstance(plain, TextResponse)
    assert plain._cached_ubody is None
