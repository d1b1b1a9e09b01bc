"""What the scheduler leases, and when; which schedulers it stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from random import Random
from time import monotonic
from typing import Any

import pytest
from scrapy import Spider
from scrapy.core.scheduler import Scheduler
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from llmcrawler.core.frontier.admission import Admission
from llmcrawler.core.frontier.memory import MemoryFrontier
from llmcrawler.core.frontier.protocol import Counts, Frontier, Lease, UrlTask
from llmcrawler.core.reporting.account import FAILED_PER_PAGE
from llmcrawler.core.storage import Outcome, StoredBody
from llmcrawler.core.storage.job_spec import JobRules, JobSpec
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.urls import AddressGuard, Scope, TrapGuard
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.context import ArrivingPages
from llmcrawler.crawl.job import Job
from llmcrawler.engine.request_scheduler import RequestScheduler
from llmcrawler.engine.scheduler import FrontierScheduler, PageBudget, SiteBudgets, idle_hosts, running_scheduler
from llmcrawler.errors import ConfigError
from llmcrawler.extensions.setup import CrawlSetup
from llmcrawler.items import StageRun
from llmcrawler.middlewares.leases import LeaseMiddleware
from llmcrawler.spiders.base import FrontierSpider
from llmcrawler.spiders.explore import ExploreSpider
from llmcrawler.spiders.extract import ExtractSpider
from llmcrawler.spiders.map import MapScheduler, MapSpider
from tests.adapters.stubs import stub

MAX_PAGES = 30
SPEC = JobSpec("explore", {"url": ["http://a.test/"], "max_pages": MAX_PAGES})
HOSTS = ("a.test", "b.test")
FETCHED = StageRun("success", None, 1, 1.0, 0.1)


def crawl_with(frontier: Frontier, max_pages: int, per_site: int | None = None, job: Job | None = None) -> Any:
    urls = ["http://a.test/"]
    return stub(
        backend=CrawlBackend(frontier, job),
        options=stub(max_pages=max_pages, max_pages_per_site=per_site),
        admission=Admission(Scope(urls), TrapGuard(date(2026, 1, 1)), AddressGuard(urls)),
        understanding=stub(templates=TemplateStore(None, {})),
        arriving_pages=ArrivingPages(),
        focused_crawl=None,
    )


class JobScheduler(FrontierScheduler):
    """Without an engine: what it leases is taken from its buffer."""

    def __init__(self, job: Job, per_site: int | None = None) -> None:
        crawler = stub(signals=stub(connect=lambda *_: None), stats=None, engine=None)
        super().__init__(crawler, crawl_with(job.frontier, MAX_PAGES, per_site, job))
        self.busy: Counter[str] = Counter()

    def _low_water(self) -> int:
        return 4

    def _per_host(self, host: str = "") -> int:
        return 5

    def _held(self, leases: Iterable[Lease] = ()) -> Counter[str]:
        return self.busy + Counter(lease.task.host for lease in (*self._leases.values(), *leases))

    def _count(self) -> None:
        return

    async def taken(self) -> list[str]:
        await self._fill()
        return [lease.url for lease in self._buffer.drain()]


class Site:
    """Pages lead to more, some of which priority better than what is known; some cannot be had."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0

    def found(self, count: int) -> list[UrlTask]:
        self.number += count
        numbers = range(self.number - count, self.number)
        return [
            UrlTask(f"http://{host}/{number}", host, priority=self.random.choice((0, 1, 5)))
            for number in numbers
            for host in [self.random.choice(HOSTS)]
        ]


