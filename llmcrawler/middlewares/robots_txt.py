"""Obeys robots.txt from the first request on."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import monotonic
from typing import Any, Final, Self
from urllib.parse import urljoin

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.python import to_unicode
from scrapy.utils.response import response_status_message

from llmcrawler.core.content import is_binary
from llmcrawler.core.politeness.robots import (
    MAX_BYTES,
    MAX_REDIRECTS,
    Robots,
    RobotsCache,
    has_robots,
    parse_robots,
)
from llmcrawler.core.urls import with_plain_origin
from llmcrawler.crawl.compat import engine_of, stats_of
from llmcrawler.crawl.configuration import PolitenessSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.signals import robots_unreachable
from llmcrawler.engine.downloader import HostPaused, downloader_of
from llmcrawler.engine.failures import RefusalKind, RequestRefused, failure_kind
from llmcrawler.engine.request_context import context_of
from llmcrawler.middlewares.bodies import WHOLE_BODY

_CURE: Final = "; ask the site's owner, or set ROBOTSTXT_OBEY=False for a site of your own"
FORBIDS_ALL: Final = b"User-agent: *\nDisallow: /"


class GroupRobotParser(RobotParser):
    """Applies the rules for the crawl's own name (ROBOTSTXT_USER_AGENT, USER_AGENT), and ignores the agent that Scrapy
    names with each question.
    """

    def __init__(self, robots: Robots) -> None:
        self.robots = robots

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        return cls(parse_robots(robotstxt_body, PolitenessSettings.of(crawler.settings).robots_token))

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:  # noqa: ARG002 (Scrapy's)
        return self.robots.allows(to_unicode(url))

    def crawl_delay(self, user_agent: str | bytes) -> float | None:  # noqa: ARG002 (Scrapy's)
        """Return the longest gap in seconds between requests that the file asks for (Crawl-delay, Request-rate)."""
        return self.robots.gap_seconds

    @property
    def sitemaps(self) -> tuple[str, ...]:
        return self.robots.sitemaps

    @property
    def size_bytes(self) -> int:
        return self.robots.size_bytes


class UnreachableRobots(GroupRobotParser):
    """Stands for a robots.txt that cannot be fetched: everything is forbidden until it can (RFC 9309, 2.3.1.4).

    `is_final`: its pages do not wait for it.
    """

    def __init__(self, reason: str, *, is_final: bool) -> None:
        super().__init__(parse_robots(FORBIDS_ALL, ""))
        self.reason = reason
        self.is_final = is_final


# More is fetched than is read (RFC 9309, 2.5), so that a file which is too long is cut and not lost.
_MAX_FETCHED_BYTES: Final = 20 * 2**20
_META: Final[dict[str, Any]] = {
    "dont_obey_robotstxt": True,
    "dont_redirect": True,  # also where the crawl follows none, or not as many as the RFC wants
    "max_retry_times": 1,  # more come after a rest
    "download_maxsize": _MAX_FETCHED_BYTES,
    WHOLE_BODY: True,
}
# Failures that the host's pages would meet as well: their lines tell of it as such.
_OF_THE_HOST: Final = frozenset(
    {
        *("dns", "refused", "tls", "proxy", RefusalKind.PRIVATE_ADDRESS, RefusalKind.NO_PROXY),
        *(RefusalKind.HOST_DOWN, RefusalKind.ROBOTS_UNREACHABLE),  # it was given up meanwhile
    }
)
_INLINE_BYTES: Final = 16 * 1024  # what is parsed in some milliseconds
_PATIENCE_SECONDS: Final = 1.0  # pages that wait for longer leave their places to those of other hosts
_FINAL_SECONDS: Final = 300.0  # before a robots.txt for which no page waits is asked for again

logger = logging.getLogger(__name__)


class _CannotBeHad(Exception):
    """Raised for a robots.txt that is unreachable; the message says why."""


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's middleware, with every request of a host waiting for its robots.txt, and with RFC 9309's meaning of
    answers that are no robots.txt.

    In Scrapy 2.19 all but the first two waiters of a host get None for the parser and pass: they share a Deferred,
    whose result the first callback takes away. Here they share a task.
    """

    def __init__(self, crawler: Crawler, known: RobotsCache[RobotParser]) -> None:
        super().__init__(crawler)
        self.stats = stats_of(crawler)
        self._parser_class = load_object(crawler.settings["ROBOTSTXT_PARSER"])
        self._known = known
        self._fetches: dict[str, asyncio.Task[RobotParser]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, crawl_of(crawler).robots)

    async def robot_parser(self, request: Request) -> RobotParser:
        """Raises HostPaused for a page that has to wait, RequestRefused for one that waits in vain."""
        url = urlparse_cached(request)
        origin = f"{url.scheme}://{url.netloc}"
        known = self._known.get(origin)
        if known is None:
            if origin not in self._fetches:
                fetch = self._fetches[origin] = asyncio.ensure_future(self._fetch(request, origin))
                fetch.add_done_callback(partial(self._forget, origin))
            known = await self._wait(self._fetches[origin], origin)
        elif isinstance(known, UnreachableRobots) and not known.is_final:
            await asyncio.sleep(_PATIENCE_SECONDS)  # its scheduler does not know which hosts rest
        if not isinstance(known, UnreachableRobots):
            return known
        if known.is_final:
            message = f"{origin}/robots.txt cannot be fetched, which forbids everything: {known.reason}"
            raise RequestRefused(RefusalKind.ROBOTS_UNREACHABLE, message)
        raise HostPaused(f"{origin} waits for its robots.txt: {known.reason}")

    def process_request_2(self, rp: RobotParser | None, request: Request) -> None:
        try:
            super().process_request_2(rp, request)
        except IgnoreRequest:
            lease = context_of(request).lease
            cure = _CURE if lease is not None and lease.task.depth == 0 else ""
            raise RequestRefused(RefusalKind.ROBOTS, f"robots.txt forbids it{cure}") from None

    # -- waiting ------------------------------------------------------------------------------------------------------

    async def _wait(self, fetch: asyncio.Task[RobotParser], origin: str) -> RobotParser:
        """Return what a fetch finds. It holds its host and not the crawl: where places get scarce, pages go back."""
        downloader = downloader_of(self.crawler)
        while not (await asyncio.wait((fetch,), timeout=_PATIENCE_SECONDS))[0]:
            if downloader.is_crowded() and not self._has_twin(origin):
                downloader.hold(_host_of(origin))
                raise HostPaused(f"{origin} is slow to send its robots.txt")
        return fetch.result()

    def _forget(self, origin: str, fetch: asyncio.Task[RobotParser]) -> None:
        del self._fetches[origin]
        if not fetch.cancelled():
            fetch.exception()  # which asyncio would log where all who waited are gone
        downloader_of(self.crawler).let_go(_host_of(origin))

    def _has_twin(self, origin: str) -> bool:
        """Return whether the host is known by its other scheme: it works, and nothing of it waits for this one."""
        scheme, _, host = origin.partition("://")
        twin = self._known.last(f"{'http' if scheme == 'https' else 'https'}://{host}")
        return twin is not None and not isinstance(twin, UnreachableRobots)

    # -- asking -------------------------------------------------------------------------------------------------------

    async def _fetch(self, request: Request, origin: str) -> RobotParser:
        """Return what a host's robots.txt says. Raises what its pages would meet where the host is not there."""
        self.stats.inc_value("robotstxt/request_count")
        try:
            parser = await self._parse(await self._body(f"{origin}/robots.txt"))
        except HostPaused:
            raise  # the pages go back; the next one that comes asks again
        except _CannotBeHad as error:
            return self._without_file(origin, str(error))
        except Exception as error:  # whatever a download may raise
            self.stats.inc_value(f"robotstxt/exception_count/{type(error)}")
            kind, message = failure_kind(error)
            if kind in _OF_THE_HOST:
                raise
            if kind != "too_large":
                return self._without_file(origin, f"{kind} ({message.rstrip('.')})")
            logger.warning("%s/robots.txt is too large, so everything is forbidden: %s", origin, error)
            parser = await self._parse(FORBIDS_ALL)
        await self.crawler.signals.send_catch_log_async(
            signal=signals.robots_parsed, robotparser=parser, request=request
        )
        self._known.keep(origin, parser, getattr(parser, "size_bytes", MAX_BYTES))
        return parser

    async def _body(self, url: str) -> bytes:
        """Return the file, wherever redirects lead to; nothing where there is none. Raises _CannotBeHad."""
        response = await self._download(url, [])
        visited = [url]
        while (target := _redirect_target(response)) is not None and len(visited) <= MAX_REDIRECTS:
            try:
                response = await self._download(target, visited)
            except Exception as error:  # of another file, perhaps of another host
                reason = "it has no time" if isinstance(error, HostPaused) else "{} ({})".format(*failure_kind(error))
                raise _CannotBeHad(f"it leads to {target[:200]}: {reason}") from error
            visited.append(target)
        is_there = has_robots(response.status)
        if is_there is None:
            raise _CannotBeHad(response_status_message(response.status))
        if not is_there:
            return b""
        if "dataloss" in response.flags:  # DOWNLOAD_FAIL_ON_DATALOSS=False
            raise _CannotBeHad("it ended before its declared length")
        if response.headers.get("Content-Encoding") and is_binary(response.body):
            raise _CannotBeHad("its compression is unknown")
        return response.body

    async def _download(self, url: str, visited: list[str]) -> Response:
        meta = {**_META, "redirect_urls": list(visited)}  # by which a redirect to a private host is refused
        request = Request(url, priority=self.DOWNLOAD_PRIORITY, meta=meta, callback=NO_CALLBACK, dont_filter=True)
        response = await engine_of(self.crawler).download_async(request)
        self.stats.inc_value("robotstxt/response_count")
        self.stats.inc_value(f"robotstxt/response_status_count/{response.status}")
        return response

    async def _parse(self, body: bytes) -> RobotParser:
        parse = partial(build_from_crawler, self._parser_class, self.crawler, body)
        parser: RobotParser = parse() if len(body) <= _INLINE_BYTES else await asyncio.to_thread(parse)
        return parser

    def _without_file(self, origin: str, reason: str) -> RobotParser:
        """Return the last good copy while that may be used, else what forbids everything until the file is there."""
        last = self._known.last(origin)
        if last is not None and not isinstance(last, UnreachableRobots) and self._known.renew(origin):
            logger.info("%s/robots.txt cannot be fetched again, so its last copy stays valid: %s", origin, reason)
            return last
        if last is None or not isinstance(last, UnreachableRobots):
            logger.warning(
                "%s/robots.txt cannot be fetched, so nothing else is fetched from this host until it can: %s",
                origin,
                reason,
            )
        unreachable = UnreachableRobots(reason, is_final=self._has_twin(origin))
        now = monotonic()
        if unreachable.is_final:
            until = now + _FINAL_SECONDS
        else:
            self.crawler.signals.send_catch_log(robots_unreachable, key=_host_of(origin), reason=reason)
            until = max(downloader_of(self.crawler).rests.get(_host_of(origin), 0.0), now + _PATIENCE_SECONDS)
        self._known.keep(origin, unreachable, unreachable.size_bytes, until)
        return unreachable


def _host_of(origin: str) -> str:
    """Return the key of the downloader's slot for an origin."""
    return origin.partition("://")[2]


def _redirect_target(response: Response) -> str | None:
    """Return where a redirect leads to; None for what is none, or leads to no web page."""
    location = response.headers.get("Location")
    if response.status not in (301, 302, 303, 307, 308) or location is None:
        return None
    try:
        return with_plain_origin(urljoin(response.url, location.decode("utf-8", "replace").strip()))
    except ValueError:
        return None
