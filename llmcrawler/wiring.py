"""From settings and arguments to the core's objects: one set per crawler, shared by all of its components."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler
from scrapy.robotstxt import RobotParser

from llmcrawler import learned
from llmcrawler.arguments import ExploreOptions, MapOptions
from llmcrawler.asking import PageAsking
from llmcrawler.bounded_processes import BoundedProcesses
from llmcrawler.classification import LLM, Classifier, Question, Verdict
from llmcrawler.configuration import (
    answer_cache_of,
    bans_of,
    crew_rules,
    job_rules,
    job_wish,
    memory_frontier,
    model_of,
    page_types_of,
    proxies_of,
    pursuit_of,
    record_types_of,
    templates_file,
)
from llmcrawler.content import Boilerplate, PageReader
from llmcrawler.engine.compat import close_spider_soon, is_closing
from llmcrawler.errors import StorageFailed
from llmcrawler.extraction import (
    FallbackTeacher,
    KeptRecords,
    Learner,
    LessonRules,
    LLMTeacher,
    Place,
    RecordRules,
    Records,
    SingleRecords,
    StructuredTeacher,
    Teacher,
)
from llmcrawler.fleet.purse import SharedPurse
from llmcrawler.fleet.rate import SharedRate
from llmcrawler.fleet.sharing import SharedAnswers
from llmcrawler.frontier import Admission, Frontier, MapAdmission, MapRules
from llmcrawler.frontier.relearning import relearn
from llmcrawler.intake import Intake
from llmcrawler.items import Page
from llmcrawler.job import Job
from llmcrawler.llm import AnswerStore
from llmcrawler.llm.model import Model
from llmcrawler.rendering import RenderChoice
from llmcrawler.robots import KeptRobots
from llmcrawler.storage import SiteState
from llmcrawler.storage.keys import JobConnection
from llmcrawler.templates import Changes, TemplateGrouper, recluster
from llmcrawler.urls import AddressGuard, NameLookup, Scope, TrapGuard, site_name

if TYPE_CHECKING:
    from llmcrawler.crew import Crew

logger = logging.getLogger(__name__)

_MAX_REFUSED_NAMES = 10_000
# A tree of lxml takes longer than the text of the page.
_RECORD_INLINE_CHARS = 100_000
# Loaded by the processes that make records of costly pages, and learn.
_RECORD_MODULES = ("llmcrawler.extraction",)
# What is not taken from the file of learned templates when a stage runs anew, by the first of them.
_FORGOTTEN: Mapping[str | None, tuple[str, ...]] = {
    "fetch": ("grouping",),
    "content": ("grouping",),
    "classify": ("grouping",),
    "record": ("records",),
}


@dataclass
class Site:
    """What is learned over the pages of one host."""

    name: str
    url: str
    grouper: TemplateGrouper
    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    regroupings: int = 0
    clustering: asyncio.Lock = field(default_factory=asyncio.Lock)


class Crawl:
    """The core's objects of one crawl. `crawler` is asked for its stats and, while it runs, for its engine."""

    def __init__(self, crawler: Crawler, options: ExploreOptions) -> None:
        settings = crawler.settings
        self.options = options
        self.addresses = AddressGuard(options.urls)
        self.admission = _admission(options, self.addresses)
        self.job = _job(crawler, options)
        self.crew = _crew(crawler, options, self._take_lead)
        self.ledger = None if self.job is None else self.job.ledger
        self.intake = Intake(settings.getint("SCRAPER_SLOT_MAX_ACTIVE_SIZE"), partial(_bytes_there, crawler))
        self.arriving = 0  # pages that are here and whose links are not in the frontier yet
        self.lease_seconds = settings.getfloat("LEASE_SECONDS" if self.crew is None else "REDIS_LEASE_SECONDS")
        keeper = self.crew or self.job
        self.frontier: Frontier = memory_frontier(settings) if keeper is None else keeper.frontier
        self.pursuit = pursuit_of(options)
        self.record_types = record_types_of(settings, options)
        self.names = NameLookup()
        self.checks_names = bool(options.urls) and settings.getbool("PROXY_CHECK_NAMES")
        self.refused_names: dict[str, str] = {}  # why; those of the resolver, the latest
        self._proxy_hosts: set[str] = set()  # of proxies that requests were given outside of the pool
        self.reader = PageReader(settings.getint("CONTENT_INLINE_CHARS"))
        self.rendering = RenderChoice(options.render)
        self.robots: KeptRobots[RobotParser] = KeptRobots()
        self.proxies = proxies_of(settings)
        self.bans = bans_of(settings)
        self.model = model_of(settings)
        if self.model is not None and self.job is not None:
            self.model.budget.go_on(self.job.spent, self.job.ledger)
        self.sites: dict[str, Site] = {}
        page_types = page_types_of(options)
        self._cache: AnswerStore | None = None if self.model is None else answer_cache_of(settings)
        if self.crew is not None and self.model is not None:
            self._cache = SharedAnswers(self.crew.link, self._cache)
            per_minute = (settings.getint(f"LLM_{name}_PER_MINUTE") for name in ("REQUESTS", "TOKENS"))
            self.model.rate = SharedRate(self.crew.link, *per_minute)
            limits = self.model.budget.limits
            self.model.budget.share(SharedPurse(self.crew.link, limits.max_tokens, limits.max_cost_usd))
        self._asker = None
        if self.model is not None:
            self._asker = PageAsking(crawler, self.model, page_types, self._cache, partial(_pressure, crawler))
        self.classifier = Classifier(page_types, self._asker, split=self._split, on_verdict=self._note_verdict)
        self.processes = BoundedProcesses(_RECORD_MODULES)
        inline_chars = min(_RECORD_INLINE_CHARS, settings.getint("CONTENT_INLINE_CHARS"))
        place = Place(inline_chars, self.processes.run, self.reader.is_cheap)
        self.records = _records(crawler, options, self.model, self._cache, lambda _: self.learned.note_change(), place)
        records = KeptRecords(self.records, options.wanted, self._page_type_of, has_model=self.model is not None)
        self.learned = learned.Learned(
            templates_file(settings),
            {"verdicts": self.classifier, "records": records},
            marks=self.ledger,
            forgotten=() if self.job is None else _FORGOTTEN.get(self.job.forced_from, ()),
            keep=None if self.crew is None else self.crew.sites.keep,
        )

    def site_of(self, url: str) -> Site:
        """www.example.com and example.com are one site. Where workers share a crawl, one of them has its templates."""
        name = site_name(url)
        if name not in self.sites:
            grouper = TemplateGrouper() if self.crew is not None else self.learned.open(url)
            self.sites[name] = Site(name, url, grouper)
        return self.sites[name]

    def note_proxy(self, address: str) -> None:
        """A request goes through this proxy."""
        with suppress(ValueError):
            self._proxy_hosts.add(urlsplit(address if "//" in address else f"//{address}").hostname or "")

    def is_proxy(self, host: str) -> bool:
        """Whether it is the host of a proxy of the user's."""
        return host in self._proxy_hosts or (self.proxies is not None and host in self.proxies.hosts)

    def note_refused_name(self, name: str, reason: str) -> None:
        """The resolver has refused a name, and has no way to say why."""
        if len(self.refused_names) >= _MAX_REFUSED_NAMES:
            del self.refused_names[next(iter(self.refused_names))]
        self.refused_names[name] = reason

    def led_sites(self) -> list[Site]:
        """Those that this worker learns."""
        names = self.sites if self.crew is None else self.crew.desk.sites
        return [self.sites[name] for name in names if name in self.sites]

    def keep_progress(self, page: Page) -> None:
        """What a page on its way has cost so far is worth keeping."""
        if self.ledger is not None:
            self.ledger.keep_progress(page.id, page.as_line(), page.stages)

    async def recluster(self, site: Site) -> None:
        """Group the site's pages anew when it is time, in a thread: it takes about 30 ms."""
        if not site.grouper.due or site.clustering.locked():
            return
        async with site.clustering:
            clustering = await asyncio.to_thread(recluster, site.grouper.snapshot())
            changes = site.grouper.adopt(clustering)
            self.classifier.regroup(site.name, changes)
            self.records.regroup(site.name, changes.aliases, changes.moved)
            site.regroupings += 1

    async def close(self) -> None:
        if self.crew is not None:
            self.crew.desk.retire()
        await self.records.close()
        self.reader.close()
        self.names.close()
        self.processes.close()
        await self.learned.close()
        if self._asker is not None:
            await self._asker.close()
        if self._cache is not None:
            await self._cache.close()
        if self.model is not None:
            await self.model.close()

    async def _take_lead(self, name: str) -> None:
        """Go on with what the site's leaders so far have learned."""
        assert self.crew is not None
        kept, site = await self.crew.sites.fetch(name), self.sites[name]
        state = None if kept is None else SiteState(kept["templates"], kept["state"])
        number = await self.crew.sites.number() if kept is None else 0
        site.grouper = self.learned.take_up(site.url, state, f"s{number}t" if number else "t")
        site.regroupings += 1
        logger.info("This worker leads %s%s", name, "" if kept is None else ", with what was learned of it so far")

    def _split(self, site: str, template: str, labels: Mapping[str, str]) -> Changes | None:
        changes = self.sites[site].grouper.split_by(template, labels)
        self.records.regroup(site, changes.aliases, changes.moved)
        self.sites[site].regroupings += 1
        return changes if changes.moved or changes.splits else None

    def _page_type_of(self, site: str, template: str) -> str | None:
        verdict = self.classifier.template_verdict(site, template)
        return verdict[0] if verdict else None

    def note_end(self, page: Page) -> bool:
        """A page is through. False: so many records came that nothing more is to be fetched."""
        if self.pursuit is None:
            return True
        self.pursuit.note_end(page.url, page.page_type, has_record=self._has_record(page.as_line()))
        return not self.pursuit.is_done

    def relearn(self, connection: JobConnection) -> None:
        """What earlier runs of the job have learned of its links."""
        if self.pursuit is not None:
            relearn(connection, self.pursuit, self._has_record)

    def _has_record(self, line: Mapping[str, Any]) -> bool:
        """A page of a type that has none counts as its own record."""
        return line["error"] is None and (line["record"] is not None or line["page_type"] not in self.record_types)

    def _note_verdict(self, question: Question, verdict: Verdict) -> None:
        if self.pursuit is not None:
            self.pursuit.note_verdict(question.url, verdict.page_type)
        if verdict.decided_by == LLM:
            self.learned.note_change()


