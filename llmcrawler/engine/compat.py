"""Names of the engine and of components that Scrapy keeps to itself, behind public ones.

Each private method that the project overrides has a base class here that gives it a public name; each private
attribute that it reads has a function or a property. http_downloads.py does so for HTTP connections, and
browser/launching.py for scrapy-playwright. tests/adapters/engine/compat holds them against the installed versions,
so an upgrade fails there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextvars import copy_context
from http.cookiejar import Cookie
from typing import IO, TYPE_CHECKING, Any, Final

from scrapy import Request, Spider, signals
from scrapy.commands import BaseRunSpiderCommand
from scrapy.core.downloader import Downloader, Slot
from scrapy.core.downloader.handlers import DownloadHandlerProtocol, DownloadHandlers
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import cookies as scrapy_cookies
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions.corestats import CoreStats
from scrapy.extensions.feedexport import FeedExporter, FeedSlot
from scrapy.http import Response, TextResponse
from scrapy.http.cookies import CookieJar
from scrapy.utils._compression import _DecompressionMaxSizeExceeded
from scrapy.utils.misc import build_from_crawler

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler, CrawlerProcessBase
    from scrapy.http import Response
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure


_OPENING_LOOK_SECONDS = 0.05
_tasks: set[asyncio.Future[None]] = set()  # a task that nobody holds may be collected before it ends


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider is being closed, is closed, or was never opened."""
    engine = crawler.engine
    return engine is None or engine._slot is None or engine._slot.closing is not None


class SpiderControl:
    """Tells whether a crawler's spider is closing, and closes it."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    def is_closing(self) -> bool:
        return is_closing(self._crawler)

    def close_soon(self, reason: str) -> None:
        close_spider_soon(self._crawler, reason)


def wake_engine(crawler: Crawler) -> None:
    """Let the engine ask the scheduler for requests now and not at its next heartbeat, which comes every 5 s."""
    engine = crawler.engine
    if engine is not None and engine._slot is not None:
        engine._slot.nextcall.schedule()


def close_spider_soon(crawler: Crawler, reason: str) -> None:
    """Begin to close the spider with this finish reason; nothing happens when it is closing already. One that is being
    opened is closed as soon as it is open: what was not opened cannot be closed.
    """
    engine = crawler.engine
    if engine is None or is_closing(crawler):
        return
    if engine.scraper.slot is None:

        def close_opened() -> None:
            close_spider_soon(crawler, reason)

        crawler.signals.connect(close_opened, signals.engine_started, weak=False)
        return
    _keep(asyncio.ensure_future(engine.close_spider_async(reason=reason)))


def _keep(task: asyncio.Future[None]) -> None:
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def process_item(crawler: Crawler, item: Any) -> None:
    """Send an item through the pipelines that no response brought. From now on the spider is neither idle nor closed
    until it is through.
    """
    assert crawler.engine is not None
    scraper = crawler.engine.scraper
    slot = scraper.slot
    assert slot is not None
    slot.itemproc_size += 1

    async def process() -> None:
        try:
            await scraper.start_itemproc_async(item, response=None)
        finally:
            slot.itemproc_size -= 1
            settle_scraper(crawler)

    _keep(asyncio.ensure_future(process()))


def on_stop(crawler: Crawler, asked: Callable[[], None]) -> None:
    """Call `asked` when Scrapy is asked to stop a crawl that runs, by a signal say, before it begins to. A crawl that
    is still being opened is stopped once it runs: Scrapy itself would forget that it was asked.
    """
    stop = crawler.stop_async

    async def stop_observed() -> None:
        engine = crawler.engine if crawler.crawling else None
        # No event tells of the end of what cannot be opened.
        while engine is not None and crawler.crawling and engine._slot is not None and not engine.running:  # noqa: ASYNC110
            await asyncio.sleep(_OPENING_LOOK_SECONDS)
        try:  # the slot is None after the crawl's own end, for which Scrapy calls this too
            if engine is not None and engine.running and engine._slot is not None:
                asked()
        finally:
            await stop()

    crawler.stop_async = stop_observed  # type: ignore[method-assign]  # no signal tells of this


def ignore_echo(process: CrawlerProcessBase, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Take a second signal within `seconds` of the first for the same one: `timeout` and others send each to the
    process and to its group, and Scrapy ends at the second one without writing what it has.
    """
    shut_down, kill = process._signal_shutdown, process._signal_kill
    first_at = 0.0

    def first(number: int, frame: Any) -> None:
        nonlocal first_at
        first_at = clock()
        shut_down(number, frame)

    def second(number: int, frame: Any) -> None:
        if clock() - first_at > seconds:
            kill(number, frame)

    process._signal_shutdown = first  # type: ignore[method-assign, assignment]
    process._signal_kill = second  # type: ignore[method-assign, assignment]


