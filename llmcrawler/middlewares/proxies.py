"""A proxy for each request; another one when that is banned or dead."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Self

from scrapy import Request, exceptions, signals
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.error import ConnectError, ConnectionDone, ConnectionLost

from llmcrawler.errors import ConfigError, NoProxy
from llmcrawler.middlewares.refusals import RequestRefused
from llmcrawler.proxies import ProxyPool, Taken, parse_country
from llmcrawler.wiring import Crawl, crawl_of

logger = logging.getLogger(__name__)

_closings: set[asyncio.Task[None]] = set()  # a task that nobody holds may be collected before it ends

LABEL = "proxy_label"  # meta: which proxy brought the response
TRIED = "proxies_tried"  # meta: labels of those that failed, in order
SUSPECTS = "proxies_suspected"  # meta: those that may be banned; a subset
_IN_USE = "_proxy_in_use"
_OWN_TIMEOUT = "_timeout_without_proxy"
_LOOK_SECONDS = 0.25  # between two looks at whether a proxy has rested
_CERTAIN = (exceptions.DownloadConnectionRefusedError, exceptions.CannotResolveHostError, ConnectError)
_GATEWAY = (502, 504)
_TUNNEL_STATUS = re.compile(r"'status': (\d{3})")


class ProxyMiddleware:
    """Stands next to the downloader. Credentials are on the request only while it is on its way: no cache, no copy of
    the request and no line of the log ever sees them.

    A request with a `proxy` of its own in its meta goes through that one, as always in Scrapy.
    """

    def __init__(self, crawler: Crawler, crawl: Crawl, pool: ProxyPool) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._pool = pool
        self._trial_seconds = crawler.settings.getfloat("PROXY_TRIAL_SECONDS")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.proxies is None:
            raise NotConfigured("no proxies")
        middleware = cls(crawler, crawl, crawl.proxies)
        crawler.signals.connect(middleware.spider_closed, signals.spider_closed)
        return middleware

    async def process_request(self, request: Request) -> None:
        meta, url = request.meta, urlparse_cached(request)
        if url.scheme not in ("http", "https") or ("proxy" in meta and not meta.get("_scheme_proxy")):
            return
        taken = await self._take(request)
        request.headers.pop(b"Proxy-Authorization", None)
        for name in ("_scheme_proxy", "_auth_proxy"):  # Scrapy's, from the environment
            meta.pop(name, None)
        meta["proxy"] = taken.proxy.address
        if taken.proxy.authorization is not None:
            request.headers[b"Proxy-Authorization"] = taken.proxy.authorization
        meta[LABEL] = meta[_IN_USE] = taken.label
        timeout = meta.get("download_timeout")
        if not self._pool.is_proven(taken.label) and self._trial_seconds and timeout and timeout > self._trial_seconds:
            meta[_OWN_TIMEOUT], meta["download_timeout"] = timeout, self._trial_seconds

    def process_response(self, request: Request, response: Response) -> Response | Request:
        label = self._release(request)
        if label is None:
            return response
        location = (response.headers.get("Location") or b"").decode("latin-1")
        reason = self._crawl.bans.of_status(response.status, location)
        if reason is None and response.status in _GATEWAY and not self._pool.is_proven(label):
            reason = f"status {response.status}"  # of the site, or of a proxy with nothing behind it
        if reason is None:
            return response
        if response.status == 407:
            return self._failed(request, label, "credentials refused")
        again = switched(self._crawler, request, label, "banned", reason)
        return again if again is not None else response

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        label = self._release(request)
        if label is None:
            return None
        if isinstance(exception, TunnelError):
            return self._no_tunnel(request, label, str(exception))
        if isinstance(exception, _CERTAIN):
            return self._failed(request, label, "dead")
        if isinstance(exception, exceptions.DownloadTimeoutError):
            return switched(self._crawler, request, label, "timed out", "a timeout")
        if type(exception) is exceptions.DownloadFailedError or isinstance(exception, (ConnectionDone, ConnectionLost)):
            return switched(self._crawler, request, label, "broke off", "a connection that broke")
        return None

    def spider_closed(self) -> None:
        stats = self._crawler.stats
        assert stats is not None
        for name, value in self._pool.figures().items():
            stats.set_value(f"llmcrawler/proxies/{name}", value)
        stats.set_value("llmcrawler/proxies/accounts", self._pool.accounts())

    def _release(self, request: Request) -> str | None:
        """Take the proxy off the request. None when it had none of ours."""
        label: str | None = request.meta.pop(_IN_USE, None)
        if label is not None:
            self._pool.give_back(label)
            request.meta.pop("proxy", None)
            request.headers.pop(b"Proxy-Authorization", None)
            if _OWN_TIMEOUT in request.meta:
                request.meta["download_timeout"] = request.meta.pop(_OWN_TIMEOUT)
        return label

    async def _take(self, request: Request) -> Taken:
        sticky = request.meta.get("proxy_sticky", self._pool.rules.sticky)
        session = urlparse_cached(request).netloc if sticky else None
        try:
            countries = _countries(request)
            await self._pool.open()
            while True:
                taken = self._pool.take(request.meta.get(TRIED, ()), countries, session)
                if taken is not None:
                    return taken
                if _is_closing(self._crawler):
                    raise RequestRefused("no_proxy", "the crawl ended while all proxies cooled down")
                await asyncio.sleep(min(_LOOK_SECONDS, self._pool.seconds_to_wait(countries)))
        except NoProxy as error:
            raise _given_up(self._crawler, error) from None
        except ConfigError as error:
            raise RequestRefused("no_proxy", f"proxy_country: {error}") from None

    def _failed(self, request: Request, label: str, kind: str) -> Request:
        self._pool.fail(label, kind)
        return _again(self._crawler, request, label, kind)

    def _no_tunnel(self, request: Request, label: str, message: str) -> Request:
        found = _TUNNEL_STATUS.search(message)
        status = int(found.group(1)) if found else 0
        if status == 407:
            return self._failed(request, label, "credentials refused")
        is_ban = self._crawl.bans.of_status(status) is not None
        reason = f"a tunnel refused with status {status}" if status else "no tunnel"
        again = switched(self._crawler, request, label, "banned" if is_ban else "no tunnel", reason)
        if again is None:
            # Scrapy's own error repeats what the proxy said, which may be anything.
            raise RequestRefused("proxy", f"the last proxy asked, {label}, gave {reason}")
        return again


def switched(crawler: Crawler, request: Request, label: str, kind: str, reason: str) -> Request | None:
    """The request for another proxy; None when the page is to be believed."""
    pool = crawl_of(crawler).proxies
    assert pool is not None
    suspects = request.meta.get(SUSPECTS, ())
    request.meta[SUSPECTS] = [*suspects, label]
    return _again(crawler, request, label, reason) if pool.suspect(label, kind, suspects) else None


def _again(crawler: Crawler, request: Request, label: str, reason: str) -> Request:
    """Not a retry: the page is not to blame, so it does not count for RETRY_TIMES."""
    logger.debug("Another proxy for %s: %s gave %s", request, label, reason)
    pool = crawl_of(crawler).proxies
    assert pool is not None
    try:
        pool.seconds_to_wait(_countries(request))
    except NoProxy as error:
        # Put back, it would wait in a crawl that is closing, and be no line.
        raise _given_up(crawler, error) from None
    assert crawler.stats is not None
    crawler.stats.inc_value("llmcrawler/proxies/switches")
    again = request.copy()
    again.dont_filter = True
    again.meta.pop(LABEL, None)
    again.meta[TRIED] = [*request.meta.get(TRIED, ()), label]
    return again


def _given_up(crawler: Crawler, error: NoProxy) -> RequestRefused:
    """The error of the request. When it would be that of every other, too, the crawl ends."""
    if error.is_final and not _is_closing(crawler):
        logger.error("The crawl ends: %s", error)
        assert crawler.engine is not None
        closing = asyncio.ensure_future(crawler.engine.close_spider_async(reason="no_proxy"))
        _closings.add(closing)
        closing.add_done_callback(_closings.discard)
    return RequestRefused("no_proxy", str(error))


def _is_closing(crawler: Crawler) -> bool:
    engine = crawler.engine
    return engine is None or not engine.running or engine._slot is None or engine._slot.closing is not None


def _countries(request: Request) -> tuple[str, ...]:
    country = request.meta.get("proxy_country")
    return (parse_country(str(country)),) if country and country != "*" else ()
