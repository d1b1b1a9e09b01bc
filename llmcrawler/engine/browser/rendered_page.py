"""One page in the browser: judges and counts what it asks for, through the DevTools protocol, waits for its content,
loads more of it, and looks for its links.

Playwright's own routing would switch the browser's cache off, so that every page fetched the app's scripts anew, and
it does not see redirects.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote, urlsplit

from playwright.async_api import CDPSession, Download, Page
from playwright.async_api import Error as PlaywrightError
from scrapy import Request

from llmcrawler.core.content import robots_metas
from llmcrawler.core.content.render_features import LOADS_MORE, PRESSABLE
from llmcrawler.core.urls import normalise_with_route, route_of
from llmcrawler.crawl.configuration import RenderSettings


class BrowserHostLimiter:
    """Makes the browser's requests wait. `limit_of` returns how many a host may have now; one may always go."""

    def __init__(self, limit_of: Callable[[str], int]) -> None:
        self._limit_of = limit_of
        self._in_flight: Counter[str] = Counter()
        self._left: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)  # of hosts that others wait for

    async def enter(self, host: str) -> None:
        while self._in_flight[host] >= max(1, self._limit_of(host)):
            await self._left[host].wait()
        self._in_flight[host] += 1

    def leave(self, host: str) -> None:
        self._in_flight[host] -= 1
        if not self._in_flight[host]:
            del self._in_flight[host]
        if (left := self._left.pop(host, None)) is not None:
            left.set()


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
    """State of a page's traffic. `left` is set when it was sent elsewhere (`sent_to`), is a download, or its document
    ended early (`cut_off`): for such a document Playwright would wait for ever.
    """

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
        self.cut_off = False
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
        self.session: CDPSession | None = None  # set once requests are watched
        self._main_frame = ""
        self._documents = 0
        self._document_id = ""
        self._document_started = 0.0

    @property
    def is_quiet(self) -> bool:
        return not self._held and not self._tasks

    async def attach(self, page: Page, _request: Request) -> None:
        """Watch a new page; scrapy-playwright calls it before the page goes anywhere."""
        self.page = page
        page.on("download", self._note_download)
        await page.add_init_script(_script("prepare"))
        session = await page.context.new_cdp_session(page)
        tree = await session.send("Page.getFrameTree")
        self._main_frame = tree["frameTree"]["frame"]["id"]
        session.on("Fetch.requestPaused", self._note_paused)
        session.on("Network.responseReceived", self._note_response)
        session.on("Network.loadingFinished", self._note_end)
        session.on("Network.loadingFailed", self._note_failure)
        await session.send("Network.enable", {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0})
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        await page.unroute("**")
        self.session = session

    def detach(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for request_id in list(self._held):
            self._release(request_id)

    # -- events -------------------------------------------------------------------------------------------------------

    def _note_download(self, _download: Download) -> None:
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

    def _note_failure(self, event: dict[str, Any]) -> None:
        if event["requestId"] == self._document_id and self.document_seconds is not None and not event.get("canceled"):
            self.cut_off = True
            self.left.set()
        self._note_end(event)

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
            # Some pages ask for themselves again after setting a cookie.
            is_reload = not self.probing and ask.url == self._url and self._documents <= _MAX_RELOADS
            if is_page and self._documents and not is_reload:
                if self.probing:
                    self.probed.append(ask.url)
                else:
                    self.sent_to = ask.url
                    self.left.set()
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
        if self.session is not None:  # else `attach` has not ended yet, and nothing went out before it has
            await self.session.send(method, {"requestId": event["requestId"], **options})

    def _release(self, request_id: str) -> None:
        held = self._held.pop(request_id, None)
        if held is not None:
            held[1].cancel()
            self._limiter.leave(held[0])
            self.quiet_since = time.monotonic()


_MAX_LINKS: Final = 1000

_MORE: Final = {"loadsMore": LOADS_MORE, "pressable": PRESSABLE}
# -> the urls of all links; the meta elements that the server sent, as pairs of name and content; {height, items}, which
# say whether a step has brought anything
LINKS: Final = "() => window.__llmcrawler.links()"
METAS: Final = "() => window.__llmcrawler.metas()"
SIZE: Final = "() => ({ height: document.documentElement.scrollHeight, items: window.__llmcrawler.all('*').length })"


@cache
def _script(name: str) -> str:
    """Return scripts/NAME.js."""
    return files(__package__).joinpath("scripts", f"{name}.js").read_text(encoding="utf-8")


def links_header(found: Iterable[str], base: str) -> str:
    """Return the header's value for links as the page's scripts named them: absolute or relative, in any characters."""
    urls: dict[str, None] = {}
    for reference in found:
        url = normalise_with_route(reference.strip(), base)
        if url is not None:
            urls[quote(url, safe="%/:?#[]@!$&'()*+,;=~-._")] = None
        if len(urls) >= _MAX_LINKS:
            break
    return " ".join(urls)


_LOOK_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 0.3  # nothing under way, nothing changed for so long: the page is there
_RESTLESS_SECONDS: Final = 2.0  # nothing under way for so long: what still changes is a clock or a banner


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A rendered page. `links` are those that `html` does not show, `robots` what the HTML that the server sent says to
    robots, as X-Robots-Tag headers.
    """

    html: str
    links: tuple[str, ...]
    robots: tuple[str, ...]


async def view(page: Page, traffic: Traffic, settings: RenderSettings) -> RenderedPage:
    await _settle(page, traffic, settings.render_wait_seconds)
    passed: list[str] = []
    for _ in range(settings.render_scrolls):
        passed += await page.evaluate(LINKS)  # long lists drop what has been scrolled past
        before = await page.evaluate(SIZE)
        await page.evaluate(_script("more"), _MORE)
        await asyncio.sleep(_QUIET_SECONDS)  # a page may look where it stands some frames later
        await _settle(page, traffic, settings.render_wait_seconds)
        after = await page.evaluate(SIZE)
        if after["items"] <= before["items"] and after["height"] <= before["height"]:
            break
    html: str = await page.evaluate(_script("snapshot"))
    said = robots_metas(await page.evaluate(METAS))
    shown = dict.fromkeys(await page.evaluate(LINKS))
    passed += filter(route_of, shown)  # in plain pages they are none
    traffic.probing = True
    found = [*passed, *await page.evaluate(_script("probe"), settings.render_clicks), *traffic.probed]
    links = tuple(url for url in dict.fromkeys(found) if url not in shown or route_of(url))
    return RenderedPage(html, links, tuple(f"{name}: {' '.join(text.split())}" for name, text in said.items()))


async def _settle(page: Page, traffic: Traffic, seconds: float) -> None:
    """Wait until nothing is under way, nothing changes and there is text, or until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(_LOOK_SECONDS)
        quiet_seconds = time.monotonic() - traffic.quiet_since
        if not traffic.is_quiet or quiet_seconds < _QUIET_SECONDS:
            continue
        look = await page.evaluate(_script("look"))
        if look["waits"] or not look["words"]:
            continue
        if look["quiet"] >= 1000 * _QUIET_SECONDS or quiet_seconds >= _RESTLESS_SECONDS:
            return
