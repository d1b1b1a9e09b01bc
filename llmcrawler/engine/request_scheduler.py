"""Keeps the requests and items of any spider in a JOBDIR, so that a crawl that is killed loses nothing.

A request is leased from the frontier in the job's file, and acknowledged there in one transaction with the items that
came of it, when those are through the pipelines and its own requests are in the file.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import pickle
from base64 import b85decode, b85encode
from bisect import insort_right
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Self

from itemadapter import ItemAdapter, is_item
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.extensions.feedexport import FeedExporter
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.request import request_from_dict
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from llmcrawler.core.frontier.protocol import Lease, UrlTask
from llmcrawler.core.storage import REQUEST_MARK, Outcome
from llmcrawler.core.storage.job_spec import JobRules, JobSpec
from llmcrawler.crawl.compat import (
    close_spider_soon,
    end_with_failure,
    engine_of,
    observe_scraping,
    stats_of,
    wake_engine,
)
from llmcrawler.crawl.configuration import JobSettings
from llmcrawler.crawl.context import find_crawl
from llmcrawler.engine.host_queues import DelayedRequests
from llmcrawler.engine.request_context import CONTEXT, context_of, update_context
from llmcrawler.errors import ConfigError, CrawlerError, StorageFailed, WorkGivenBack

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class RequestRun:
    """A request that was handed out, and what has come of it.

    `is_with_spider`: its callback or errback, or the pipelines for their items, are at work. `repeats` counts the
    requests with dont_filter that came of it, by fingerprint. `is_whole` is False when something that came of it could
    not be kept: then it has to be fetched again.
    """

    lease: Lease
    is_with_spider: bool = False
    is_whole: bool = True
    is_dead: bool = False
    status: int | None = None
    error: dict[str, Any] | None = None
    items: list[str] = field(default_factory=list)
    repeats: Counter[bytes] = field(default_factory=Counter)

    def fail(self, stage: str, error: BaseException | None, message: str = "") -> None:
        """Note the first thing that went wrong."""
        self.error = self.error or {
            "stage": stage,
            "kind": type(error).__name__ if error else "dropped",
            "message": message or str(error),
            "attempts": 1,
        }


_current: ContextVar[RequestRun | None] = ContextVar("llmcrawler_request_run", default=None)


class RequestScheduler(BaseScheduler):
    """Filters and orders requests as Scrapy's scheduler does: by fingerprint, and higher priorities first; within one
    priority, those that came first go out first.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._continued: deque[Request] = deque()  # retries and redirects
        self._delayed = DelayedRequests(crawler, self._continue)
        self._redirecting = 0  # those whose target is looked up
        self._new: list[UrlTask] = []
        self._adding: Counter[int] = Counter()  # priorities of what is on its way into the file
        self._buffer: list[Lease] = []  # best priority first
        self._runs: dict[str, RequestRun] = {}  # by the url of their leases, those that are not through
        self._repeats: dict[str, Counter[bytes]] = {}  # requests with dont_filter that no page made
        self._leasing = 0
        self._is_leaving = False
        self._tasks: set[asyncio.Task[None]] = set()
        for signal, handler in (
            (signals.engine_started, self._replay),
            (signals.spider_idle, self._end_orphans),
            (signals.item_scraped, self._item_scraped),
            (signals.item_dropped, self._item_dropped),
            (signals.item_error, self._item_failed),
            (signals.spider_error, self._spider_failed),
        ):
            crawler.signals.connect(handler, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    # -- Scrapy's interface -------------------------------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None] | None:
        self._spider = spider
        from llmcrawler.crawl.job import Job

        kept = JobSettings.of(self._crawler.settings)
        assert kept.jobdir is not None
        feeds = tuple(map(str, kept.feeds))
        spec = JobSpec(spider.name, _arguments_of(spider), any_arguments=kept.jobdir_force, feeds=feeds)
        self.job = Job(kept.jobdir, spec, JobRules(keep_bodies=False), on_failure=self._lose_storage)
        crawl = find_crawl(self._crawler)
        if crawl is not None:
            crawl.stop.goes_on_later = True
        observe_scraping(self._crawler, self._begin)
        return deferred_from_coro(self.job.open())

    def close(self, reason: str) -> Deferred[None] | None:
        return deferred_from_coro(self._close(reason)) if hasattr(self, "job") else None

    def enqueue_request(self, request: Request) -> bool:
        run = self._run_of(request)
        if run is not None and not run.is_with_spider:
            identity = self._fingerprint(request).hex()
            if request.dont_filter or run.lease.url.endswith(identity):
                self._continue(request)
            else:
                self._redirecting += 1
                self._spawn(self._redirect(request, run, _task_url(request, identity)))
            return True
        source = self._current_run()
        try:
            payload = pack_request(request, self._spider)
        except ConfigError as error:
            if source is not None:
                source.is_whole = False
            self._refuse(error)
            return False
        task = UrlTask(
            self._identify(request, source),
            engine_of(self._crawler).downloader.get_slot_key(request),
            depth=request.meta.get("depth", 0),
            referer=None if source is None else source.lease.task.address,
            priority=-request.priority,
            payload=payload,
        )
        self._new.append(task)
        self._adding[task.priority] += 1
        if len(self._new) == 1:
            self._spawn(self._add_new())
        return True

    def next_request(self) -> Request | None:
        if self._continued:
            return self._continued.popleft()
        lease = self._take()
        if not self._leasing and (lease is None or len(self._buffer) < self._low_water()):
            self._spawn(self._fill())
        if lease is None:
            return None
        self._runs[lease.url] = RequestRun(lease)
        try:
            request = unpack_request(lease.task.payload or "", self._spider)
        except ConfigError as error:
            self._refuse(error)
            return None
        update_context(request, lease=lease)
        self._count("scheduler/dequeued")
        return request

    def has_pending_requests(self) -> bool:
        here = self._continued or self._delayed or self._redirecting or self._adding or self._buffer or self._leasing
        return bool(here or self.job.frontier.counts().queued)

    # -- what comes in ------------------------------------------------------------------------------------------------

    def _fingerprint(self, request: Request) -> bytes:
        assert self._crawler.request_fingerprinter is not None
        return self._crawler.request_fingerprinter.fingerprint(request)

    def _identify(self, request: Request, source: RequestRun | None) -> str:
        """Return the url of the request's task in the frontier. `source` is the run that it came of.

        A request is known by its fingerprint; one with dont_filter by what made it, and how often that did so before.
        So each of the latter is a request of its own, and yet those that come of a page, or of the spider's start(),
        are known when that runs again after a kill.
        """
        fingerprint = self._fingerprint(request)
        if not request.dont_filter:
            return _task_url(request, fingerprint.hex())
        if source is not None:
            name, repeats = source.lease.url, source.repeats
        else:  # an extension's requests come when they come, and are never the same
            name = "start" if request.meta.get("is_start_request") else f"run {self.job.run_number}"
            repeats = self._repeats.setdefault(name, Counter())
        repeats[fingerprint] += 1
        text = f"{name} {fingerprint.hex()} {repeats[fingerprint]}"
        return _task_url(request, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest())

    async def _add_new(self) -> None:
        tasks, self._new = self._new, []
        if not tasks:
            return
        try:
            new = await self.job.frontier.add(tasks)
            self._count("scheduler/enqueued", new)
            self._count("dupefilter/filtered", len(tasks) - new)
            if new:
                # Not before these are here may worse ones go out.
                await self._fill(best_new=min(task.priority for task in tasks))
        finally:
            self._adding -= Counter(task.priority for task in tasks)
            wake_engine(self._crawler)

    async def _redirect(self, request: Request, run: RequestRun, target: str) -> None:
        """Go on to where a request was redirected, unless that was asked for before, as Scrapy does."""
        try:
            is_new = await self.job.frontier.reserve_target(target, run.lease.url)
        finally:
            self._redirecting -= 1
        if is_new:
            self._continue(request)
        else:
            self._count("dupefilter/filtered")
            self._end(run)
        wake_engine(self._crawler)

    def _continue(self, request: Request) -> None:
        if not self._delayed.hold(request):
            self._continued.append(request)

    # -- what goes out ------------------------------------------------------------------------------------------------

    def _take(self) -> Lease | None:
        """Take the best lease of a host that may have another request, unless a better one is on its way."""
        best, fetching = min(self._adding, default=None), self._fetching()
        for index, lease in enumerate(self._buffer):
            if best is not None and lease.task.priority > best:
                return None
            if fetching[lease.task.host] < self._concurrency(lease.task.host):
                return self._buffer.pop(index)
        return None

    async def _fill(self, best_new: int | None = None) -> None:
        limit = 2 * self._low_water() - len(self._buffer)
        if best_new is not None and self._buffer and best_new < self._buffer[-1].task.priority:
            limit = max(limit, self._low_water())
        if limit <= 0 or self._is_leaving or not self.job.frontier.counts().queued:
            return
        held = self._fetching() + Counter(lease.task.host for lease in self._buffer)
        self._leasing += 1
        try:
            leases = await self.job.frontier.lease(limit, held, 2 * self._concurrency() + 2)
            for lease in leases:
                insort_right(self._buffer, lease, key=lambda lease: lease.task.priority)
        finally:
            self._leasing -= 1
        if leases or not self.has_pending_requests():
            wake_engine(self._crawler)

    def _low_water(self) -> int:
        return max(8, self._concurrency())

    def _concurrency(self, host: str = "") -> int:
        """Return how many requests of a host may be under way."""
        downloader = engine_of(self._crawler).downloader
        slot = downloader.slots.get(host)
        here = downloader.domain_concurrency if slot is None else int(slot.concurrency)
        return here or downloader.total_concurrency

    def _fetching(self) -> Counter[str]:
        """Count by host the requests that have not come back."""
        return Counter(run.lease.task.host for run in self._runs.values() if not run.is_with_spider)

    # -- what comes of a request --------------------------------------------------------------------------------------

    def _run_of(self, request: Request) -> RequestRun | None:
        """Return the run that a request belongs to, or was copied from."""
        lease = context_of(request).lease
        return None if lease is None else self._runs.get(lease.url)

    def _current_run(self) -> RequestRun | None:
        """Return the run whose callback, errback or pipeline makes this call."""
        run = _current.get()
        # What a callback has set off may go on in its context long after it.
        return run if run is not None and self._runs.get(run.lease.url) is run and run.is_with_spider else None

    def _begin(self, result: Response | Failure, request: Request) -> Callable[[], None] | None:
        run = self._run_of(request)
        if run is None:
            return None
        run.is_with_spider = True
        _current.set(run)
        if isinstance(result, Response):
            run.status = result.status
        elif request.errback is None:
            run.fail("fetch", result.value)
            run.is_dead = not isinstance(result.value, IgnoreRequest)
        return partial(self._end, run)

    def _item_scraped(self, item: Any) -> None:
        run = self._current_run()
        if run is None:  # the spider's start() gave it, and will give it again
            return
        try:
            run.items.append(pack_item(item, ItemAdapter(item) if is_item(item) else {}, run.lease.task.address))
        except ConfigError as error:
            run.is_whole = False
            self._refuse(error)

    def _item_dropped(self, exception: BaseException) -> None:
        run = self._current_run()
        if run is not None and isinstance(exception.__cause__, WorkGivenBack):
            run.is_whole = False

    def _item_failed(self, failure: Failure) -> None:
        if (run := self._current_run()) is not None:
            run.fail("pipeline", failure.value)

    def _spider_failed(self, failure: Failure) -> None:
        if (run := self._current_run()) is not None:
            run.fail("spider", failure.value)

    def _end(self, run: RequestRun) -> None:
        """Acknowledge a run of which all that came is through."""
        if self._runs.pop(run.lease.url, None) is run:
            self._spawn(self._acknowledge(run))

    async def _acknowledge(self, run: RequestRun) -> None:
        await self._add_new()  # the file takes these, and what is on its way there, before it takes the end of the run
        if not run.is_whole:
            await self.job.frontier.release(run.lease.url)
            return
        line = {"kind": "items", "url": run.lease.task.address, "status": run.status, "error": run.error}
        outcome = Outcome({**line, "items": run.items}, {}, is_dead=run.is_dead)
        await self.job.frontier.ack(run.lease.url, outcome)

    def _end_orphans(self) -> None:
        """End the runs whose requests some component has dropped silently: nothing is under way now."""
        for run in list(self._runs.values()):
            run.fail("fetch", None, "the request was dropped on its way, by an offsite filter for example")
            self._end(run)

    async def _replay(self) -> None:
        """Give the feeds the items of earlier runs. They are open by now, and the first request waits for this."""
        if self.job.resumed.is_new:
            return
        logger.info("%s", self.job.resumed)
        exporter = self._crawler.get_extension(FeedExporter)
        try:
            async for _seq, line in self.job.earlier_lines():
                for text in line.get("items", ()):
                    item = unpack_item(text)
                    self._count("llmcrawler/replayed")
                    if exporter is not None:
                        exporter.item_scraped(item, self._spider)
        except CrawlerError as error:
            self._refuse(error)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _refuse(self, error: CrawlerError) -> None:
        """End the crawl for what it cannot keep; what it has kept stays."""
        if not self._is_leaving:
            self._is_leaving = True
            logger.error("%s", error)
            self._end_in_failure("not_kept")

    def _lose_storage(self, failure: StorageFailed) -> None:
        logger.error("%s. What was written before is kept: make room and run the same command again", failure)
        self._end_in_failure("storage_failed")

    def _end_in_failure(self, reason: str) -> None:
        end_with_failure(self._crawler)
        close_spider_soon(self._crawler, reason)

    async def _close(self, reason: str) -> None:
        self._is_leaving = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        try:
            for lease in (*self._buffer, *(run.lease for run in self._runs.values())):
                await self.job.frontier.release(lease.url)
            self._runs.clear()
            waiting = self.job.frontier.counts().queued
            await self.job.close(reason)
        except StorageFailed as failure:
            logger.error("%s", failure)
            return
        if reason != "finished":
            told = "The crawl is not finished (%s, %d requests queued): run the same command again to resume"
            logger.info(told, reason, waiting)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        async def unless_storage_failed() -> None:
            with suppress(StorageFailed):  # the crawl is being closed already, and the log says why
                await work

        task = asyncio.ensure_future(unless_storage_failed())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _count(self, name: str, count: int = 1) -> None:
        if count:
            stats_of(self._crawler).inc_value(name, count)


def _arguments_of(spider: Spider) -> dict[str, str]:
    """Return the arguments of a spider (-a NAME=VALUE), as far as it keeps them as attributes of the same names.

    A spider with a constructor of its own may have any other attributes, so only those that it has parameters for
    count.
    """
    given = {name: value for name, value in vars(spider).items() if isinstance(value, str) and name[0] != "_"}
    given.pop("name", None)
    makers = (type(spider).__init__, type(spider).from_crawler)
    own = [maker for maker in makers if not maker.__module__.startswith("scrapy.")]
    names = {name for maker in own for name in inspect.signature(maker).parameters}
    return {name: value for name, value in given.items() if name in names or not own}


def _task_url(request: Request, identity: str) -> str:
    return f"{request.url.partition('#')[0]}{REQUEST_MARK}{identity}"


# As in Scrapy's queues. What is read comes from the user's own JOBDIR.
_PROTOCOL = 4


def pack_request(request: Request, spider: Spider) -> str:
    """Return a request as the payload of a UrlTask. Raises ConfigError that names the field that cannot be kept."""
    try:
        values = request.to_dict(spider=spider)
    except ValueError:
        for name in ("callback", "errback"):
            method = getattr(request, name)
            if method is not None and getattr(method, "__self__", None) is not spider:
                what = f"{name} is {_shown(method)}, and no method of the spider"
                raise _refusal(repr(request), what, f"Write {name}=self.NAME_OF_A_METHOD") from None
        raise
    values["meta"] = {key: value for key, value in request.meta.items() if key != CONTEXT}
    return json.dumps({"request": _pack(values, repr(request), values)})


def unpack_request(payload: str, spider: Spider) -> Request:
    """Raises ConfigError where the spider has changed and can no longer take the request."""
    with _of_earlier_run("a request", "bring back what it names"):
        return request_from_dict(pickle.loads(b85decode(json.loads(payload)["request"])), spider=spider)  # noqa: S301


def pack_item(item: Any, fields: Mapping[str, Any], source: str) -> str:
    """Raises ConfigError that names the one of the item's `fields` that cannot be kept."""
    return _pack(item, f"an item of {source}", fields)


def unpack_item(text: str) -> Any:
    """Raises ConfigError where the item's class is gone."""
    with _of_earlier_run("an item", "restore its class"):
        return pickle.loads(b85decode(text))  # noqa: S301


@contextmanager
def _of_earlier_run(what: str, cure: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever classes of the user's raise
        told = f"JOBDIR: {what} of an earlier run cannot be read ({error}): {cure}, or name another JOBDIR"
        raise ConfigError(told) from error


def _pack(whole: Any, owner: str, fields: Mapping[str, Any]) -> str:
    try:
        return b85encode(pickle.dumps(whole, _PROTOCOL)).decode("ascii")
    except Exception as error:  # the values' own classes may raise anything
        name, value = _culprit(fields)
        what = f"{name or 'its class'} is {_shown(value if name else whole)}, which pickle refuses ({error})"
        cure = "Pass plain values, as text and numbers, or classes at the top of a module"
        raise _refusal(owner, what, cure) from error


def _culprit(fields: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the first field that cannot be pickled, and its value; within meta and the like the key too."""
    for name, value in fields.items():
        if not _can_be_pickled(value):
            inner, part = _culprit(value) if isinstance(value, dict) else ("", None)
            return (f"{name}[{inner!r}]", part) if inner else (name, value)
    return "", None


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value, _PROTOCOL)
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _refusal(owner: str, what: str, cure: str) -> ConfigError:
    return ConfigError(f"JOBDIR: {owner} cannot be kept for a later run: its {what}. {cure}, or crawl without JOBDIR")


def _shown(value: Callable[..., Any] | Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"the {type(value).__name__} {name}" if name else f"a {type(value).__name__}"
