"""Each private name of Scrapy, Twisted and scrapy-playwright that the project uses, against the installed versions."""

from __future__ import annotations

import ast
import asyncio
import gzip
import importlib
import inspect
import pkgutil
import re
from collections import deque
from contextvars import ContextVar
from functools import partial
from http.cookiejar import Cookie
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.commands.crawl import Command as CrawlCommand
from scrapy.commands.parse import Command as ParseCommand
from scrapy.core import scraper as scraper_module
from scrapy.core.downloader import Downloader, Slot
from scrapy.core.downloader.handlers import DownloadHandlers, http11
from scrapy.core.engine import ExecutionEngine
from scrapy.core.scheduler import Scheduler
from scrapy.core.scraper import Scraper
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.downloadermiddlewares import cookies as scrapy_cookies
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware, RedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions.feedexport import FeedExporter
from scrapy.http import HtmlResponse, Response, TextResponse
from scrapy.http.cookies import CookieJar
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # type: ignore[import-untyped]
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web import _newclient
from twisted.web.client import HTTPConnectionPool, ResponseFailed
from twisted.web.http import _ChunkedTransferDecoder
from twisted.web.http_headers import Headers

import llmcrawler
from llmcrawler.engine import compat
from llmcrawler.engine.compat import components
from llmcrawler.engine.compat import http11 as compat_http11
from llmcrawler.engine.compat.rendering_handler import RenderingHandlerBase
from tests.adapters.stubs import stub

URL = "http://a.test/"
_NO_HANDLERS = dict.fromkeys(("data", "file", "ftp", "http", "https", "s3"))


def crawler_with(**settings):
    return get_crawler(Spider, {"DOWNLOAD_HANDLERS": _NO_HANDLERS, **settings})


# -- the engine -------------------------------------------------------------------------------------------------------


class Opened:
    """A crawler whose engine has a spider, as a crawl has it, and does nothing."""

    def __init__(self) -> None:
        self.crawler = crawler_with(SCHEDULER=Scheduler)
        self.crawler.spider = self.crawler._create_spider("test")
        self.scheduled: list[int] = []

    async def __aenter__(self):
        self.crawler.engine = ExecutionEngine(self.crawler, lambda _spider: None)
        await self.crawler.engine.open_spider_async()
        self.crawler.engine._slot.nextcall.schedule = lambda: self.scheduled.append(1)
        return self

    async def __aexit__(self, *_):
        if self.crawler.engine._slot is not None and self.crawler.engine._slot.closing is None:
            await self.crawler.engine.close_spider_async()


async def test_an_engine_is_closing_before_it_is_opened_while_and_after_it_is_closed():
    assert compat.is_closing(stub(engine=None))
    async with Opened() as opened:
        assert not compat.is_closing(opened.crawler)
        closing = asyncio.ensure_future(opened.crawler.engine.close_spider_async())
        await asyncio.sleep(0)
        assert compat.is_closing(opened.crawler)
        await closing
        assert compat.is_closing(opened.crawler)


async def test_the_engine_is_woken_by_its_next_call():
    compat.wake_engine(stub(engine=None))
    async with Opened() as opened:
        opened.scheduled.clear()
        compat.wake_engine(opened.crawler)
        assert opened.scheduled == [1]
    compat.wake_engine(opened.crawler)  # its slot is gone


async def test_a_spider_that_is_closed_soon_has_the_reason_and_is_closed_once():
    reasons = []
    async with Opened() as opened:
        closed = asyncio.Event()

        def note(reason):
            reasons.append(reason)
            closed.set()

        opened.crawler.signals.connect(note, signals.spider_closed, weak=False)
        compat.close_spider_soon(opened.crawler, "no_proxy")
        await asyncio.sleep(0)
        compat.close_spider_soon(opened.crawler, "another")
        await closed.wait()
    compat.close_spider_soon(opened.crawler, "a third")
    assert reasons == ["no_proxy"]


async def test_an_item_without_a_response_goes_to_the_pipelines_and_keeps_the_spider_from_being_idle(monkeypatch):
    started: list[Any] = []
    monkeypatch.setattr(scraper_module, "_schedule_coro", started.append)
    async with Opened() as opened:
        slot = opened.crawler.engine.scraper.slot
        compat.process_item(opened.crawler, {"url": URL})
        assert not slot.is_idle()
        await started[0]
        assert slot.is_idle()