def _admission(options: ExploreOptions, addresses: AddressGuard) -> Admission:
    scope = Scope(
        options.urls,
        allow=options.allow,
        deny=options.deny,
        max_depth=options.depth,
        subdomains=isinstance(options, MapOptions) and options.subdomains,
    )
    traps = TrapGuard(datetime.now(UTC).date())
    if isinstance(options, MapOptions):
        return MapAdmission(scope, traps, MapRules(options.max_urls, options.match, options.depth), addresses)
    return Admission(scope, traps, addresses)


def _pressure(crawler: Crawler, waiting: int | None = None) -> str | None:
    """Why pages must wait no longer: they hold up the crawl, or nothing else is going on. Of the pages that are being
    worked on so many (`waiting`) wait for just this; None: it does not matter what the others do.
    """
    engine = crawler.engine
    if engine is None or engine.scraper.slot is None or not engine.running:
        return "stopped"
    if is_closing(crawler):
        # CLOSESPIDER_* leaves requests behind that nobody will hand out: waiting for them would be for ever.
        return "closing"
    slot, crew = engine.scraper.slot, crawl_of(crawler).crew
    others = [] if crew is None else crew.others()
    if slot.needs_backout() or any(one.pressed for one in others):
        return "backing_out"
    scheduler = engine.scheduler
    if scheduler is not None and (engine.downloader.active or scheduler.has_pending_requests()):
        return None
    if any(one.working for one in others):
        return None
    under_way = len(slot.active) + len(slot.queue) if crew is None else crew.frontier.counts().leased
    return "idle" if waiting is None or under_way <= waiting + sum(one.held for one in others) else None


