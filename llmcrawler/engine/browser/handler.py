"""Downloads pages with scrapy-playwright: one browser, contexts that take turns, all traffic through the gateway.

The browser is started when the first page needs it, and again when it has died.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page
from playwright.async_api import TimeoutError as PlaywrightTimeoutError
from scrapy import Request, Spider
from scrapy.core.downloader.handlers.http11 import TunnelError
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
from scrapy.http import Headers, HtmlResponse, Response
from scrapy.responsetypes import responsetypes
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # type: ignore[import-untyped]

from llmcrawler.core.urls import origin_of
from llmcrawler.crawl.configuration import LimitSettings, PolitenessSettings, RenderSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.browser.gateway import Gateway, Route, Upstream
from llmcrawler.engine.browser.rendered_page import (
    BrowserHostLimiter,
    RenderedPage,
    Traffic,
    TrafficRules,
    links_header,
    view,
)
from llmcrawler.engine.downloader import NotRendered, downloader_of
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import LATENCY, RENDER, RENDERED
from llmcrawler.engine.responses import LINKS_HEADER, ROBOTS_HEADER
from llmcrawler.errors import BrowserMissing, ConfigError

logger = logging.getLogger(__name__)

_CONTEXT_PAGES = 50  # before a context is closed with its cache and cookies


class ContextTurns:
    """Gives one context to each way out (`route`: a proxy, or none). Beyond `max_open`, idle ones are closed."""

    def __init__(self, max_pages: int = _CONTEXT_PAGES, max_open: int = 8) -> None:
        self._max_pages = max_pages
        self._max_open = max_open
        self._current: OrderedDict[str, str] = OrderedDict()  # the context of each route
        self._pages: Counter[str] = Counter()  # those that each context has had
        self._open_pages: Counter[str] = Counter()
        self._issued = 0

    def enter(self, route: str) -> str:
        """Return the name of the context that a page goes into."""
        name = self._current.get(route)
        if name is None or self._pages[name] >= self._max_pages:
            self._issued += 1
            name = self._current[route] = f"{self._issued}"
        self._current.move_to_end(route)
        self._pages[name] += 1
        self._open_pages[name] += 1
        return name

    def leave(self, name: str) -> list[str]:
        """Note that a page of the context is closed. Return the contexts to close now."""
        self._open_pages[name] -= 1
        idle = [one for one, pages in self._open_pages.items() if not pages]
        done = [one for one in idle if one not in self._current.values()]
        idle_routes = [route for route, one in self._current.items() if one in idle]
        spare = max(0, len(self._current) - self._max_open)
        done += [self._current.pop(route) for route in idle_routes[:spare]]
        for one in done:
            del self._pages[one], self._open_pages[one]
        return done


_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
INSTALL: Final = "apt-get install chromium, or: playwright install --with-deps chromium"
_CLOSE_SECONDS: Final = 10.0
# The last two would ask Google, through the gateway.
_DISABLED: Final = (
    *"IsolateOrigins site-per-process BackForwardCache MediaRouter OptimizationHints Translate".split(),
    *"AimEnabled PreconnectToSearch".split(),
)
# No traffic but through the gateway, none of the browser's own, and no frames in processes of their own.
_ARGUMENTS: Final = (
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-remote-fonts",
    "--blink-settings=imagesEnabled=false",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    f"--disable-features={','.join(_DISABLED)}",
)
_NO_WAY_OUT: Final = "http://127.0.0.1:9"  # for what the browser asks on its own account; contexts have the gateway

# The browser has its own for these, or the context has them.
_NOT_PASSED_ON: Final = frozenset(
    b"user-agent accept accept-encoding accept-language cookie referer host connection content-length"
    b" proxy-authorization if-none-match if-modified-since".split()
)
# Headers about the document as the server sent it, which is not what was rendered.
_NOT_KEPT: Final = (b"etag", b"last-modified", b"content-length", b"content-encoding", b"transfer-encoding")
_TRAFFIC: Final = "_traffic"  # the state of a page's traffic, in the meta of the request that scrapy-playwright has
_VIEW: Final = "_view"  # the rendered page


def system_browser(chosen: str, find: Callable[[str], str | None]) -> str | None:
    """Return the path of the chosen browser, else of one of the system's; None for Playwright's own.

    `find` is shutil.which. Raises ConfigError when the chosen one is not there.
    """
    if chosen:
        path = find(chosen)
        if path is None:
            raise ConfigError(f"PLAYWRIGHT_EXECUTABLE={chosen}: no such program")
        return path
    return next((path for path in map(find, _NAMES) if path is not None), None)


class BrowserDownloadHandler(ScrapyPlaywrightDownloadHandler):  # type: ignore[misc]  # scrapy-playwright has no types
    """Raises BrowserMissing when there is no browser, and NotRendered for a download."""

    lazy = True
    _starting: asyncio.Task[None] | None = None

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        crawl = crawl_of(crawler)
        hosts = crawl.hosts
        self._render_settings = RenderSettings.of(crawler.settings)
        self._limits = LimitSettings.of(crawler.settings)
        self._politeness = PolitenessSettings.of(crawler.settings)
        self._sign = crawl.headers_when_sent
        self._credentials = crawl.credentials
        self._robots = crawl.robots
        self._guard = hosts.addresses if hosts.is_guarded else None
        self._gateway = Gateway(
            self._guard,
            timeout_seconds=self._limits.download_timeout,
            look=hosts.names.addresses,
            checks_proxied=hosts.checks_names,
        )
        self._turns = ContextTurns()
        self._limiter = BrowserHostLimiter(self._room)
        if not logging.getLogger("scrapy-playwright").level:
            logging.getLogger("scrapy-playwright").setLevel(logging.ERROR)  # each failure is a line of the feed

    async def download_request(self, request: Request) -> Response:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        await asyncio.shield(self._starting)
        seconds = request.meta.get("download_timeout") or 30.0
        traffic = self._traffic_of(request)
        render = self._render_settings
        limit = seconds + render.render_wait_seconds * (1 + render.render_scrolls) + _CLOSE_SECONDS
        try:
            async with asyncio.timeout(limit):
                response = await self._render(request, traffic, seconds)
        except (TimeoutError, PlaywrightTimeoutError):
            raise self._failed(request) or DownloadTimeoutError(
                f"Rendering {request.url} took longer than {limit:g} s."
            ) from None
        except PlaywrightError as error:
            await self.forget_if_gone()
            message = (str(error).strip().splitlines() or ["the browser failed"])[0][:200]
            is_tls = "ERR_CERT" in message or "ERR_SSL" in message
            told = DownloadFailedError(f"TLS: {message}" if is_tls else message)
            raise self._failed(request) or told from error
        if traffic.document_seconds is not None:  # the host's latency; the rest is the browser's
            request.meta[LATENCY] = traffic.document_seconds
        self.stats.inc_value("llmcrawler/content/rendering/pages")
        return response

    async def close(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
        with suppress(PlaywrightError):
            await super().close()
        await self._gateway.close()

    # -- the browser --------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        try:
            path = system_browser(self._render_settings.playwright_executable, shutil.which)
            await self._start_playwright()
            if path is None:
                own = Path(self.browser_provider.browser_type.executable_path)
                if not await asyncio.to_thread(own.exists):
                    raise BrowserMissing(f"there is no browser: {INSTALL}")
            self.config.launch_options = {
                **self.config.launch_options,
                **({"executable_path": path} if path is not None else {}),
                "args": [*_ARGUMENTS, *self.config.launch_options.get("args", ())],
                "proxy": {"server": _NO_WAY_OUT},
                "env": {**os.environ, "LLM_API_KEY": "", "OPENAI_API_KEY": "", "BOT_AUTH_KEY": ""},
            }
            await self._open_browser()
        except (PlaywrightError, ConfigError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise BrowserMissing(f"the browser does not start: {lines[0][:300]} ({INSTALL})") from error

    async def _start_playwright(self) -> None:
        """Start Playwright's process, in a session of its own: Ctrl-C, and the SIGTERM of `timeout`, reach all
        processes of the crawl's group, and pages in flight would be lost.
        """
        start = asyncio.create_subprocess_exec
        asyncio.create_subprocess_exec = partial(start, start_new_session=True)  # Playwright has no option for it
        try:
            await self._launch()
        finally:
            asyncio.create_subprocess_exec = start

    async def _open_browser(self) -> None:
        """Open the browser in its sandbox where there can be one: never as root, and not in every container."""
        self.config.launch_options.setdefault("chromium_sandbox", os.geteuid() != 0)
        try:
            await self._maybe_launch_browser()
        except PlaywrightError:
            if not self.config.launch_options["chromium_sandbox"]:
                raise
            logger.warning("The browser is started without its sandbox because it does not start with it")
            self.config.launch_options["chromium_sandbox"] = False
            await self._maybe_launch_browser()
        logger.info("A browser is open: pages that need it are rendered (%s)", self.browser.version)

    async def forget_if_gone(self) -> None:
        """Start all anew when Playwright's own process has died. A browser that dies alone is noticed by others."""
        browser = getattr(self, "browser", None)
        if browser is None or not browser.is_connected():
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await (await browser.new_browser_cdp_session()).detach()
        except (PlaywrightError, TimeoutError):
            if browser.is_connected() and getattr(self, "browser", None) is browser:
                logger.warning("The browser exited unexpectedly: it is restarted")
                del self.browser
                self.context_wrappers.clear()
                self._starting = None

    # -- one page -----------------------------------------------------------------------------------------------------

    async def _render(self, request: Request, traffic: Traffic, seconds: float) -> Response:
        """Return the rendered response. Raises NotRendered for a download."""
        place = "" if self._guard is None else self._guard.private_place_of(request.url)
        proxy = request.meta.get("proxy")
        upstream = Upstream(proxy, request.headers.get(b"Proxy-Authorization")) if proxy else None
        agent = (request.headers.get(b"User-Agent") or b"").decode("latin-1")
        port = await self._gateway.port(Route(upstream, place))
        name = self._turns.enter(f"{port} {agent}")
        inner = self._inner(request, traffic, name, port, seconds)
        work = asyncio.ensure_future(self._download_request(inner))
        leaving = asyncio.ensure_future(traffic.left.wait())
        try:
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not traffic.left.is_set():
                return self._finished(request, inner, work.result(), traffic)
            if traffic.cut_off:
                raise ResponseDataLossError
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
        options: dict[str, Any] = {
            "proxy": {"server": f"http://127.0.0.1:{port}"},
            "service_workers": "block",
            "accept_downloads": False,
            "ignore_https_errors": not self._limits.download_verify_certificates,
            "viewport": {"width": 1280, "height": 1600},
            "reduced_motion": "reduce",
        }
        if cookies := self._credentials.cookies_for(request.url):
            more = {"expires": -1, "httpOnly": False, "sameSite": "Lax"}
            options["storage_state"] = {"cookies": [{**one, **more} for one in cookies], "origins": []}
        going: dict[str, Any] = {"wait_until": "domcontentloaded", "timeout": 1000 * seconds}
        if agent := request.headers.get(b"User-Agent"):
            options["user_agent"] = agent.decode("latin-1")
        if language := request.headers.get(b"Accept-Language"):
            options["extra_http_headers"] = {"Accept-Language": language.decode("latin-1")}
        if referer := request.headers.get(b"Referer"):
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

    async def _download_request_with_page(self, request: Request, page: Page, spider: Spider) -> Response:
        """Render the page. scrapy-playwright would encode it again with whatever codec of Python's it names."""
        answer, _download = await self._get_response_and_download(request, page, spider)
        headers = Headers(await answer.all_headers() if answer is not None else None)
        headers.pop("Content-Encoding", None)
        if answer is not None:  # in one header after another, one robot's name would be for what was said to all
            headers.setlist(ROBOTS_HEADER, await answer.header_values(ROBOTS_HEADER))
        traffic: Traffic = request.meta[_TRAFFIC]
        if traffic.session is None:
            raise PlaywrightError("the page's requests could not be monitored; the log says why")
        body = b""
        if await page.evaluate("document.contentType") in ("text/html", "application/xhtml+xml"):
            request.meta[_VIEW] = await view(page, traffic, self._render_settings)
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
        if len(body) > self._limits.download_maxsize > 0:
            raise DownloadCancelledError("the rendered page is larger than DOWNLOAD_MAXSIZE")
        headers = Headers(response.headers)
        for header in (*_NOT_KEPT, LINKS_HEADER.encode()):
            headers.pop(header, None)
        headers[b"Content-Type"] = b"text/html; charset=utf-8"
        if links := links_header(seen.links, response.url):
            headers[LINKS_HEADER] = links
        for said in seen.robots:
            headers.appendlist(ROBOTS_HEADER, said.encode("latin-1", "replace"))
        return HtmlResponse(
            response.url, response.status, headers=headers, body=body, encoding="utf-8", flags=[RENDERED]
        )

    async def _leave(self, name: str, traffic: Traffic) -> None:
        traffic.detach()
        with suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                if traffic.page is not None and not traffic.page.is_closed():
                    await traffic.page.close()
        for done in self._turns.leave(name):
            wrapper = self.context_wrappers.get(done)
            if wrapper is not None:
                with suppress(PlaywrightError, TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await wrapper.context.close()

    # -- what a page may do -------------------------------------------------------------------------------------------

    def _traffic_of(self, request: Request) -> Traffic:
        guard = self._guard
        rules = TrafficRules(
            refuse_url=lambda url, source: None if guard is None else guard.reason_to_refuse(url, source),
            is_forbidden=self._is_forbidden,
        )
        headers = {
            name.decode("latin-1"): b", ".join(values or ()).decode("latin-1")
            for name, values in request.headers.items()
            if name.lower() not in _NOT_PASSED_ON
        }
        return Traffic(
            request.url.partition("#")[0],
            rules,
            self._limiter,
            more_headers=lambda ask: {**(headers if ask.is_page else {}), **self._sign(ask.method, ask.url)},
            count=lambda reason: self.stats.inc_value(f"llmcrawler/content/rendering/blocked/{reason}"),
        )

    def _is_forbidden(self, url: str) -> bool:
        parser = self._robots.last(origin_of(url)) if self._politeness.robotstxt_obey else None
        return parser is not None and not parser.allowed(url, self._politeness.robots_agent)

    def _room(self, host: str) -> int:
        """Return how many requests the browser may have at a host, beside those of the downloader."""
        downloader = downloader_of(self.crawler)
        slot = downloader.slots.get(host)
        if slot is None:
            return int(downloader.domain_concurrency)
        return int(slot.concurrency) - sum(1 for one in slot.transferring if not one.meta.get(RENDER))

    def _failed(self, request: Request) -> Exception | None:
        """Return the failure that the gateway has seen, as an error of Scrapy's."""
        failure = self._gateway.failure(request.url)
        if failure is None:
            return None
        if failure.kind == "private_address":
            return RequestRefused(RefusalKind.PRIVATE_ADDRESS, str(failure))
        if failure.kind == "proxy":
            proxy = request.meta.get("proxy")
            return TunnelError(f"Could not open CONNECT tunnel with proxy {proxy} [{failure}]")
        return _ERRORS.get(failure.kind, DownloadFailedError)(str(failure))


_ERRORS: Final = {
    "dns": CannotResolveHostError,
    "refused": DownloadConnectionRefusedError,
    "timeout": DownloadTimeoutError,
}
