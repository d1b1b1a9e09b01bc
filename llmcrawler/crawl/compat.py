"""Public names for the private parts of Scrapy's engine, scraper and commands that this project uses, and for those
that a crawler has only while it crawls.

Subclasses of Scrapy's components override some of its private methods where they stand. All private names are held
against the installed version in tests/adapters/engine/test_private_names.py, so an upgrade fails there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from scrapy import Request, signals
from scrapy.commands import BaseRunSpiderCommand
from scrapy.crawler import Crawler
from scrapy.http import Response

if TYPE_CHECKING:
    from scrapy.core.engine import ExecutionEngine
    from scrapy.crawler import CrawlerProcessBase
    from scrapy.statscollectors import StatsCollector
    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

# Keys of a request's meta that HttpProxyMiddleware sets for a proxy from the environment.
ENVIRONMENT_PROXY_SCHEME: Final = "_scheme_proxy"
ENVIRONMENT_PROXY_KEYS: Final = (ENVIRONMENT_PROXY_SCHEME, "_auth_proxy")
PARSE_DEPTH: Final = "_depth"  # of `scrapy parse`: how many rounds of callbacks a request has been through

_OPENING_LOOK_SECONDS = 0.05
_tasks: set[asyncio.Future[None]] = set()  # a task that nobody holds may be collected before it ends


def stats_of(crawler: Crawler) -> StatsCollector:
    """Return the stats, which are there from before any component is made."""
    assert crawler.stats is not None
    return crawler.stats


def engine_of(crawler: Crawler) -> ExecutionEngine:
    """Return the engine, which is there from before the spider is opened."""
    assert crawler.engine is not None
    return crawler.engine


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider is being closed, is closed, or was never opened."""
    engine = crawler.engine
    return engine is None or engine._slot is None or engine._slot.closing is not None


def wake_engine(crawler: Crawler) -> None:
    """Let the engine ask the scheduler for requests now and not at its next heartbeat, which comes every 5 s."""
    engine = crawler.engine
    if engine is not None and engine._slot is not None:
        engine._slot.nextcall.schedule()


def close_spider_soon(crawler: Crawler, reason: str) -> None:
    """Begin to close the spider with this finish reason; nothing happens when it is closing already. One that is being
    opened is closed as soon as it is open: what was not opened cannot be closed.
    """
    engine = crawler.engine
    if engine is None or is_closing(crawler):
        return
    if engine.scraper.slot is None:

        def close_opened() -> None:  # signals take no partial
            close_spider_soon(crawler, reason)

        crawler.signals.connect(close_opened, signals.engine_started, weak=False)
    else:
        _keep(asyncio.ensure_future(engine.close_spider_async(reason=reason)))


def _keep(task: asyncio.Future[None]) -> None:
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def process_item(crawler: Crawler, item: Any) -> None:
    """Send an item through the pipelines that no response brought. From now on the spider is neither idle nor closed
    until it is through.
    """
    scraper = engine_of(crawler).scraper
    slot = scraper.slot
    assert slot is not None
    slot.itemproc_size += 1

    async def process() -> None:
        try:
            await scraper.start_itemproc_async(item, response=None)
        finally:
            slot.itemproc_size -= 1
            settle_scraper(crawler)

    _keep(asyncio.ensure_future(process()))


def on_stop(crawler: Crawler, asked: Callable[[], None]) -> None:
    """Call `asked` when Scrapy is asked to stop a crawl that runs, by a signal say, before it begins to. A crawl that
    is still being opened is stopped once it runs: Scrapy itself would forget that it was asked.
    """
    stop = crawler.stop_async

    async def stop_observed() -> None:
        engine = crawler.engine if crawler.crawling else None
        # No event tells of the end of what cannot be opened.
        while engine is not None and crawler.crawling and engine._slot is not None and not engine.running:  # noqa: ASYNC110
            await asyncio.sleep(_OPENING_LOOK_SECONDS)
        try:  # the slot is None after the crawl's own end, for which Scrapy calls this too
            if engine is not None and engine.running and engine._slot is not None:
                asked()
        finally:
            await stop()

    crawler.stop_async = stop_observed  # type: ignore[method-assign]  # no signal tells of this


def ignore_echo(process: CrawlerProcessBase, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Take a second signal within `seconds` of the first for the same one: `timeout` and others send each to the
    process and to its group, and Scrapy ends at the second one without writing what it has.
    """
    shut_down, kill = process._signal_shutdown, process._signal_kill
    first_at = 0.0

    def first(number: int, frame: Any) -> None:
        nonlocal first_at
        first_at = clock()
        shut_down(number, frame)

    def second(number: int, frame: Any) -> None:
        if clock() - first_at > seconds:
            kill(number, frame)

    process._signal_shutdown = first  # type: ignore[method-assign, assignment]
    process._signal_kill = second  # type: ignore[method-assign, assignment]


def observe_scraping(
    crawler: Crawler, begin: Callable[[Response | Failure, Request], Callable[[], None] | None]
) -> None:
    """Call `begin` before the response or failure of a request goes to the spider. What `begin` returns is called when
    the callback or errback is through, and all items and requests that came of it are. Context variables that it sets
    hold for all of that.
    """
    scraper = engine_of(crawler).scraper
    enqueue = scraper.enqueue_scrape

    def enqueue_observed(result: Response | Failure, request: Request) -> Deferred[Any]:
        context = copy_context()
        end = context.run(begin, result, request)
        done = context.run(enqueue, result, request)
        if end is None:
            return done

        def passed_on(outcome: Any) -> Any:
            end()
            return outcome

        return done.addBoth(passed_on)

    scraper.enqueue_scrape = enqueue_observed  # type: ignore[method-assign]  # no signal tells of this


def end_with_failure(crawler: Crawler) -> None:
    """Have Scrapy's commands exit with status 1 when this crawl is over. They do for a crawler that has no spider."""

    def forget_spider() -> None:
        crawler.spider = None

    crawler.signals.connect(forget_spider, signals.engine_stopped, weak=False)


def settle_scraper(crawler: Crawler) -> None:
    """Let a scraper that is being closed look whether it is idle: it looks by itself only after a response."""
    scraper = engine_of(crawler).scraper
    if scraper.slot is not None and scraper.slot.closing is not None and not scraper.slot.closing.called:
        scraper._check_if_closing()


def create_crawler(command: BaseRunSpiderCommand, name: str) -> Crawler:
    return command._create_crawler(name)