async def run(folder, site: Site, steps: int | None, spec: JobSpec = SPEC, per_site: int | None = None) -> set[str]:
    """Until its end, or until it is killed after some steps. The urls of all pages that the job has now."""
    random = site.random
    job = Job(folder, spec, JobRules())
    scheduler = JobScheduler(job, per_site)
    await scheduler._open()
    scheduler._stop_filling()  # the test has the say when something is leased
    await scheduler.add(site.found(MAX_PAGES))
    scheduler.busy = Counter({random.choice(HOSTS): random.choice((0, 5))})
    under_way: list[str] = []
    while steps is None or steps > 0:
        under_way += await scheduler.taken()
        if not under_way:
            if not scheduler.busy:
                break
            scheduler.busy.clear()
            continue
        url = under_way[random.randrange(len(under_way))]
        is_dead = url.endswith("7")
        if random.random() < 0.5 and not is_dead:
            job.ledger.keep_body(url, StoredBody(url, 200, (), b"<p>", "2026-01-01", 0.1), FETCHED)
            await scheduler.add(site.found(2))
        else:
            under_way.remove(url)
            error = {"stage": "fetch", "kind": "http_404", "message": "", "attempts": 1} if is_dead else None
            line = {"url": url, "error": error, "duplicate_of": "http://a.test/0" if url.endswith("3") else None}
            await scheduler._end(stub(id=url), Outcome(line, {}, is_dead=is_dead))
            if random.random() < 0.2:
                await job.ledger.note_learned(await job.ledger.last_seq())
        steps = None if steps is None else steps - 1
    lines = await lines_of(job)
    if steps is None:
        await job.close("finished")
    else:  # all that a kill leaves behind is in the file
        await job._database.close()
        job._lock.release()
    return {line["url"] for _seq, line in lines if line["error"] is None and not line["duplicate_of"]}


async def lines_of(job: Job) -> list[tuple[int, dict[str, Any]]]:
    lines: list[tuple[int, dict[str, Any]]] = []
    while some := await job.ledger.lines(lines[-1][0] if lines else 0, 10**9):
        lines += some
    return lines


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
async def test_a_crawl_that_is_killed_often_has_no_page_too_many(tmp_path, seed):
    random = Random(seed)
    site = Site(random)
    for _kill in range(4):
        assert len(await run(tmp_path, site, random.randrange(10, 60))) <= MAX_PAGES
    assert len(await run(tmp_path, site, None)) == MAX_PAGES
    assert len(await run(tmp_path, site, None)) == MAX_PAGES  # finished: its lines go into the feed again


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
async def test_a_crawl_that_is_killed_often_has_no_page_of_a_site_too_many(tmp_path, seed):
    site = Site(Random(seed))
    for steps in (*(site.random.randrange(10, 40) for _kill in range(4)), None, None):
        pages = await run(tmp_path, site, steps, per_site=8)
        count = Counter(url.split("/")[2] for url in pages)
        assert max(count.values(), default=0) <= 8
    assert count == dict.fromkeys(HOSTS, 8)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
async def test_refreshes_bring_the_same_pages_and_none_in_the_places_of_dead_letters_and_duplicates(tmp_path, seed):
    random = Random(seed)
    site, refresh = Site(random), replace(SPEC, refresh=True)
    first = await run(tmp_path, site, None)
    for _night in range(3):
        await run(tmp_path, site, random.randrange(10, 60), refresh)
        assert await run(tmp_path, site, None, refresh) == first
    assert len(first) == MAX_PAGES


def test_the_engine_is_woken_once_when_pages_that_came_in_at_once_have_been_read():
    woken: list[str] = []
    engine = stub(_slot=stub(nextcall=stub(schedule=lambda: woken.append("now"))))
    crawl = crawl_with(MemoryFrontier(), 100)
    arriving = crawl.arriving_pages
    crawler = stub(signals=stub(connect=lambda *_: None), stats=None, engine=engine)
    scheduler = FrontierScheduler(crawler, crawl)
    with ExitStack() as reading:
        while not arriving.is_full:
            reading.enter_context(arriving.one())
        assert arriving.count == 32
        assert scheduler.next_request() is None
        assert woken == []
    assert arriving.count == 0
    assert woken == ["now"]


