"""Downloads pages with scrapy-playwright: one browser, contexts that take turns, all traffic through the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page
from playwright.async_api import TimeoutError as PlaywrightTimeoutError
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)
from scrapy.http import Headers, HtmlResponse, Response
from scrapy.responsetypes import responsetypes

from llmcrawler.core.urls import origin_of
from llmcrawler.crawl.configuration import LimitSettings, PolitenessSettings, RenderSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.browser.gateway import Failure, Gateway, Route, Upstream
from llmcrawler.engine.browser.launching import CLOSE_SECONDS, LaunchingHandler
from llmcrawler.engine.browser.rendered_page import (
    BrowserHostLimiter,
    BrowserRequest,
    RenderedPage,
    RenderRules,
    Traffic,
    TrafficRules,
    links_header,
    view,
)
from llmcrawler.engine.downloader import NotRendered, PoliteDownloader
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import LATENCY, RENDER, RENDERED
from llmcrawler.engine.responses import LINKS_HEADER, ROBOTS_HEADER


@dataclass(slots=True)
class _Context:
    name: str
    pages: int = 0
    open_pages: int = 0


class ContextTurns:
    """Gives one context to each way out (`route`: a proxy, or none). Beyond `max_open`, idle ones are closed."""

    def __init__(self, max_pages: int, max_open: int = 8) -> None:
        self._max_pages = max_pages
        self._max_open = max_open
        self._current: OrderedDict[str, _Context] = OrderedDict()
        self._retired: dict[str, _Context] = {}
        self._issued = 0

    def enter(self, route: str) -> str:
        """Return the name of the context that a page goes into."""
        context = self._current.get(route)
        if context is not None and context.pages >= self._max_pages:
            self._retired[context.name] = context
            context = None
        if context is None:
            self._issued += 1
            context = self._current[route] = _Context(f"{self._issued}")
        self._current.move_to_end(route)
        context.pages += 1
        context.open_pages += 1
        return context.name

    def leave(self, name: str) -> list[str]:
        """Note that a page of the context is closed. Return the contexts to close now."""
        for context in (*self._current.values(), *self._retired.values()):
            if context.name == name:
                context.open_pages -= 1
        done = [context.name for context in self._retired.values() if not context.open_pages]
        for retired in done:
            del self._retired[retired]
        spare = len(self._current) - self._max_open
        idle = [route for route, context in self._current.items() if not context.open_pages]
        done += [self._current.pop(route).name for route in idle[: max(0, spare)]]
        return done


logger = logging.getLogger(__name__)

# The browser has its own for these, or the context has them.
_NOT_PASSED_ON: Final = frozenset(
    b"user-agent accept accept-encoding accept-language cookie referer host connection content-length"
    b" proxy-authorization if-none-match if-modified-since".split()
)
# Headers about the document as the server sent it, which is not what was rendered.
_NOT_KEPT: Final = (b"etag", b"last-modified", b"content-length", b"content-encoding", b"transfer-encoding")
_TRAFFIC: Final = "_traffic"
_VIEW: Final = "_view"


class BrowserDownloadHandler(LaunchingHandler):
    """Renders pages in contexts that take turns. Raises BrowserMissing when there is no browser, and NotRendered for a
    download.
    """

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        crawl = crawl_of(crawler)
        hosts = crawl.hosts
        render, limits = RenderSettings.of(crawler.settings), LimitSettings.of(crawler.settings)
        politeness = PolitenessSettings.of(crawler.settings)
        self._rules = RenderRules(
            wait_seconds=render.render_wait_seconds, scrolls=render.render_scrolls, clicks=render.render_clicks
        )
        self._sign = crawl.signature_headers
        self._robots = crawl.robots
        self._guard = hosts.addresses if hosts.is_guarded else None
        self._gateway = Gateway(
            self._guard,
            timeout_seconds=limits.download_timeout,
            look=hosts.names.addresses,
            checks_proxied=hosts.checks_names,
        )
        self._turns = ContextTurns(render.render_context_pages)
        self._limiter = BrowserHostLimiter(self._room)
        self._max_bytes = limits.download_maxsize
        self._obeys_robots = politeness.robotstxt_obey
        self._robots_agent = politeness.robots_agent
        self._verifies = limits.download_verify_certificates
        if not logging.getLogger("scrapy-playwright").level:
            logging.getLogger("scrapy-playwright").setLevel(logging.ERROR)  # each failure is a line of the feed

    async def download_request(self, request: Request) -> Response:
        await self.started()
        seconds = request.meta.get("download_timeout") or 30.0
        traffic = self._traffic_of(request)
        limit = seconds + self._rules.wait_seconds * (1 + self._rules.scrolls) + CLOSE_SECONDS
        try:
            async with asyncio.timeout(limit):
                response = await self._render(request, traffic, seconds)
        except (TimeoutError, PlaywrightTimeoutError):
            raise self._failed(request) or DownloadTimeoutError(
                f"Rendering {request.url} took longer than {limit:g} s."
            ) from None
        except PlaywrightError as error:
            await self.forget_if_gone()
            raise self._failed(request) or _error_of(error) from error
        if traffic.document_seconds is not None:  # the host's latency; the rest is the browser's
            request.meta[LATENCY] = traffic.document_seconds
        self.stats.inc_value("llmcrawler/content/rendering/pages")
        return response

    async def close(self) -> None:
        await super().close()
        await self._gateway.close()

    # -- one page -----------------------------------------------------------------------------------------------------

    async def _render(self, request: Request, traffic: Traffic, seconds: float) -> Response:
        """Return the rendered response. Raises NotRendered for a download."""
        place = "" if self._guard is None else self._guard.private_place_of(request.url)
        agent = (request.headers.get(b"User-Agent") or b"").decode("latin-1")
        port = await self._gateway.port(Route(_upstream(request), place))
        name = self._turns.enter(f"{port} {agent}")
        inner = self._inner(request, traffic, name, port, seconds)
        work = asyncio.ensure_future(self.render(inner))
        leaving = asyncio.ensure_future(traffic.left.wait())
        try:
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not traffic.left.is_set():
                return self._finished(request, inner, work.result(), traffic)
            if traffic.is_download:
                raise NotRendered
            # The redirect middlewares know what becomes of it.
            return Response(request.url, 302, headers={"Location": traffic.sent_to})
        finally:
            leaving.cancel()
            work.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)
            await asyncio.shield(self._leave(name, traffic))

    def _inner(self, request: Request, traffic: Traffic, context: str, port: int, seconds: float) -> Request:
        """Return the request as scrapy-playwright takes it."""
        options: dict[str, Any] = {
            "proxy": {"server": f"http://127.0.0.1:{port}"},
            "service_workers": "block",
            "accept_downloads": False,
            "ignore_https_errors": not self._verifies,
            "viewport": {"width": 1280, "height": 1600},
            "reduced_motion": "reduce",
        }
        agent, language = request.headers.get(b"User-Agent"), request.headers.get(b"Accept-Language")
        if agent:
            options["user_agent"] = agent.decode("latin-1")
        if language:
            options["extra_http_headers"] = {"Accept-Language": language.decode("latin-1")}
        going: dict[str, Any] = {"wait_until": "domcontentloaded", "timeout": 1000 * seconds}
        referer = request.headers.get(b"Referer")
        if referer:
            going["referer"] = referer.decode("latin-1")
        meta = {
            "playwright": True,
            "playwright_context": context,
            "playwright_context_kwargs": options,
            "playwright_page_init_callback": traffic.attach,
            "playwright_page_goto_kwargs": going,
            _TRAFFIC: traffic,
        }
        return request.replace(meta=meta)

    async def work_on_page(self, request: Request, page: Page) -> Response:
        """Render the page. scrapy-playwright would encode it again with whatever codec of Python's it names."""
        answer = await self.go(request, page)
        headers = Headers(await answer.all_headers() if answer is not None else None)
        headers.pop("Content-Encoding", None)
        if answer is not None:  # in one header after another, one robot's name would be for what was said to all
            headers.setlist(ROBOTS_HEADER, await answer.header_values(ROBOTS_HEADER))
        traffic: Traffic = request.meta[_TRAFFIC]
        if not traffic.is_watched:
            raise PlaywrightError("the page's requests could not be watched; the log says why")
        body = b""
        if await page.evaluate("document.contentType") in ("text/html", "application/xhtml+xml"):
            request.meta[_VIEW] = await view(page, traffic, self._rules)
        else:
            body = (await page.content()).encode("utf-8", "replace")
        kind = responsetypes.from_args(headers=headers, url=page.url, body=body)
        return kind(page.url, answer.status if answer is not None else 200, headers, body)

    def _finished(self, request: Request, inner: Request, response: Response, traffic: Traffic) -> Response:
        if traffic.refused is not None and response.status < 400:
            # A resource was refused, so the page is not whole: let the throttle know, and try again.
            status, headers = traffic.refused
            return Response(request.url, status, headers=headers)
        seen: RenderedPage | None = inner.meta.get(_VIEW)
        if seen is None:
            return response.replace(request=request)
        body = seen.html.encode("utf-8", "replace")
        if len(body) > self._max_bytes > 0:
            raise DownloadCancelledError("the rendered page is larger than DOWNLOAD_MAXSIZE")
        headers = Headers(response.headers)
        for header in (*_NOT_KEPT, LINKS_HEADER.encode()):
            headers.pop(header, None)
        headers[b"Content-Type"] = b"text/html; charset=utf-8"
        links = links_header(seen.links, response.url)
        if links:
            headers[LINKS_HEADER] = links
        for said in seen.robots:
            headers.appendlist(ROBOTS_HEADER, said.encode("latin-1", "replace"))
        return HtmlResponse(
            response.url, response.status, headers=headers, body=body, encoding="utf-8", flags=[RENDERED]
        )

    async def _leave(self, name: str, traffic: Traffic) -> None:
        traffic.detach()
        with suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if traffic.page is not None and not traffic.page.is_closed():
                    await traffic.page.close()
        for done in self._turns.leave(name):
            wrapper = self.context_wrappers.get(done)
            if wrapper is not None:
                with suppress(PlaywrightError, TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await wrapper.context.close()

    # -- what a page may do -------------------------------------------------------------------------------------------

    def _traffic_of(self, request: Request) -> Traffic:
        rules = TrafficRules(
            refuse_url=lambda url, source: None if self._guard is None else self._guard.reason_to_refuse(url, source),
            is_forbidden=self._is_forbidden,
        )
        headers = {
            name.decode("latin-1"): b", ".join(values or ()).decode("latin-1")
            for name, values in request.headers.items()
            if name.lower() not in _NOT_PASSED_ON
        }
        url = request.url.partition("#")[0]

        def more_headers(ask: BrowserRequest) -> dict[str, str]:
            return {**(headers if ask.is_page else {}), **self._sign(ask.method, ask.url)}

        return Traffic(url, rules, self._limiter, more_headers, lambda reason: self._count(f"blocked/{reason}"))

    def _is_forbidden(self, url: str) -> bool:
        if not self._obeys_robots:
            return False
        parser = self._robots.last(origin_of(url))
        return parser is not None and not parser.allowed(url, self._robots_agent)

    def _room(self, host: str) -> int:
        """Return how many requests the browser may have at a host, beside those of the downloader."""
        assert self.crawler.engine is not None
        downloader = self.crawler.engine.downloader
        assert isinstance(downloader, PoliteDownloader)
        slot = downloader.slots.get(host)
        if slot is None:
            return int(downloader.domain_concurrency)
        return int(slot.concurrency) - sum(1 for one in slot.transferring if not one.meta.get(RENDER))

    def _count(self, name: str) -> None:
        self.stats.inc_value(f"llmcrawler/content/rendering/{name}")

    def _failed(self, request: Request) -> Exception | None:
        """Return the failure that the gateway has seen, as an error of Scrapy's."""
        failure = self._gateway.failure(request.url)
        return None if failure is None else _exception_of(failure, request)


def _upstream(request: Request) -> Upstream | None:
    proxy = request.meta.get("proxy")
    return Upstream(proxy, request.headers.get(b"Proxy-Authorization")) if proxy else None


def _exception_of(failure: Failure, request: Request) -> Exception:
    if failure.kind == "private_address":
        return RequestRefused(RefusalKind.PRIVATE_ADDRESS, failure.message)
    if failure.kind == "proxy":
        return TunnelError(f"Could not open CONNECT tunnel with proxy {request.meta.get('proxy')} [{failure.message}]")
    kinds = {"dns": CannotResolveHostError, "refused": DownloadConnectionRefusedError, "timeout": DownloadTimeoutError}
    return kinds.get(failure.kind, DownloadFailedError)(failure.message)


def _error_of(error: PlaywrightError) -> Exception:
    message = (str(error).strip().splitlines() or ["the browser failed"])[0][:200]
    if "ERR_CERT" in message or "ERR_SSL" in message:
        return DownloadFailedError(f"TLS: {message}")
    return DownloadFailedError(message)
