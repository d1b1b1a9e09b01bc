"""Obeys what hosts and pages say of their rights: downloads the small files in which hosts say it, refuses requests,
and writes it into pages, whose content it takes out where that forbids the purpose.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser

from llmcrawler.core.politeness.rights import (
    HEADERS,
    MAX_FILE_BYTES,
    OFF,
    RESPECT,
    FileDownload,
    Signal,
    SiteRights,
    content_signals,
    header_signals,
    licence_files,
    noai_signals,
    refusal_of,
    rights_of,
    signals_of,
)
from llmcrawler.core.storage import Ledger
from llmcrawler.core.urls import origin_of
from llmcrawler.crawl.compat import engine_of, stats_of
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.downloader import HostPaused
from llmcrawler.engine.failures import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import CONTEXT, RequestContext, attempts_of, context_of, lease_of
from llmcrawler.items import Page, PageError

_META: Final = {
    "max_retry_times": 0,
    "redirect_ttl": 3,
    "download_timeout": 10.0,  # pages may wait for it
    "download_maxsize": MAX_FILE_BYTES,
    "autothrottle_dont_adjust_delay": True,
}
_PRIORITY: Final = 1000  # as that of a robots.txt: before pages


async def download_file(crawler: Crawler, url: str, base: str) -> bytes | None:
    """Return the body of a file, for which `base` asks. One that is not there, too large or cannot be had now says
    nothing. Raises HostPaused where the host is left alone for now.
    """
    meta = {**_META, CONTEXT: RequestContext(found_at=base)}
    stats_of(crawler).inc_value("llmcrawler/rights/files")
    try:
        request = Request(url, priority=_PRIORITY, meta=meta, callback=NO_CALLBACK)
        response = await engine_of(crawler).download_async(request)
    except HostPaused:
        raise
    except Exception:  # noqa: BLE001 (whatever a download may raise)
        return None
    return response.body if response.status == 200 else None


@dataclass(frozen=True, slots=True)
class PageRights:
    """Judges pages by what their hosts say and what they say themselves."""

    rights: SiteRights
    download: FileDownload
    ledger: Ledger | None = None

    async def settle(self, page: Page, response: Response) -> None:
        """Give a page its rights when all that its host says is known. One that forbids the purpose loses what was read
        of it, where the crawl respects that. Else a host is asked only when one of its pages leads to another: of many
        hosts no more than a page is wanted.
        """
        if self.rights.policy.mode == OFF:
            return
        purpose, root = self.rights.policy.refusing_purpose, f"{origin_of(response.url)}/"
        assert response.request is not None
        links = () if page.content is None or lease_of(response.request).is_stored else page.content.links
        with suppress(HostPaused):
            if purpose is not None or any(one.url.startswith(root) and one.url != response.url for one in links):
                self.rights.ask(response.url, self.download)
            await self.rights.answers(response.url)
        signals = await self._signals(page, response)
        self._write(page, signals)
        refusal = None if purpose is None else refusal_of(signals, purpose)
        if refusal is None:
            return
        page.withhold()
        page.content = page.html = None
        page.error = page.error or PageError("fetch", RefusalKind.RIGHTS, refusal, attempts_of(response.request))
        if self.ledger is not None:
            await self.ledger.forget_body(page.id)

    def note_failure(self, page: Page) -> None:
        """Give a page that could not be fetched what its host is known to say."""
        if self.rights.policy.mode != OFF:
            self._write(page, self.rights.signals_for(page.final_url or page.url))

    def _write(self, page: Page, signals: list[Signal]) -> None:
        page.rights = rights_of(signals, self.rights.policy.purpose)

    async def _signals(self, page: Page, response: Response) -> list[Signal]:
        said = self.rights.signals_for(response.url)
        if page.rights is not None:  # of an earlier run; what the host says may have changed since
            kept = (one for one in signals_of(page.rights) if not self.rights.is_file_of(response.url, one.where))
            return [*said, *kept]
        named = (name for name in HEADERS if name in response.headers)
        headers = {name: b", ".join(response.headers.getlist(name)).decode("latin-1") for name in named}
        said += header_signals(response.status, headers)
        if page.content is not None:
            said += content_signals(page.content)
        said += noai_signals(headers, page.content, page.robots)
        for url in licence_files(headers, page.content):
            with suppress(HostPaused):
                said += await self.rights.licence_signals(response.url, url, self.download)
        return said


@dataclass(eq=False)
class RightsMiddleware:
    """With RIGHTS_POLICY=respect asks with the first page of a host, and pages wait for the answers, as they do for
    robots.txt; else only their lines do.
    """

    rights: SiteRights
    download: FileDownload
    follows_links: bool

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.rights.policy.mode == OFF:
            raise NotConfigured
        follows_links = not crawl.options.is_list and crawl.options.depth != 0
        middleware = cls(crawl.rights, partial(download_file, crawler), follows_links=follows_links)
        crawler.signals.connect(middleware.robots_parsed, signals.robots_parsed)
        return middleware

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        robots = getattr(robotparser, "robots", None)  # a parser of the user's own may have none
        self.rights.note_robots(request.url, getattr(robots, "statements", ()))

    async def process_request(self, request: Request) -> None:
        lease = context_of(request).lease
        if lease is None or self.rights.policy.mode != RESPECT:
            return
        self.rights.ask(request.url, self.download)
        await self.rights.answers(request.url)
        reason = self.rights.refusal_of(request.url)
        # A start page may lead to pages that are allowed. Its own text is not taken then.
        is_way_in = self.follows_links and lease.task.depth == 0 and self.rights.differs_by_path(request.url)
        if reason is not None and not is_way_in:
            target = request.url if request.meta.get("redirect_urls") else None
            raise RequestRefused(RefusalKind.RIGHTS, reason, target)
