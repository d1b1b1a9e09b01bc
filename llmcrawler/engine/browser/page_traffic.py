"""Judges and counts what one page asks for while it is rendered, through the DevTools protocol.

Playwright's own routing would switch the browser's cache off, so that every page fetched the app's scripts anew, and it
does not see redirects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.async_api import CDPSession, Page
from playwright.async_api import Error as PlaywrightError
from scrapy import Request

from llmcrawler.engine.browser.browser_limiter import BrowserHostLimiter
from llmcrawler.engine.browser.page_scripts import PREPARE

# Resources that are never text. An EventSource would never end; a frame's content is not the page's.
_BLOCKED_KINDS: Final = frozenset({"Image", "Font", "Media", "TextTrack", "Ping", "CSPViolationReport", "Prefetch"})
_PICTURES: Final = (".ico", ".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".woff", ".woff2", ".ttf")
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """A request of the browser. `kind` is the resource type of the DevTools protocol. `is_page`: the page itself is to
    be another one. `source`: the url of the page that asks, or of what redirects here.
    """

    url: str
    kind: str
    method: str = "GET"
    is_page: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class TrafficRules:
    """Rules of one page. `refuse_url` gives a reason not to go to a url from a source, `is_forbidden` whether a
    robots.txt that is known forbids a url.
    """

    refuse_url: Callable[[str, str], str | None]
    is_forbidden: Callable[[str], bool]

    def reason_to_block(self, ask: BrowserRequest, *, probing: bool = False) -> str | None:
        """Return why a request must not go out, else None. `probing`: links are clicked to see where they lead."""
        parts = urlsplit(ask.url)
        if parts.scheme in ("data", "blob"):
            return None
        if parts.scheme not in ("http", "https"):
            return "scheme"
        if ask.kind in _BLOCKED_KINDS or (ask.kind == "Document" and not ask.is_page):
            return "kind"
        if ask.kind == "Other" and (parts.path.lower().endswith(_PICTURES) or "manifest" in parts.path):
            return "kind"  # the tab's icon
        if self.refuse_url(ask.url, ask.source) is not None:
            return "private_address"
        if probing and ask.method not in _READS:
            return "probing"
        if not ask.is_page and self.is_forbidden(ask.url):
            return "robots"
        return None


_REFUSALS: Final = frozenset({429, 503})
# A request that takes longer (a long poll) holds neither a place at its host nor the page.
_HOLD_SECONDS: Final = 8.0
_MAX_RELOADS: Final = 2


class Traffic:
    """State of a page's traffic. `left` is set when it was sent elsewhere (`sent_to`), or is a download."""

    def __init__(
        self,
        url: str,
        rules: TrafficRules,
        limiter: BrowserHostLimiter,
        more_headers: Callable[[BrowserRequest], Mapping[str, str]],
        count: Callable[[str], None],
    ) -> None:
        self.page: Page | None = None
        self.left = asyncio.Event()
        self.sent_to: str | None = None
        self.is_download = False
        self.probing = False
        self.probed: list[str] = []
        self.refused: tuple[int, dict[str, str]] | None = None
        self.document_seconds: float | None = None
        self.quiet_since = time.monotonic()
        self._url = url
        self._rules = rules
        self._limiter = limiter
        self._more_headers = more_headers
        self._count = count
        self._held: dict[str, tuple[str, asyncio.TimerHandle]] = {}
        self._hops: dict[str, str] = {}  # where requests on their way went last, to tell what redirects them
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: CDPSession | None = None
        self._main_frame = ""
        self._documents = 0
        self._document_id = ""
        self._document_started = 0.0

    @property
    def is_quiet(self) -> bool:
        return not self._held and not self._tasks

    @property
    def is_watched(self) -> bool:
        return self._session is not None

    async def attach(self, page: Page, _request: Request) -> None:
        """Watch a new page; scrapy-playwright calls it before the page goes anywhere."""
        self.page = page
        page.on("download", lambda _download: self._note_download())
        await page.add_init_script(PREPARE)
        session = await page.context.new_cdp_session(page)
        tree = await session.send("Page.getFrameTree")
        self._main_frame = tree["frameTree"]["frame"]["id"]
        session.on("Fetch.requestPaused", self._note_paused)
        session.on("Network.responseReceived", self._note_response)
        session.on("Network.loadingFinished", self._note_end)
        session.on("Network.loadingFailed", self._note_end)
        await session.send("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        await page.unroute("**")
        self._session = session

    def detach(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for request_id in list(self._held):
            self._release(request_id)

    # -- events -------------------------------------------------------------------------------------------------------

    def _note_download(self) -> None:
        self.is_download = True
        self.left.set()

    def _note_paused(self, event: dict[str, Any]) -> None:
        task = asyncio.ensure_future(self._decide(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note_response(self, event: dict[str, Any]) -> None:
        response = event["response"]
        if event["requestId"] == self._document_id:
            self.document_seconds = time.monotonic() - self._document_started
        elif response["status"] in _REFUSALS and urlsplit(response["url"]).netloc == urlsplit(self._url).netloc:
            self.refused = (response["status"], {name.title(): value for name, value in response["headers"].items()})

    def _note_end(self, event: dict[str, Any]) -> None:
        self._hops.pop(event["requestId"], None)
        self._release(event["requestId"])

    # -- decisions ----------------------------------------------------------------------------------------------------

    async def _decide(self, event: dict[str, Any]) -> None:
        request, request_id = event["request"], event.get("networkId") or event["requestId"]
        kind = event.get("resourceType", "Other")
        is_page = kind == "Document" and event.get("frameId") == self._main_frame
        ask = BrowserRequest(request["url"], kind, request["method"], is_page, self._hops.get(request_id, self._url))
        self._release(request_id)  # where it was redirected from is done with
        try:
            reason = self._rules.reason_to_block(ask, probing=self.probing)
            if is_page and self._documents and not self._is_reload(ask.url):
                self._go(ask.url)
                await self._answer("Fetch.failRequest", event, {"errorReason": "Aborted"})
            elif reason is not None:
                self._count(reason)
                await self._answer("Fetch.failRequest", event, {"errorReason": "BlockedByClient"})
            else:
                await self._let_go(event, ask, request_id)
        except PlaywrightError:
            self._release(request_id)  # the page is closed already

    async def _let_go(self, event: dict[str, Any], ask: BrowserRequest, request_id: str) -> None:
        host = urlsplit(ask.url).netloc
        await self._limiter.enter(host)
        timer = asyncio.get_running_loop().call_later(_HOLD_SECONDS, self._release, request_id)
        self._held[request_id] = (host, timer)
        self._hops[request_id] = ask.url
        options: dict[str, Any] = {}
        if ask.is_page:
            self._documents += 1
            self._document_id, self._document_started = request_id, time.monotonic()
        if more := self._more_headers(ask):  # they do not go on to where it is redirected
            headers = {**event["request"]["headers"], **more}
            options["headers"] = [{"name": name, "value": value} for name, value in headers.items()]
        await self._answer("Fetch.continueRequest", event, options)

    async def _answer(self, method: str, event: dict[str, Any], options: dict[str, Any]) -> None:
        assert self.page is not None
        session = self._session
        if session is None:  # `attach` has not ended yet, and nothing went out before it has
            return
        await session.send(method, {"requestId": event["requestId"], **options})

    def _is_reload(self, url: str) -> bool:
        """Return whether a page asks for itself again, as some do after setting a cookie."""
        return not self.probing and url == self._url and self._documents <= _MAX_RELOADS

    def _go(self, url: str) -> None:
        if self.probing:
            self.probed.append(url)
        else:
            self.sent_to = url
            self.left.set()

    def _release(self, request_id: str) -> None:
        held = self._held.pop(request_id, None)
        if held is not None:
            held[1].cancel()
            self._limiter.leave(held[0])
            self.quiet_since = time.monotonic()
