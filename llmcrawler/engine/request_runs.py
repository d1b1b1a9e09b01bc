"""Collects what comes of each leased request of any spider, until all of it is through; tells which requests are the
same, in one run of a job and in all later ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any

from itemadapter import ItemAdapter, is_item
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.request import RequestFingerprinterProtocol
from twisted.python.failure import Failure

from llmcrawler.core.frontier import Lease
from llmcrawler.core.storage import REQUEST_MARK, Outcome
from llmcrawler.crawl.job import Job
from llmcrawler.engine.compat import observe_scraping
from llmcrawler.engine.kept_requests import pack_item, unpack_item
from llmcrawler.engine.request_context import context_of
from llmcrawler.errors import ConfigError, WorkGivenBack


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

    def outcome(self) -> Outcome:
        line = {"kind": "items", "url": self.lease.task.address, "status": self.status, "error": self.error}
        return Outcome({**line, "items": self.items}, {}, is_dead=self.is_dead)


_current: ContextVar[RequestRun | None] = ContextVar("llmcrawler_request_run", default=None)


class RequestRuns:
    """Calls `finish` when the callback or errback of a request is through, and all items and requests that came of it.
    `refuse` is called with the error of an item that cannot be kept.
    """

    def __init__(
        self, crawler: Crawler, finish: Callable[[RequestRun], None], refuse: Callable[[ConfigError], None]
    ) -> None:
        self._runs: dict[str, RequestRun] = {}
        self._finish = finish
        self._refuse = refuse
        crawler.signals.connect(self._item_scraped, signals.item_scraped)
        crawler.signals.connect(self._item_dropped, signals.item_dropped)
        crawler.signals.connect(self._item_failed, signals.item_error)
        crawler.signals.connect(self._spider_failed, signals.spider_error)
        observe_scraping(crawler, self._begin)

    def start(self, lease: Lease) -> None:
        self._runs[lease.url] = RequestRun(lease)

    def of(self, request: Request) -> RequestRun | None:
        """Return the run that a request belongs to, or was copied from."""
        lease = context_of(request).lease
        return None if lease is None else self._runs.get(lease.url)

    def current(self) -> RequestRun | None:
        """Return the run whose callback, errback or pipeline makes this call."""
        run = _current.get()
        # What a callback has set off may go on in its context long after it.
        return run if run is not None and self._runs.get(run.lease.url) is run and run.is_with_spider else None

    def end(self, run: RequestRun) -> None:
        """All that came of a run is through."""
        if self._runs.pop(run.lease.url, None) is run:
            self._finish(run)

    def fetching(self) -> Counter[str]:
        """Count by host the requests that have not come back."""
        return Counter(run.lease.task.host for run in self._runs.values() if not run.is_with_spider)

    def drain(self) -> list[RequestRun]:
        """Return the runs that are not through, and forget them."""
        runs = list(self._runs.values())
        self._runs.clear()
        return runs

    def _begin(self, result: Response | Failure, request: Request) -> Callable[[], None] | None:
        run = self.of(request)
        if run is None:
            return None
        run.is_with_spider = True
        _current.set(run)
        if isinstance(result, Response):
            run.status = result.status
        elif request.errback is None:
            run.fail("fetch", result.value)
            run.is_dead = not isinstance(result.value, IgnoreRequest)

        return partial(self.end, run)

    def _item_scraped(self, item: Any) -> None:
        run = self.current()
        if run is None:  # the spider's start() gave it, and will give it again
            return
        try:
            fields = ItemAdapter(item) if is_item(item) else {}
            run.items.append(pack_item(item, fields, run.lease.task.address))
        except ConfigError as error:
            run.is_whole = False
            self._refuse(error)

    def _item_dropped(self, exception: BaseException) -> None:
        run = self.current()
        if run is not None and isinstance(exception.__cause__, WorkGivenBack):
            run.is_whole = False

    def _item_failed(self, failure: Failure) -> None:
        self._fail("pipeline", failure)

    def _spider_failed(self, failure: Failure) -> None:
        self._fail("spider", failure)

    def _fail(self, stage: str, failure: Failure) -> None:
        run = self.current()
        if run is not None:
            run.fail(stage, failure.value)


async def earlier_items(job: Job) -> AsyncIterator[Any]:
    """Give the items of earlier runs. Raises ConfigError for one that cannot be read any more."""
    async for _seq, line in job.earlier_lines():
        for text in line.get("items", ()):
            yield unpack_item(text)


class RequestIdentities:
    """A request is known by its fingerprint; one with dont_filter by what made it, and how often that did so before.

    So each of the latter is a request of its own, and yet those that come of a page, or of the spider's start(), are
    known when that runs again after a kill.
    """

    def __init__(self, fingerprinter: RequestFingerprinterProtocol, run_number: int) -> None:
        self._fingerprinter = fingerprinter
        self._run_number = run_number
        self._repeats: dict[str, Counter[bytes]] = {}  # of what no page made

    def identify(self, request: Request, source: RequestRun | None) -> str:
        """Return the url of the request's task in the frontier. `source` is the run that it came of."""
        fingerprint = self._fingerprinter.fingerprint(request)
        if not request.dont_filter:
            return _task_url(request, fingerprint.hex())
        if source is not None:
            name, repeats = source.lease.url, source.repeats
        else:  # an extension's requests come when they come, and are never the same
            name = "start" if request.meta.get("is_start_request") else f"run {self._run_number}"
            repeats = self._repeats.setdefault(name, Counter())
        repeats[fingerprint] += 1
        text = f"{name} {fingerprint.hex()} {repeats[fingerprint]}"
        return _task_url(request, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest())

    def redirected(self, request: Request, run: RequestRun) -> str | None:
        """Return the task url of where a run's request goes on; None where that is no other page, or not filtered."""
        if request.dont_filter:
            return None
        identity = self._fingerprinter.fingerprint(request).hex()
        return None if run.lease.url.endswith(identity) else _task_url(request, identity)


def _task_url(request: Request, identity: str) -> str:
    return f"{request.url.partition('#')[0]}{REQUEST_MARK}{identity}"