def observe_scraping(
    crawler: Crawler, begin: Callable[[Response | Failure, Request], Callable[[], None] | None]
) -> None:
    """Call `begin` before the response or failure of a request goes to the spider. What `begin` returns is called when
    the callback or errback is through, and all items and requests that came of it are. Context variables that it sets
    hold for all of that.
    """
    assert crawler.engine is not None
    scraper = crawler.engine.scraper
    enqueue = scraper.enqueue_scrape

    def enqueue_observed(result: Response | Failure, request: Request) -> Deferred[Any]:
        context = copy_context()
        end = context.run(begin, result, request)
        done = context.run(enqueue, result, request)
        if end is not None:
            done.addBoth(_passed_on, end)
        return done

    scraper.enqueue_scrape = enqueue_observed  # type: ignore[method-assign]  # no signal tells of this


def _passed_on(result: Any, end: Callable[[], None]) -> Any:
    end()
    return result


def end_with_failure(crawler: Crawler) -> None:
    """Have Scrapy's commands exit with status 1 when this crawl is over. They do for a crawler that has no spider."""

    def forget_spider() -> None:
        crawler.spider = None

    crawler.signals.connect(forget_spider, signals.engine_stopped, weak=False)


def let_unopened_close(crawler: Crawler) -> None:
    """Let a spider be closed that was never opened, as an error kept it from that: Scrapy's CoreStats cannot, else."""
    core_stats = crawler.get_extension(CoreStats)
    if core_stats is not None and core_stats.start_time is None and crawler.spider is not None:
        core_stats.spider_opened(crawler.spider)


def settle_scraper(crawler: Crawler) -> None:
    """Let a scraper that is being closed look whether it is idle: it looks by itself only after a response."""
    assert crawler.engine is not None
    scraper = crawler.engine.scraper
    if scraper.slot is not None and scraper.slot.closing is not None and not scraper.slot.closing.called:
        scraper._check_if_closing()


# Keys of a request's meta that HttpProxyMiddleware sets for a proxy from the environment.
ENVIRONMENT_PROXY_SCHEME: Final = "_scheme_proxy"
ENVIRONMENT_PROXY_KEYS: Final = (ENVIRONMENT_PROXY_SCHEME, "_auth_proxy")
PARSE_DEPTH: Final = "_depth"  # of `scrapy parse`: how many rounds of callbacks a request has been through

if TYPE_CHECKING:
    _RedirectBase = BaseRedirectMiddleware
else:
    _RedirectBase = object


def create_crawler(command: BaseRunSpiderCommand, name: str) -> Crawler:
    """Make the crawler that a command runs for the spider of this name."""
    return command._create_crawler(name)


class DownloaderBase(Downloader):
    """Lets a subclass choose the class of slots and stand around each download."""

    def make_slot(self, key: str, slot: Slot) -> Slot:  # noqa: ARG002 (overridden)
        """Return the slot to use in the place of the new one that Scrapy made."""
        return slot

    def slot_made(self, key: str, slot: Slot) -> None:
        """Do what has to be done when `slots` has a new slot."""

    async def download(self, slot: Slot, request: Request) -> Response:
        """Download a request that has left its slot's queue."""
        return await super()._download(slot, request)

    def start_waiting(self, slot: Slot) -> None:
        """Start as many of a slot's waiting requests as may start now."""
        self._process_queue(slot)

    def _get_slot(self, request: Request, spider: Any = None) -> tuple[str, Slot]:  # noqa: ARG002 (Scrapy's)
        is_new = self.get_slot_key(request) not in self.slots
        key, slot = super()._get_slot(request)
        if is_new:
            slot = self.slots[key] = self.make_slot(key, slot)
            self.slot_made(key, slot)
        return key, slot

    async def _download(self, slot: Slot, request: Request) -> Response:
        return await self.download(slot, request)