async def test_a_scraper_that_is_being_closed_looks_whether_it_is_idle():
    async with Opened() as opened:
        compat.settle_scraper(opened.crawler)
        slot = opened.crawler.engine.scraper.slot
        slot.closing = Deferred()
        compat.settle_scraper(opened.crawler)
        assert slot.closing.called
        compat.settle_scraper(opened.crawler)  # not a second time


async def test_what_comes_of_a_response_is_observed_from_before_its_callback_until_its_items_are_through():
    seen, current = [], ContextVar("current", default="")

    def begin(result, request):
        seen.append(f"begin {request.url} {result.status}")
        current.set(request.url)
        return lambda: seen.append(f"end {request.url}")

    async with Opened() as opened:
        opened.crawler.spider.parse = lambda _response: [{"n": 1}]
        opened.crawler.signals.connect(lambda: seen.append(f"item {current.get()}"), signals.item_scraped, weak=False)
        compat.observe_scraping(opened.crawler, begin)
        request = Request(URL)
        await maybe_deferred_to_future(opened.crawler.engine.scraper.enqueue_scrape(Response(URL), request))
    assert seen == [f"begin {URL} 200", f"item {URL}", f"end {URL}"]
    assert not current.get()


async def test_a_crawl_that_ends_with_failure_makes_scrapys_commands_exit_with_1():
    crawler: Any = Crawler(Spider)
    crawler.spider = Spider("test")
    runner = AsyncCrawlerRunner({"TWISTED_REACTOR_ENABLED": False})
    compat.end_with_failure(crawler)
    crawler.crawl_async = partial(crawler.signals.send_catch_log_async, signals.engine_stopped)
    await runner.crawl(crawler)
    await asyncio.sleep(0)
    assert runner.bootstrap_failed
    assert "bootstrap_failed" in inspect.getsource(CrawlCommand.run)


# -- components -------------------------------------------------------------------------------------------------------


def overridden(base: type, original: type) -> set[str]:
    """The private names that a class of compat overrides of one of theirs."""
    names = {name for name in vars(base) if name[0] == "_" and name[:2] != "__"}
    return {name for name in names - {"_abc_impl"} if hasattr(original, name)}