def _bytes_there(crawler: Crawler) -> int:
    """Of the bodies whose pages are not through."""
    try:
        slot = None if crawler.engine is None else crawler.engine.scraper.slot
    except RuntimeError:  # it has none yet
        return 0
    return 0 if slot is None else slot.active_size


def _records(  # noqa: PLR0913, PLR0917 - what a crawl decides
    crawler: Crawler,
    options: ExploreOptions,
    model: Model | None,
    cache: AnswerStore | None,
    on_learned: Callable[[Learner], None],
    place: Place,
) -> Records:
    settings, stats = crawler.settings, crawler.stats
    assert stats is not None
    small = model is not None and model.is_embedded
    lesson = LessonRules(
        samples=settings.getint("RECORD_SAMPLES"),
        max_samples=settings.getint("RECORD_MAX_SAMPLES"),
        budget_tokens=settings.getint("RECORD_SAMPLE_TOKENS"),
    )
    teacher: Teacher = StructuredTeacher(options.wanted)
    if model is not None:
        asking = LLMTeacher(
            model.ask,
            model.name,
            wanted=options.wanted,
            cache=cache,
            pages_a_call=1 if small else lesson.max_samples,
            small_model=small,
        )
        teacher = FallbackTeacher(asking, teacher)
    singletons = settings.getbool("RECORD_SINGLETONS")
    return Records(
        teacher,
        RecordRules(
            min_pages=settings.getint("RECORD_MIN_PAGES"),
            learn_pages=settings.getint("RECORD_LEARN_PAGES"),
            max_relearned=settings.getint("RECORD_MAX_RELEARNED"),
            lesson=lesson,
        ),
        record_types=record_types_of(settings, options),
        pressure=lambda waiting: _pressure(crawler, waiting),
        wanted=options.wanted,
        on_learned=on_learned,
        count=lambda name, value: stats.inc_value(f"llmcrawler/records/{name}", value),
        single=SingleRecords(teacher, lesson.budget_tokens, place) if singletons else None,
        place=place,
    )