def slot(*, age: float, delay: float, transferring: int = 1) -> Any:
    return stub(
        lastseen=monotonic() - age,
        delay=delay,
        transferring=range(transferring),
        download_delay=lambda: delay,
        free_transfer_slots=lambda: 5 - transferring,
    )


@pytest.mark.parametrize(
    ("one", "fetching", "waiting", "room", "looks_again"),
    [
        ({"age": 900, "delay": 600}, 1, [], 1, False),
        ({"age": 0, "delay": 600}, 1, [], 0, True),
        ({"age": 900, "delay": 600}, 1, ["a.test"], 0, True),
        ({"age": 900, "delay": 600}, 2, [], 0, True),  # one waits in the slot, and leaves it long before its answer
        ({"age": 900, "delay": 0}, 1, [], 4, False),
        ({"age": 900, "delay": 0, "transferring": 5}, 5, [], 0, False),
    ],
)
def test_room_of_a_host_for_views(
    one: dict[str, Any], fetching: int, waiting: list[str], room: int, looks_again: bool
) -> None:
    downloader: Any = stub(domain_concurrency=5, fetching=Counter({"a.test": fetching}), slots={"a.test": slot(**one)})
    held, seconds = idle_hosts(downloader, waiting)
    assert 5 - held["a.test"] == room
    assert (seconds is not None) == looks_again


@pytest.mark.parametrize(
    ("spider", "scheduler", "needed"),
    [
        (ExploreSpider, Scheduler, "llmcrawler.engine.scheduler.FrontierScheduler"),
        (ExtractSpider, RequestScheduler, "llmcrawler.engine.scheduler.FrontierScheduler"),
        (MapSpider, FrontierScheduler, "llmcrawler.spiders.map.MapScheduler"),
    ],
)
def test_a_scheduler_that_cannot_feed_the_spider_is_refused_before_anything_is_built(spider, scheduler, needed):
    crawler = get_crawler(FrontierSpider, {"SCHEDULER": scheduler})
    crawler.spider = stub(SCHEDULER_CLASS=spider.SCHEDULER_CLASS)
    with pytest.raises(ConfigError, match=f"SCHEDULER=.*{scheduler.__name__}.*leave it out, or name {needed}"):
        CrawlSetup.from_crawler(crawler)


@pytest.mark.parametrize("scheduler", [Scheduler, RequestScheduler])
def test_a_running_scheduler_is_of_the_class_that_is_asked_for_or_a_subclass(scheduler):
    running = scheduler.__new__(scheduler)
    crawler = stub(engine=stub(scheduler=running), settings={"SCHEDULER": scheduler})
    assert running_scheduler(crawler, scheduler) is running
    with pytest.raises(ConfigError, match="leave it out, or name"):
        running_scheduler(crawler, FrontierScheduler)
    crawler.engine.scheduler = of_map = MapScheduler.__new__(MapScheduler)
    assert running_scheduler(crawler, FrontierScheduler) is of_map


def test_where_nothing_is_leased_nobody_looks_for_leases():
    LeaseMiddleware.from_crawler(get_crawler(Spider, {"SCHEDULER": FrontierScheduler}))
    with pytest.raises(NotConfigured):
        LeaseMiddleware.from_crawler(get_crawler(Spider, {"SCHEDULER": Scheduler}))


LEASE = Lease(UrlTask("https://a.example/", "a.example"))


def test_pages_come_until_there_are_max_pages_however_many_fail_in_between():
    budget = PageBudget(40)
    for _ in range(10 * 40):
        budget.spend(LEASE)
        assert budget.refund(is_duplicate=False)
    assert budget.left() == 40
    budget.spend(LEASE)
    assert not budget.refund(is_duplicate=False), "a site could name dead urls for ever"
    assert budget.left() == 39


def test_an_entry_that_cannot_be_fetched_takes_no_place():
    budget = PageBudget(1)
    budget.spend(Lease(UrlTask.of_fault("not a url", "line 1: it is no url")))
    assert budget.left() == 1


