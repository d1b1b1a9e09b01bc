"""Base class of the spiders: takes urls from the frontier, gives a line for each, and asks for the lists of a site."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.robotstxt import RobotParser
from scrapy.settings import BaseSettings
from scrapy.utils.python import global_object_name
from scrapy.utils.url import url_is_from_any_domain
from twisted.python.failure import Failure

from llmcrawler.core.frontier.protocol import Lease, UrlTask
from llmcrawler.core.urls import Sitemap, normalise, origin_of, parse_llms_txt, parse_packed_sitemap, parse_sitemap
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.compat import engine_of, stats_of
from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.crawl.task_lists import ListedTask
from llmcrawler.engine.failures import error_page, failure_kind
from llmcrawler.engine.request_context import CONTEXT, RequestContext, lease_of
from llmcrawler.engine.scheduler import FrontierScheduler, running_scheduler
from llmcrawler.errors import ContentError
from llmcrawler.items import FeedItem, Page

logger = logging.getLogger(__name__)

SITEMAP, FEED, LLMS_TXT = "sitemap", "feed", "llms.txt"
_MAX_BYTES = 50 * 2**20  # sitemaps.org
# A list is large, and may hang.
_META = {"max_retry_times": 1, "autothrottle_dont_adjust_delay": True, "download_maxsize": _MAX_BYTES}
# A larger one is read in another process.
_SMALL_BYTES = 64 * 2**10
_PARSE_SECONDS, _PARSE_SECONDS_PER_BYTE = 3.0, 1e-6
_MAX_NAMED = 2000  # of the addresses that one list names are looked at
_NAMED_AT_ONCE = 100  # in some milliseconds
_MAX_SHOWN = 200
_MAX_TOLD = 5  # private addresses among the lists, in the log


@dataclass(frozen=True, slots=True)
class ListLimits:
    """Limits for the lists of a site: `files` of all kinds, `feeds` among them; indexes lead `levels` down."""

    files: int = 50
    feeds: int = 10
    levels: int = 3


class SiteLists:
    """Asks for the lists of a spider's site, and gives the spider what they say.

    Each file is asked for once, retried once, and leaves a line in the log. Those beyond the limits are counted where
    they are named, and neither remembered nor logged one by one. Large lists are read in another process.
    """

    def __init__(self, spider: FrontierSpider) -> None:
        self._spider = spider
        self._limits = spider.LIST_LIMITS
        self._seen: set[str] = set()
        self._feeds = 0
        self._has_told_of_limit = False
        self._refusals = 0
        self.pending = 0

    def ask(self, base: str, url: str, *, kind: str = SITEMAP, level: int = 0, is_guess: bool = False) -> None:
        """Ask for a list, if there is room for it. `is_guess`: nothing says that there is such a file."""
        if len(self._seen) >= self._limits.files:
            if not self._has_told_of_limit:
                self._has_told_of_limit = True
                logger.warning("At most %d lists are read", self._limits.files)
            return
        if (kind == FEED and self._feeds >= self._limits.feeds) or not self._spider.wants_lists():
            return
        target = normalise(url, base)
        if target is None or target in self._seen:
            return
        refusal = self._spider.crawl.hosts.addresses.reason_to_refuse(target, base)
        if refusal is not None:  # it is not remembered: the host's own pages may still ask for it
            if self._refusals < _MAX_TOLD:
                logger.warning("List %s is not read: %s", target[:_MAX_SHOWN], refusal[:_MAX_SHOWN])
            self._refusals += 1
            return
        self._feeds += kind == FEED
        self._seen.add(target)
        self.pending += 1
        request = Request(
            target,
            callback=self._parse,
            errback=self._failed,
            cb_kwargs={"kind": kind, "level": level, "is_guess": is_guess},
            meta={**_META, CONTEXT: RequestContext(found_at=base)},
            dont_filter=True,
        )
        engine_of(self._spider.crawler).crawl(request)

    async def ask_named(self, robotparser: RobotParser, base: str) -> None:
        """Ask for the lists that the robots.txt at `base` names."""
        passed_over = await self._ask_all(base, getattr(robotparser, "sitemaps", ()), 0)
        if passed_over:
            logger.warning("robots.txt of %s: %s", origin_of(base), passed_over)

    async def _ask_all(self, base: str, urls: Sequence[str], level: int) -> str:
        """Return in words how many of the lists are passed over, "" when none is."""
        if not urls or not self._spider.wants_lists():
            return ""
        if level > self._limits.levels:
            return f"{len(urls):,} lists are nested too deeply and not read, such as {urls[0][:_MAX_SHOWN]}"
        looked_at = 0
        while looked_at < min(len(urls), _MAX_NAMED) and len(self._seen) < self._limits.files:
            self.ask(base, urls[looked_at], level=level)
            looked_at += 1
            if looked_at % _NAMED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if looked_at == len(urls):
            return ""
        example = urls[looked_at][:_MAX_SHOWN]
        return f"{len(urls) - looked_at:,} lists over {self._limits.files} are not read, such as {example}"

    async def _parse(self, response: Response, kind: str, level: int, is_guess: bool) -> None:
        try:
            if response.status == 200:
                await self._read(response, kind, level, is_guess)
            else:
                logger.log(_level(is_guess), "List %s: there is none (%d)", response.url, response.status)
        finally:
            self.pending -= 1

    async def _read(self, response: Response, kind: str, level: int, is_guess: bool) -> None:
        parse = parse_llms_txt if kind == LLMS_TXT else parse_sitemap
        found = await self._parsed(parse, response)
        if found.is_feed:
            kind = FEED
        words = [await self._spider.take_list(found, kind, response.url) if found.urls else "no urls"]
        if found.sitemaps:
            words[0] += f", {len(found.sitemaps):,} more lists"
        passed_over = await self._ask_all(response.url, found.sitemaps, level + 1)
        words += filter(None, (passed_over, found.fault))
        is_expected = is_guess or not (found.fault or passed_over)
        logger.log(_level(is_expected), "List %s (%s): %s", response.url, kind, "; ".join(words))

    async def _parsed(self, parse: Callable[[bytes], Sitemap], response: Response) -> Sitemap:
        body = response.body
        if len(body) <= _SMALL_BYTES:
            return await asyncio.to_thread(parse, body)
        if parse is parse_sitemap:
            parse = parse_packed_sitemap
        seconds = _PARSE_SECONDS + len(body) * _PARSE_SECONDS_PER_BYTE
        try:
            processes = self._spider.crawl.understanding.reader.pages.processes
            return await processes.run(parse, body, seconds=seconds, share=origin_of(response.url))
        except ContentError as error:
            return Sitemap(fault=str(error))

    def _failed(self, failure: Failure) -> None:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy's scraper
        self.pending -= 1
        is_guess = bool(request.cb_kwargs.get("is_guess"))
        kind, message = failure_kind(failure.value)
        if kind == "too_large":
            message = f"it is larger than {_MAX_BYTES // 2**20} MB, and not read"
        logger.log(_level(is_guess), "List %s: %s", request.url, message)


def _level(is_expected: bool) -> int:
    return logging.INFO if is_expected else logging.WARNING


# Not an ABC: Scrapy's feeds read every attribute of a spider, and not all of those that an ABC has can be read.
class FrontierSpider(Spider):
    """Queues urls; the scheduler has it make the request of each that is leased. It has no name, so Scrapy does not
    list it.
    """

    Options: ClassVar[type[ExploreOptions]] = ExploreOptions
    LIST_LIMITS: ClassVar[ListLimits] = ListLimits()
    SCHEDULER_CLASS: ClassVar[type[FrontierScheduler]] = FrontierScheduler  # what SCHEDULER must be, or a subclass

    options: ExploreOptions

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Allow the arguments that a spider of somebody else's declares: parameters of __init__, attributes."""
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("llmcrawler."):
            parameters = inspect.signature(cls.__init__).parameters
            own = {*(cls.Options.own or ()), *parameters, *vars(cls), *inspect.get_annotations(cls)}
            cls.Options = type("Options", (cls.Options,), {"own": frozenset(own), "__module__": cls.__module__})

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        if not settings.getpriority("SCHEDULER"):  # it is Scrapy's own, which other spiders keep
            settings.set("SCHEDULER", global_object_name(cls.SCHEDULER_CLASS), priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.options = cls.Options.of(kwargs | arguments_of(spider, cls.Options))
        crawler.signals.connect(spider.robots_parsed, signals.robots_parsed)
        return spider

    @classmethod
    def changes_arguments(cls) -> bool:
        """Return whether a subclass has code that may change the arguments."""
        owners = (next(one for one in cls.__mro__ if name in vars(one)) for name in ("__init__", "from_crawler"))
        return not all(owner.__module__.startswith(("llmcrawler.", "scrapy.")) for owner in owners)

    @classmethod
    def given_options(cls, arguments: Mapping[str, Any]) -> ExploreOptions:
        """Read the arguments before there is a spider."""
        return cls.Options.of({**arguments_of(cls, cls.Options), **arguments})

    @property
    def crawl(self) -> CrawlContext:
        return crawl_of(self.crawler)

    @cached_property
    def _lists(self) -> SiteLists:
        return SiteLists(self)

    async def start(self) -> AsyncIterator[Any]:
        if self.options.list_fault:
            logger.warning("%s", self.options.list_fault)
        for url in self.options.given.get("url", "").split(","):
            _, _, host = urlsplit(url if "//" in url else f"//{url}").netloc.rpartition("@")
            if f"@{host}" in url:
                cure = "set HTTPAUTH_USER, HTTPAUTH_PASS and HTTPAUTH_DOMAIN"
                logger.warning("The user and password in the start URL are not used: %s=%s", cure, host)
        domain = self.settings.get("HTTPAUTH_DOMAIN")
        if domain and not any(url_is_from_any_domain(url, [domain]) for url in self.options.urls):
            told = "HTTPAUTH_DOMAIN=%s is the host of no start URL, so nobody gets the password; a port belongs to it"
            logger.warning(told, domain)
        for_cookies = map(self.crawl.credentials.cookies_for, self.options.urls)
        if "cookies" in self.options.given and not any(for_cookies):
            logger.warning("cookies=%s has none for a start URL", self.options.given["cookies"])
        await self._queue_given()
        requests: tuple[Request, ...] = ()
        for request in requests:  # Scrapy wants a generator; the requests come from the frontier
            yield request

    def request_of(self, lease: Lease) -> Request:
        return Request(
            lease.url,
            callback=self.parse,
            errback=self.failed,
            headers={"Referer": lease.task.referer} if lease.task.referer else None,
            dont_filter=True,
            meta=self._meta_of(lease),
        )

    @abstractmethod
    def parse(self, response: Response) -> AsyncIterator[Any]:
        """Yield the line of a leased url, or one more request for it."""

    def failed(self, failure: Failure) -> Any:
        request: Request = failure.request  # type: ignore[attr-defined]  # set by Scrapy's scraper
        lease = lease_of(request)
        kind, message = failure_kind(failure.value)
        if kind == "internal":
            logger.error("Error on %s", request.url, exc_info=failure.value)
            stats_of(self.crawler).inc_value("llmcrawler/internal_errors")
        yield self._line_of_failure(error_page(lease, kind, message, request=request), lease, failure)

    @abstractmethod
    async def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        """Ask for the lists that a robots.txt names."""

    @abstractmethod
    async def _queue_given(self) -> None:
        """Queue the urls that the crawl begins with."""

    @abstractmethod
    def _meta_of(self, lease: Lease) -> dict[str, Any]:
        """Return the meta of the request that is made for a lease."""

    @abstractmethod
    def _line_of_failure(self, page: Page, lease: Lease, failure: Failure) -> FeedItem:
        """Return the line of a url that could not be fetched; `page` has the error."""

    @abstractmethod
    async def take_list(self, found: Sitemap, kind: str, address: str) -> str:
        """Queue the urls that a list names; return what became of them, in words."""

    @abstractmethod
    def wants_lists(self) -> bool:
        """Return whether there is room for what a list names."""

    def _scheduler(self) -> FrontierScheduler:
        return running_scheduler(self.crawler, FrontierScheduler)


def faulty_task(listed: ListedTask) -> UrlTask:
    return UrlTask.of_fault(listed.url, listed.fault, listed.key)


def arguments_of(spider: FrontierSpider | type[FrontierSpider], options: type[ExploreOptions]) -> dict[str, Any]:
    """Return the arguments that a spider, or a class of spiders, has as attributes: a subclass may fix some."""
    values = {name: getattr(spider, name, None) for name in options.arguments()}
    return {name: value for name, value in values.items() if value is not None and not callable(value)}