@pytest.mark.parametrize(
    ("base", "original", "names"),
    [
        (components.DownloaderBase, Downloader, {"_get_slot", "_download"}),
        (components.FeedExporterBase, FeedExporter, {"_close_slot"}),
        (components.RedirectHooks, BaseRedirectMiddleware, {"_build_redirect_request", "_redirect"}),
        (components.CookiesBase, scrapy_cookies.CookiesMiddleware, {"_process_cookies"}),
        (components.BoundedUnpacking, HttpCompressionMiddleware, {"_handle_encoding"}),
        (compat_http11.ClientProtocol, _newclient.HTTP11ClientProtocol, {"_finishResponse"}),
        (compat_http11.ChunkDecoder, _ChunkedTransferDecoder, {"_dataReceived_CHUNK_LENGTH"}),
        (compat_http11.PageAgent, http11._ScrapyAgent, {"_get_agent", "_cb_bodyready"}),
        (compat_http11._TunnelAgent, http11._TunnelingAgent, {"_getEndpoint"}),
        (RenderingHandlerBase, ScrapyPlaywrightDownloadHandler, {"_download_request_with_page"}),
    ],
)
def test_what_is_overridden_is_there_with_the_same_parameters(base, original, names):
    assert overridden(base, original) == names
    for name in names:
        ours = inspect.signature(inspect.unwrap(getattr(base, name))).parameters
        theirs = inspect.signature(inspect.unwrap(getattr(original, name))).parameters
        assert list(ours) == list(theirs) or list(theirs) == ["self", "args", "kwargs"], name


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (Scraper, {"_start_itemproc_nowait", "_check_if_closing"}),
        (CrawlCommand, {"_create_crawler"}),
        (Downloader, {"_process_queue"}),
        (FeedExporter, {"_get_file"}),
        (http11, {"_LenientHTTP11ClientFactory", "_LenientHTTP11ClientProtocol", "_LenientHTTPClientParser"}),
        (http11._TunnelingTCP4ClientEndpoint, {"connect", "requestTunnel", "processProxyResponse"}),
        (_newclient.HTTPClientParser, {"_transferDecoders"}),
        (
            ScrapyPlaywrightDownloadHandler,
            {"_get_response_and_download", "_download_request", "_launch", "_maybe_launch_browser"},
        ),
    ],
)
def test_what_is_called_is_there(owner, names):
    assert not {name for name in names if not hasattr(owner, name)}


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (
            http11.HTTP11DownloadHandler,
            "_pool _contextFactory _bind_address _default_maxsize _default_warnsize _fail_on_dataloss _crawler",
        ),
        (http11._ScrapyAgent, "_timeout_cl"),
        (http11._TunnelingAgent, "_proxyConf _contextFactory _endpointFactory _reactor"),
        (http11._TunnelingTCP4ClientEndpoint, "_connectBuffer _tunnelReadyDeferred _protocol _host _port"),
        (HTTPConnectionPool, "_factory"),
        (_newclient.HTTP11ClientProtocol, "_parser"),
        (http11._LenientHTTP11ClientFactory, "_quiescentCallback"),
        (_ChunkedTransferDecoder, "_buffer _start _maxTrailerHeadersSize"),
        (DownloadHandlers, "_handlers _crawler"),
        (ScrapyPlaywrightDownloadHandler, "_crawler"),
        (TextResponse, "_cached_ubody"),
        (HttpProxyMiddleware, "_scheme_proxy _auth_proxy"),
        (ParseCommand, "_depth"),
    ],
)
def test_what_is_read_of_objects_is_in_their_code(owner, names):
    code = "".join(inspect.getsource(cls) for cls in owner.__mro__ if cls.__module__ != "builtins")
    assert [name for name in names.split() if not re.search(rf"\b{name}\b", code)] == []


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


# -- HTTP -------------------------------------------------------------------------------------------------------------


class Protocol(compat_http11.ClientProtocol):
    parser_class = compat_http11.HeadParser
    begun = ended = 0

    def answer_begins(self):
        self.begun += 1

    def answer_ends(self):
        self.ended += 1


def test_a_connection_tells_where_an_answer_begins_and_ends_and_is_known_by_its_response():
    answers: list[Any] = []
    protocol = Protocol(lambda _: None)
    protocol.makeConnection(StringTransport())
    request = _newclient.Request(b"GET", b"/", Headers({b"host": [b"a.test"]}), None, persistent=True)
    protocol.request(request).addCallback(answers.append)
    assert (protocol.begun, protocol.ended) == (1, 0)
    assert type(protocol._parser) is compat_http11.HeadParser
    protocol.dataReceived(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    assert getattr(answers[0], compat_http11._PROTOCOL) is protocol
    protocol.dataReceived(b"ok")
    assert protocol.ended == 1


def test_faults_in_an_answer_are_told_from_other_failures():
    fault = compat_http11.answer_fault("too long")
    assert compat_http11.fault_in_answer(ResponseFailed([Failure(fault)])) == "no HTTP: 'too long'"
    assert compat_http11.fault_in_answer(ResponseFailed([Failure(OSError("gone"))])) is None
    assert compat_http11.fault_in_answer(None) is None


class Tunnel:
    """A connection to a proxy that a tunnel is asked of."""

    def __init__(self) -> None:
        self.endpoint = compat_http11._Tunnel(
            reactor=stub(connectTCP=self._connect),
            host=b"a.test",  # type: ignore[arg-type] # Twisted says str, and takes what Scrapy gives it
            port=443,
            proxyConf=("proxy.test", 8080, b"Basic secret"),
            contextFactory=stub(creatorForNetloc=lambda *_: None),
        )
        self.outcome: list[Any] = []
        self.transport = StringTransport()
        setattr(self.transport, "startTLS", lambda *_: None)  # noqa: B010 (it has none)
        self.endpoint.connect(Factory()).addBoth(self.outcome.append)

    def _connect(self, _host, _port, factory, *_args, **_kwargs):
        self.protocol = factory.buildProtocol(None)
        self.protocol.makeConnection(self.transport)

    @property
    def error(self) -> str:
        (failure,) = self.outcome
        assert failure.check(compat_http11.TunnelError)
        return str(failure.getErrorMessage())


class Factory(http11._LenientHTTP11ClientFactory):
    def __init__(self):
        super().__init__(lambda _: None, None)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([b"HTTP/1.1 407 secret-1\r\n", b"\r\n"], "{'status': 407}"),
        ([b"hello secret-1\r\n\r\n"], "no HTTP"),
        ([b"HTTP/1.1 200 OK\r\n", *[b"X: secret-1\r\n" * 1000] * 10], "{'status': 200}"),
    ],
)
def test_a_tunnel_that_is_refused_tells_the_status_alone_and_hangs_up(answer, told):
    tunnel = Tunnel()
    for part in answer:
        tunnel.protocol.dataReceived(part)
    assert tunnel.error == f"Could not open CONNECT tunnel with proxy proxy.test:8080 [{told}]"
    assert tunnel.transport.disconnecting


