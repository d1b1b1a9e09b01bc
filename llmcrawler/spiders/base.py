"""Base class of the spiders: takes urls from the frontier, gives a line for each, and asks for the lists of a site."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.robotstxt import RobotParser
from twisted.python.failure import Failure

from llmcrawler.core.frontier import Lease, UrlTask
from llmcrawler.core.urls import Sitemap
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.context import CrawlContext, crawl_of
from llmcrawler.crawl.task_lists import ListedTask
from llmcrawler.engine.error_pages import error_page
from llmcrawler.engine.failures import failure_kind
from llmcrawler.engine.own_schedulers import running_scheduler
from llmcrawler.engine.request_context import lease_of
from llmcrawler.engine.scheduler import FrontierScheduler
from llmcrawler.items import FeedItem, Page
from llmcrawler.spiders.lists import ListLimits, SiteLists

logger = logging.getLogger(__name__)


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
        crawl, engine = self.crawl, self.crawler.engine
        assert engine is not None
        processes = crawl.understanding.reader.pages.processes
        return SiteLists(
            engine.crawl, crawl.hosts.addresses, processes, self._take_list, self._wants_lists, self.LIST_LIMITS
        )

    async def start(self) -> AsyncIterator[Any]:
        if self.options.list_fault:
            logger.warning("%s", self.options.list_fault)
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
            assert self.crawler.stats is not None
            self.crawler.stats.inc_value("llmcrawler/internal_errors")
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
    async def _take_list(self, found: Sitemap, kind: str, address: str) -> str:
        """Queue the urls that a list names; return what became of them, in words."""

    @abstractmethod
    def _wants_lists(self) -> bool:
        """Return whether there is room for what a list names."""

    def _scheduler(self) -> FrontierScheduler:
        return running_scheduler(self.crawler, FrontierScheduler)


def faulty_task(listed: ListedTask) -> UrlTask:
    """Return the task of an entry of a list that cannot be fetched."""
    return UrlTask.of_fault(listed.url, listed.fault, listed.key)


def arguments_of(spider: FrontierSpider | type[FrontierSpider], options: type[ExploreOptions]) -> dict[str, Any]:
    """Return the arguments that a spider, or a class of spiders, has as attributes: a subclass may fix some."""
    values = {name: getattr(spider, name, None) for name in options.arguments()}
    return {name: value for name, value in values.items() if value is not None and not callable(value)}
