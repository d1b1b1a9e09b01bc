"""Asks hosts for the files in which they say something of rights, and refuses pages that they forbid."""

from __future__ import annotations

from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.robotstxt import RobotParser

from llmcrawler.core.politeness.rights import OFF, RESPECT, SiteRights
from llmcrawler.crawl.context import crawl_of
from llmcrawler.engine.refusals import RefusalKind, RequestRefused
from llmcrawler.engine.request_context import context_of
from llmcrawler.engine.rights_files import RightsFiles


class RightsMiddleware:
    """Begins to ask with the first page of a host. With RIGHTS_POLICY=respect pages wait for the answers, as they do
    for robots.txt; else only their lines do.
    """

    def __init__(self, rights: SiteRights, files: RightsFiles, *, follows_links: bool) -> None:
        self._rights = rights
        self._files = files
        self._follows_links = follows_links

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl = crawl_of(crawler)
        if crawl.rights.policy.mode == OFF:
            raise NotConfigured
        follows_links = not crawl.options.is_list and crawl.options.depth != 0
        middleware = cls(crawl.rights, RightsFiles(crawler), follows_links=follows_links)
        crawler.signals.connect(middleware.robots_parsed, signals.robots_parsed)
        return middleware

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        robots = getattr(robotparser, "robots", None)  # a parser of the user's own may have none
        self._rights.note_robots(request.url, getattr(robots, "statements", ()))

    async def process_request(self, request: Request) -> None:
        lease = context_of(request).lease
        if lease is None:
            return
        self._rights.ask(request.url, self._files)
        if self._rights.policy.mode != RESPECT:
            return
        await self._rights.answers(request.url)
        reason = self._rights.refusal_of(request.url)
        # A start page may lead to pages that are allowed. Its own text is not taken then.
        is_way_in = self._follows_links and lease.task.depth == 0 and self._rights.differs_by_path(request.url)
        if reason is not None and not is_way_in:
            target = request.url if request.meta.get("redirect_urls") else None
            raise RequestRefused(RefusalKind.RIGHTS, reason, target)
