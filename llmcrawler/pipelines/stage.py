"""Times, bounds and records each run of a stage on a page; one that was successful is not repeated."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.storage import Ledger
from llmcrawler.core.storage.feeds import clean_text
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.engine_state import CrawlStop
from llmcrawler.errors import STOPPED, StorageFailed, WorkGivenBack
from llmcrawler.items import Page, PageError, StageRun

SUCCESS, FAILED, SKIPPED = "success", "failed", "skipped"

_TURN_SECONDS = 0.005

logger = logging.getLogger(__name__)


def _storage_is_there() -> None:
    """Do nothing: a crawl of one process is closed when its storage fails."""


@dataclass(frozen=True, slots=True)
class StageRules:
    """Rules for all stages. `timeout_seconds` are those of one page in one stage, 0 for no limit. `ledger` of a job
    keeps what a page has cost so far. `check_storage` raises StorageFailed where a page could not be acknowledged any
    more. `stop` says how far the crawl's stopping is.
    """

    stats: StatsCollector
    timeout_seconds: float = 0.0
    ledger: Ledger | None = None
    check_storage: Callable[[], None] = _storage_is_there
    stop: CrawlStop = field(default_factory=CrawlStop)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert crawler.stats is not None
        crawl = crawl_of(crawler)
        backend = crawl.backend
        return cls(
            crawler.stats,
            crawler.settings.getfloat("STAGE_TIMEOUT_SECONDS"),
            None if backend.job is None else backend.job.ledger,
            _storage_is_there if backend.session is None else backend.session.check,
            crawl.stop,
        )


@dataclass(eq=False)
class Stage(ABC):
    """Item pipeline for one stage of the work on pages. Other items, and pages without content, pass."""

    rules: StageRules

    name: ClassVar[str]
    # A stage that took longer is worth keeping before the page is through; a quicker one is as quickly done again.
    costly_seconds: ClassVar[float] = 0.05

    @abstractmethod
    async def run(self, page: Page) -> PageError | None:
        """Put what is found into the page, and return what went wrong. An exception is an error of the page too."""

    def applies(self, page: Page) -> bool:  # noqa: ARG002 (for subclasses)
        """Return whether there is something to do; if not, the stage counts as skipped."""
        return True

    async def restore(self, page: Page) -> None:  # noqa: B027 (most have nothing to do)
        """Restore what later stages need of a page on which `run` was successful in an earlier run of the crawl."""

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.content is not None:
            earlier = item.stages.get(self.name)
            if earlier is not None and earlier.status == SUCCESS and not item.is_withheld:
                self._count(SKIPPED)
                await self.restore(item)
            else:
                await self._record(item, 1 if earlier is None else earlier.attempts + 1)
        if isinstance(item, Page):
            self._give_back_if_stopped(item)
        return item

    def _give_back_if_stopped(self, page: Page) -> None:
        if page.error is not None and page.error.kind == STOPPED and self.rules.stop.goes_on_later:
            raise DropItem("the crawl is being stopped; the page is for its next run") from WorkGivenBack()

    async def _record(self, page: Page, attempts: int) -> None:
        started, clock = time.time(), time.monotonic()
        applies = not page.is_withheld and self.applies(page)
        error = await self._try(page) if applies else None
        if error is not None:  # what is raised may quote anything, and is kept as UTF-8
            error = replace(error, message=clean_text(error.message))
        seconds = time.monotonic() - clock
        status = FAILED if error is not None else SUCCESS if applies else SKIPPED
        page.error = page.error or error
        message = None if error is None else f"{error.kind}: {error.message}"
        page.stages[self.name] = StageRun(status, message, attempts, started, round(seconds, 4))
        self._count(status)
        if seconds >= self.costly_seconds and status == SUCCESS and self.rules.ledger is not None:
            self.rules.ledger.keep_progress(page.id, page.as_line(), page.stages)

    async def _try(self, page: Page) -> PageError | None:
        timeout = asyncio.timeout(self.rules.timeout_seconds or None)
        try:
            async with timeout:
                started = time.monotonic()
                with self.rules.stop.cuts_off(timeout):
                    error = await self.run(page)
                if time.monotonic() - started > _TURN_SECONDS:
                    await asyncio.sleep(0)  # the next stage may take as long: all else goes on in between
            self.rules.check_storage()  # what was found out while its Redis went is not worth a line
            return error
        except WorkGivenBack as left:
            raise DropItem("this worker leaves, and another one goes on with the page") from left
        except StorageFailed as failure:
            raise DropItem("the crawl is being closed; the page is for its next run") from failure
        except (Exception, SystemExit) as error:  # what a user's stage calls may want to end the process
            if timeout.expired() and self.rules.stop.is_over:
                return PageError(self.name, STOPPED, "the crawl was stopped before this was done")
            if timeout.expired():
                message = f"it took longer than STAGE_TIMEOUT_SECONDS={self.rules.timeout_seconds:g}"
                return PageError(self.name, "timeout", message)
            logger.exception("Error in the stage %s on %s", self.name, page.url)
            self.rules.stats.inc_value("llmcrawler/internal_errors")
            return PageError(self.name, "internal", f"{type(error).__name__}: {error}"[:300])

    def _count(self, status: str) -> None:
        self.rules.stats.inc_value(f"llmcrawler/stages/{self.name}/{status}")