_crawls: WeakKeyDictionary[Crawler, Crawl] = WeakKeyDictionary()


def _job(crawler: Crawler, options: ExploreOptions) -> Job | None:
    settings = crawler.settings
    if not settings.get("JOBDIR") or not options.urls:
        return None
    wish = job_wish(settings, crawler.spidercls.name, options)
    return Job(Path(settings["JOBDIR"]), wish, job_rules(settings), on_failure=partial(_stop, crawler))


def _crew(crawler: Crawler, options: ExploreOptions, take_lead: Callable[[str], Awaitable[None]]) -> Crew | None:
    settings = crawler.settings
    if not settings.get("REDIS_URL") or not options.urls:
        return None
    from llmcrawler.crew import Crew  # noqa: PLC0415 - redis takes 0.14 s to load

    wish = job_wish(settings, crawler.spidercls.name, options)
    return Crew(crew_rules(settings), wish, options.max_pages, take_lead=take_lead, on_failure=partial(_stop, crawler))


def _stop(crawler: Crawler, failure: StorageFailed) -> None:
    cure = "make room and run" if crawler.settings.get("JOBDIR") else "run"
    logger.error("%s. What was written before is kept: %s the same command again", failure, cure)
    close_spider_soon(crawler, "storage_failed")


def crawl_of(crawler: Crawler) -> Crawl:
    """The crawl of a crawler; the first component that asks makes it, from the `options` of the spider.

    A spider without any (`scrapy shell` and `scrapy fetch` have one) gets a crawl with no start urls: its requests
    pass through, politely.
    """
    if crawler not in _crawls:
        options = getattr(crawler.spider, "options", None)
        _crawls[crawler] = Crawl(crawler, options if isinstance(options, ExploreOptions) else ExploreOptions(urls=()))
    return _crawls[crawler]