def test_failures_of_earlier_runs_and_of_other_workers_count_the_same():
    budget = PageBudget(40)
    budget.start(Counts(done=10, dead=399))
    assert (budget.left(), budget.refunds) == (30, 1)
    assert budget.left_among_workers(Counts(leased=5, done=10, dead=FAILED_PER_PAGE * 40 + 2)) == 23


def test_duplicates_count_apart_up_to_as_many_as_pages():
    budget = PageBudget(40)
    for _ in range(40):
        budget.spend(LEASE)
        assert budget.refund(is_duplicate=True)
    assert budget.left() == 40
    budget.spend(LEASE)
    assert not budget.refund(is_duplicate=True), "a site could show one page for ever"
    assert budget.left() == 39


def test_duplicates_of_earlier_runs_and_of_other_workers_count_the_same():
    budget = PageBudget(40)
    budget.start(Counts(done=45, duplicates=30))
    assert (budget.left(), budget.free_duplicates) == (25, 10)
    assert budget.left_among_workers(Counts(leased=5, done=70, duplicates=50)) == 5


PER_HOST = 8


async def budgets(max_pages: int | None, *hosts: str, urls: int = 20) -> SiteBudgets:
    frontier = MemoryFrontier()
    await frontier.add(UrlTask(f"https://{host}/{number}", host) for host in hosts for number in range(urls))
    return SiteBudgets(frontier, max_pages)


async def lease(sites: SiteBudgets, limit: int = 100) -> list[Lease]:
    return await sites.lease(limit, {}, PER_HOST, None)


def hosts_of(leases: Sequence[Lease]) -> list[str]:
    return sorted(one.task.host for one in leases)


async def test_no_site_gets_more_than_its_share_and_the_others_go_on():
    sites = await budgets(10, "a.example", "b.example")
    first = await lease(sites)
    assert hosts_of(first) == ["a.example"] * 8 + ["b.example"] * 8
    assert hosts_of(await lease(sites)) == ["a.example"] * 2 + ["b.example"] * 2
    assert not await lease(sites)
    assert not sites.has_queued(), "what is queued yet belongs to sites that have their share"
    await sites.frontier.add([UrlTask("https://c.example/", "c.example")])
    assert sites.has_queued()
    assert hosts_of(await lease(sites)) == ["c.example"]


async def test_a_share_smaller_than_what_keeps_a_host_busy_holds_from_the_first_lease():
    sites = await budgets(3, "a.example")
    assert len(await lease(sites)) == 3
    assert sites.frontier.counts().queued == 17, "what was leased beyond the share is queued again"


async def test_a_site_has_one_share_under_both_of_its_names():
    sites = await budgets(10, "www.a.example", "a.example")
    assert len(await lease(sites)) + len(await lease(sites)) == 10
    assert not sites.has_queued()


async def test_a_url_that_could_not_be_fetched_and_a_duplicate_give_their_places_back():
    sites = await budgets(4, "a.example")
    leases = await lease(sites)
    assert sites.refund(leases[0], is_duplicate=False)
    assert sites.refund(leases[1], is_duplicate=True)
    assert len(await lease(sites)) == 2


async def test_pages_of_earlier_runs_count_and_those_that_are_gone_through_again_count_once():
    sites = await budgets(10, "a.example", "b.example")
    sites.start({"a.example": (Counts(done=6, dead=3, duplicates=1), 2), "b.example": (Counts(done=10), 0)})
    assert hosts_of(await lease(sites)) == ["a.example"] * 3, "6 done less a duplicate, and 2 that come again, of 10"
    assert sites.has_queued(), "these two are still to come"


async def test_without_a_share_all_is_as_it_was():
    sites = await budgets(None, "a.example")
    assert len(await lease(sites)) == PER_HOST
    assert sites.has_queued()
    assert not sites.refund(Lease(UrlTask("https://a.example/", "a.example")), is_duplicate=False)
