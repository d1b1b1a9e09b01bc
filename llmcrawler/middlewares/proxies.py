"""Gives each request a proxy, another one when that is banned or dead, and refuses responses that are not the page:
captchas, and what the user's own `validate_response` refuses.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, exceptions, signals
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import NotConfigured
from scrapy.http import Response, TextResponse
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.error import ConnectError, ConnectionDone, ConnectionLost

from llmcrawler.core.politeness.proxy_sources import parse_country
from llmcrawler.crawl.compat import (
    ENVIRONMENT_PROXY_KEYS,
    ENVIRONMENT_PROXY_SCHEME,
    close_spider_soon,
    is_closing,
    stats_of,
)
from llmcrawler.crawl.configuration import ProxySettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import context_of, update_context
from llmcrawler.engine.responses import page_text
from llmcrawler.errors import ConfigError, NoProxy, NotThePage

if TYPE_CHECKING:
    from llmcrawler.core.politeness.proxies import BanRules, PoolProxy, ProxyPool

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25  # between two looks at whether a proxy has rested
_TRIAL_SECONDS = 10.0  # the timeout of a proxy that has given no page yet
_CERTAIN = (exceptions.DownloadConnectionRefusedError, exceptions.CannotResolveHostError, ConnectError)
_GATEWAY = (502, 504)
_TUNNEL_STATUS = re.compile(r"'status': (\d{3})")


@dataclass(eq=False)
class ProxyMiddleware:
    """Puts a proxy's address and credentials on a request while it is being downloaded, and takes them off again, so
    that no cache, no copy of the request and no log line has them.

    A request with a `proxy` of its own in its meta goes through that one, as always in Scrapy.
    """

    switch: ProxySwitch
    bans: BanRules

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.proxies is None:
            raise NotConfigured
        switch = ProxySwitch(crawler, crawl.proxies)
        settings = ProxySettings.of(crawler.settings)
        middleware = cls(switch, settings.bans)
        crawler.signals.connect(middleware.spider_closed, signals.spider_closed)
        return middleware

    async def process_request(self, request: Request) -> None:
        meta, url = request.meta, urlparse_cached(request)
        if url.scheme not in ("http", "https") or ("proxy" in meta and not meta.get(ENVIRONMENT_PROXY_SCHEME)):
            return
        taken = await self._take(request)
        request.headers.pop(b"Proxy-Authorization", None)
        for name in ENVIRONMENT_PROXY_KEYS:
            meta.pop(name, None)
        meta["proxy"] = taken.proxy.address
        if taken.proxy.authorization is not None:
            request.headers[b"Proxy-Authorization"] = taken.proxy.authorization
        timeout = meta.get("download_timeout")
        is_trial = not self.switch.pool.is_proven(taken.label)
        own_timeout = timeout if is_trial and timeout and timeout > _TRIAL_SECONDS else None
        if own_timeout is not None:
            meta["download_timeout"] = _TRIAL_SECONDS
        update_context(request, proxy=taken.label, busy_proxy=taken.label, own_timeout_seconds=own_timeout)

    def process_response(self, request: Request, response: Response) -> Response | Request:
        label = self._release(request)
        if label is None:
            return response
        location = (response.headers.get("Location") or b"").decode("latin-1")
        reason = self.bans.of_status(response.status, location)
        if reason is None and response.status in _GATEWAY and not self.switch.pool.is_proven(label):
            reason = f"status {response.status}"  # of the site, or of a proxy with nothing behind it
        if reason is None:
            return response
        if response.status == 407:
            return self._failed(request, label, "credentials refused")
        again = self.switch.switched(request, label, "banned", reason)
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
            return self.switch.switched(request, label, "timed out", "a timeout")
        if type(exception) is exceptions.DownloadFailedError or isinstance(exception, (ConnectionDone, ConnectionLost)):
            return self.switch.switched(request, label, "broke off", "a broken connection")
        return None

    def spider_closed(self) -> None:
        stats = stats_of(self.switch.crawler)
        for name, value in self.switch.pool.figures().items():
            stats.set_value(f"llmcrawler/politeness/proxies/{name}", value)
        stats.set_value("llmcrawler/politeness/proxies/accounts", self.switch.pool.accounts())

    def _release(self, request: Request) -> str | None:
        """Take the proxy off the request, and return its label; None when it had none of the pool."""
        context = context_of(request)
        if context.busy_proxy is None:
            return None
        self.switch.pool.give_back(context.busy_proxy)
        request.meta.pop("proxy", None)
        request.headers.pop(b"Proxy-Authorization", None)
        if context.own_timeout_seconds is not None:
            request.meta["download_timeout"] = context.own_timeout_seconds
        update_context(request, busy_proxy=None, own_timeout_seconds=None)
        return context.busy_proxy

    async def _take(self, request: Request) -> PoolProxy:
        sticky = request.meta.get("proxy_sticky", self.switch.pool.rules.sticky)
        session = urlparse_cached(request).netloc if sticky else None
        try:
            countries = _countries(request)
            await self.switch.pool.open()
            while True:
                taken = self.switch.pool.take(context_of(request).tried_proxies, countries, session)
                if taken is not None:
                    return taken
                if is_closing(self.switch.crawler):
                    raise RequestRefused(RefusalKind.NO_PROXY, "the crawl ended while all proxies cooled down")
                await asyncio.sleep(min(_LOOK_SECONDS, self.switch.pool.seconds_to_wait(countries)))
        except NoProxy as error:
            raise self.switch.given_up(error) from None
        except ConfigError as error:
            raise RequestRefused(RefusalKind.NO_PROXY, f"proxy_country: {error}") from None

    def _failed(self, request: Request, label: str, kind: str) -> Request:
        self.switch.pool.fail(label, kind)
        return self.switch.again(request, label, kind)

    def _no_tunnel(self, request: Request, label: str, message: str) -> Request:
        found = _TUNNEL_STATUS.search(message)
        status = int(found.group(1)) if found else 0
        if status == 407:
            return self._failed(request, label, "credentials refused")
        is_ban = self.bans.of_status(status) is not None
        reason = f"a tunnel refused with status {status}" if status else "no tunnel"
        again = self.switch.switched(request, label, "banned" if is_ban else "no tunnel", reason)
        if again is None:
            # Scrapy's own error repeats what the proxy said, which may be anything.
            raise RequestRefused(RefusalKind.PROXY, f"the last proxy, {label}, returned {reason}")
        return again


@dataclass(frozen=True, slots=True)
class ProxySwitch:
    """Sends requests on through other proxies."""

    crawler: Crawler
    pool: ProxyPool

    def switched(self, request: Request, label: str, kind: str, reason: str) -> Request | None:
        """Return the request for another proxy; None when the answer is to be believed."""
        suspects = context_of(request).suspects
        update_context(request, suspects=(*suspects, label))
        return self.again(request, label, reason) if self.pool.suspect(label, kind, suspects) else None

    def again(self, request: Request, label: str, reason: str) -> Request:
        """Return the request for another proxy. It is no retry: the page is not to blame, so RETRY_TIMES stays."""
        logger.debug("Another proxy for %s: %s returned %s", request, label, reason)
        try:
            self.pool.seconds_to_wait(_countries(request))
        except NoProxy as error:
            # Put back, it would wait in a crawl that is closing, and be no line.
            raise self.given_up(error) from None
        stats_of(self.crawler).inc_value("llmcrawler/politeness/proxies/switches")
        again = request.copy()
        again.dont_filter = True
        update_context(again, proxy=None, tried_proxies=(*context_of(request).tried_proxies, label))
        return again

    def given_up(self, error: NoProxy) -> RequestRefused:
        """Return the error of a request that gets no proxy; end the crawl when no other request would get one."""
        if error.is_final and not is_closing(self.crawler):
            logger.error("The crawl ends: %s", error)
            close_spider_soon(self.crawler, "no_proxy")
        return RequestRefused(RefusalKind.NO_PROXY, str(error))


def _countries(request: Request) -> tuple[str, ...]:
    country = request.meta.get("proxy_country")
    return (parse_country(str(country)),) if country and country != "*" else ()


_INLINE_BYTES = 64 * 1024  # what takes some milliseconds

Validator = Callable[[Response], Any]


class ValidatorBroke(Exception):
    """Raised for a user's validate_response that has a fault of its own; the page's error is of kind `internal`."""


@dataclass(eq=False)
class ValidationMiddleware:
    """Asks again for a response that is not the page: through another proxy, as it counts as a ban, or without proxies
    RETRY_TIMES times. A page that never comes has an error of kind `validation`.
    """

    crawler: Crawler
    validators: Sequence[Validator]
    bans: BanRules
    switch: ProxySwitch | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        settings = ProxySettings.of(crawler.settings)
        given = (getattr(crawler.spider, "validate_response", None), settings.validator())
        validators = [validator for validator in given if validator is not None]
        if not validators and crawl.proxies is None:
            raise NotConfigured
        switch = None if crawl.proxies is None else ProxySwitch(crawler, crawl.proxies)
        return cls(crawler, validators, settings.bans, switch)

    async def process_response(self, request: Request, response: Response) -> Response | Request:
        label = None if "cached" in response.flags else context_of(request).proxy
        reason = await self._reason(request, response)
        if reason is None:
            status = response.status  # else of a proxy, or of a site in trouble
            is_answer = status < 500 and status != 429 and self.bans.of_status(status) is None
            if label is not None and self.switch is not None and is_answer:
                self.switch.pool.succeed(label, context_of(request).suspects, is_page=self._is_page(request))
            return response
        stats_of(self.crawler).inc_value("llmcrawler/not_the_page")
        if label is not None and self.switch is not None:
            again = self.switch.switched(request, label, "banned", reason)
        else:
            assert self.crawler.spider is not None
            again = get_retry_request(request, spider=self.crawler.spider, reason="validation")
        if again is None:
            # In a spider without an errback nothing else would tell of it.
            level = self.crawler.settings["RETRY_GIVE_UP_LOG_LEVEL"]
            level = level if isinstance(level, int) else logging.getLevelName(level)
            logger.log(level, "Gave up %s: not the page: %s", request, reason)
            raise RequestRefused(RefusalKind.VALIDATION, f"not the page: {reason}")
        again.meta["dont_cache"] = True  # what is in the cache was not the page
        return again

    async def _reason(self, request: Request, response: Response) -> str | None:
        if self.switch is not None and isinstance(response, TextResponse):
            from llmcrawler.core.politeness.proxies import is_captcha_page

            def is_captcha() -> bool:
                return is_captcha_page(page_text(response))

            if is_captcha() if len(response.body) <= _INLINE_BYTES else await asyncio.to_thread(is_captcha):
                return "a captcha page"
        if not self._is_page(request) or not 200 <= response.status < 300:  # an error page is known for what it is
            return None
        try:
            for validate in self.validators:
                verdict = validate(response)
                if inspect.isawaitable(verdict):
                    await verdict
        except NotThePage as error:
            return str(error) or "validate_response says so"
        except Exception as error:  # the user's code; some of its errors would pass for errors of the body
            raise ValidatorBroke(f"validate_response raised {type(error).__name__}: {error}") from error
        return None

    def _is_page(self, request: Request) -> bool:
        """Return whether a request is for a page, and not for robots.txt or a sitemap.

        A spider without a frontier has pages without leases.
        """
        if context_of(request).lease is not None:
            return True
        return not hasattr(self.crawler.spider, "request_of") and request.callback is not NO_CALLBACK