class DownloadHandlersBase(DownloadHandlers):
    """Lets a subclass have handlers that no scheme leads to; they are closed with the others."""

    def has_handler(self, name: str) -> bool:
        return name in self._handlers

    def extra_handler(self, name: str, load: Callable[[], type]) -> DownloadHandlerProtocol:
        """Return the handler of this name; the first time it is made of the class that `load` returns."""
        if name not in self._handlers:
            self._handlers[name] = build_from_crawler(load(), self._crawler)
        return self._handlers[name]


class FeedExporterBase(FeedExporter):
    """Lets a subclass decide how a feed is stored."""

    async def close_slot(self, slot: FeedSlot) -> None:
        """Store a feed, or a batch of it, whose last item has come."""
        raise NotImplementedError

    @staticmethod
    def file_of(slot: FeedSlot) -> IO[bytes]:
        """Return the file that a feed was written to; what post-processes it is closed by this."""
        return FeedExporter._get_file(slot)

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:  # noqa: ARG002 (Scrapy's)
        await self.close_slot(slot)


class RedirectHooks(_RedirectBase):
    """Mixin for Scrapy's middlewares for redirects, with public names for what is overridden; it stands before them."""

    def redirect_target(self, url: str) -> str:
        """Return the url to ask for. Raise ValueError to leave the response as it is."""
        return url

    def too_many_redirects(self, redirected: Request, error: IgnoreRequest) -> IgnoreRequest:  # noqa: ARG002 (overridden)
        """Return the error to raise for a request that was redirected too often."""
        return error

    def _build_redirect_request(
        self, source_request: Request, response: Response, *, url: str, **kwargs: Any
    ) -> Request:
        return super()._build_redirect_request(source_request, response, url=self.redirect_target(url), **kwargs)

    def _redirect(self, redirected: Request, request: Request, reason: Any) -> Request:
        try:
            return super()._redirect(redirected, request, reason)
        except IgnoreRequest as error:
            raise self.too_many_redirects(redirected, error) from None


class CookiesBase(scrapy_cookies.CookiesMiddleware):
    """Lets a subclass refuse cookies."""

    def accepts(self, cookie: Cookie, kept: dict[str, dict[str, dict[str, Cookie]]]) -> bool:  # noqa: ARG002 (overridden)
        """Return whether a cookie may go into the jar; `kept` has what is there, by domain, path and name."""
        return True

    def _process_cookies(self, cookies: Iterable[Cookie], *, jar: CookieJar, request: Request) -> None:
        for cookie in cookies:
            if self.accepts(cookie, jar._cookies):
                super()._process_cookies((cookie,), jar=jar, request=request)


def use_public_suffixes(split_domain: Callable[[str], Any]) -> None:
    """Let Scrapy tell public suffixes by this function, which takes a host and returns tldextract's result."""
    scrapy_cookies._split_domain = split_domain  # type: ignore[assignment]


class UnpacksTooLarge(Exception):
    """Raised when a body has more bytes than it may have when it is unpacked."""


class BoundedUnpacking(HttpCompressionMiddleware):
    """Raises UnpacksTooLarge for a body of more than `most_bytes` when it is unpacked. What exceeds DOWNLOAD_MAXSIZE is
    refused as Scrapy refuses it.
    """

    def __init__(self, *, crawler: Crawler, most_bytes: int) -> None:
        super().__init__(crawler=crawler)
        self._most_bytes = most_bytes

    def _handle_encoding(self, body: bytes, content_encoding: list[bytes], max_size: int) -> tuple[bytes, list[bytes]]:
        if 0 < max_size <= self._most_bytes:
            return super()._handle_encoding(body, content_encoding, max_size)
        try:
            return super()._handle_encoding(body, content_encoding, self._most_bytes)
        except _DecompressionMaxSizeExceeded as error:
            raise UnpacksTooLarge from error


class TextBase(TextResponse):
    """A response whose text is decoded by `decode_text`, once."""

    __slots__ = ()

    def decode_text(self) -> str:
        raise NotImplementedError

    @property
    def text(self) -> str:
        if self._cached_ubody is None:
            self._cached_ubody = self.decode_text()
        return self._cached_ubody

    @property
    def has_decoded_text(self) -> bool:
        return self._cached_ubody is not None