def test_a_proxy_that_hangs_up_fails_at_once():
    tunnel = Tunnel()
    tunnel.protocol.connectionLost(Failure(compat_http11.TunnelError("gone")))
    assert "no HTTP" in tunnel.error


def test_a_tunnel_is_opened():
    tunnel = Tunnel()
    assert b"CONNECT a.test:443" in tunnel.transport.value()
    tunnel.protocol.dataReceived(b"HTTP/1.1 200 OK\r\n\r\n")
    assert len(tunnel.outcome) == 1
    assert not isinstance(tunnel.outcome[0], Failure)


# -- no other module --------------------------------------------------------------------------------------------------

# Private names of others that are no part of their machinery: the type of lxml's elements, Python's own.
_BY_COMPAT = {"_abc_impl", "_transferDecoders"}  # set for a subclass by abc, and by HeadParser
_FOREIGN = {"scrapy", "twisted", "scrapy_playwright", "aiohttp", "playwright", "httpx2"}
_ALLOWED = {"_Element", "_replace", "_exit", "_current_frames", "_asdict", "_fields"}


def names_defined(tree) -> set[str]:
    """The names of a module's functions, classes, variables, attributes and slots."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Store):
            names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def private_names_used(tree) -> list[tuple[int, str, bool]]:
    """Line and name, and whether it is an attribute of `self` or `cls`."""
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            used.append((node.lineno, node.attr, is_own))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            parts = {*node.module.split("."), *(alias.name for alias in node.names)}
            if node.module.partition(".")[0] not in {"__future__", "llmcrawler"}:
                used += [(node.lineno, part, False) for part in parts if part.startswith("_")]
    return used


@pytest.mark.slow
def test_no_other_module_uses_a_private_name_of_somebody_elses():
    root = Path(llmcrawler.__file__).parent
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))}
    trees = {path: tree for path, tree in trees.items() if (root / "engine" / "compat") not in path.parents}
    defined = {path: names_defined(tree) for path, tree in trees.items()}
    anywhere = set().union(*defined.values())
    found = [
        f"{path.relative_to(root)}:{line}: {name}"
        for path, tree in trees.items()
        for line, name, is_own in private_names_used(tree)
        if name not in (anywhere if is_own else defined[path]) | _ALLOWED
    ]
    assert found == []


def test_no_other_module_overrides_a_private_name_of_somebody_elses():
    found = []
    for module_info in pkgutil.walk_packages(llmcrawler.__path__, "llmcrawler."):
        if module_info.name.startswith("llmcrawler.engine.compat."):
            continue
        module = importlib.import_module(module_info.name)
        for cls in vars(module).values():
            if not isinstance(cls, type) or cls.__module__ != module.__name__:
                continue
            foreign = [base for base in cls.__mro__ if base.__module__.partition(".")[0] in _FOREIGN]
            private = {name for base in foreign for name in vars(base) if name[0] == "_" and name[:2] != "__"}
            names = sorted(private & vars(cls).keys() - _BY_COMPAT)
            found += [f"{cls.__module__}.{cls.__name__}.{name}" for name in names]
    assert found == []
