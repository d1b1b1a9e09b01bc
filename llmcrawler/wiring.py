"""From settings and arguments to the core's objects: one set per crawler, shared by all of its components."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector
from scrapy.utils.misc import load_object

from llmcrawler import learned
from llmcrawler.arguments import ExploreOptions
from llmcrawler.classification import (
    DEFAULT_PAGE_TYPES,
    LLM,
    Answer,
    Classifier,
    ClassifyWorker,
    PageTypes,
    PageView,
    Question,
    SiteVerdicts,
    Verdict,
    answer_from_json,
    answer_to_json,
    load_page_types,
    page_key,
    tokens_of,
)
from llmcrawler.content import Boilerplate, PageReader
from llmcrawler.errors import ConfigError, StorageFailed
from llmcrawler.extraction import (
    FallbackTeacher,
    KeptRecords,
    Learner,
    LessonRules,
    LLMTeacher,
    RecordRules,
    Records,
    RecordTypes,
    SingleRecords,
    StructuredTeacher,
    Teacher,
    Validator,
    read_learners,
)
from llmcrawler.frontier import Admission, Frontier, MemoryFrontier
from llmcrawler.items import Page
from llmcrawler.job import STAGES, Job, JobRules, Wish, check_job
from llmcrawler.llm import AnswerCache, Batcher, BatchRules, CachedAsker, Limits, price_of, read_price, resolve_provider
from llmcrawler.llm.embedded import default_cache_folder
from llmcrawler.llm.model import Model
from llmcrawler.proxies import BanRules, PoolRules, ProxyPool, resolve_proxies
from llmcrawler.proxies.choice import read_countries
from llmcrawler.reporting import FetchProgress
from llmcrawler.storage import TemplatesFile
from llmcrawler.templates import Changes, TemplateGrouper, recluster
from llmcrawler.urls import AddressGuard, Scope, TrapGuard, site_name

logger = logging.getLogger(__name__)

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
    grouper: TemplateGrouper
    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    regroupings: int = 0
    clustering: asyncio.Lock = field(default_factory=asyncio.Lock)


class Crawl:
    """The core's objects of one crawl. `crawler` is asked for its stats and, while it runs, for its engine."""

    def __init__(self, crawler: Crawler, options: ExploreOptions) -> None:
        settings = crawler.settings
        self.options = options
        scope = Scope(options.urls, allow=options.allow, deny=options.deny, max_depth=options.depth)
        self.admission = Admission(scope, TrapGuard(datetime.now(UTC).date()))
        self.job = _job(crawler, options)
        self.ledger = None if self.job is None else self.job.ledger
        self.lease_seconds = settings.getfloat("LEASE_SECONDS")
        self.frontier: Frontier = _memory_frontier(settings) if self.job is None else self.job.frontier
        self.addresses = AddressGuard(urlsplit(url).hostname or "" for url in options.urls)
        self.reader = PageReader(settings.getint("CONTENT_INLINE_CHARS"))
        self.proxies = _proxies(settings)
        self.bans = _bans(settings)
        self.model = _model(settings)
        self.sites: dict[str, Site] = {}
        page_types = _page_types(options)
        self._cache = None if self.model is None else _answer_cache(settings)
        self._asker = None if self.model is None else PageAsking(crawler, self.model, page_types, self._cache)
        self.classifier = Classifier(page_types, self._asker, split=self._split, on_verdict=self._note_verdict)
        self.records = _records(crawler, options, self.model, self._cache, lambda _: self.learned.note_change())
        records = KeptRecords(self.records, options.wanted, self._page_type_of, has_model=self.model is not None)
        self.learned = learned.Learned(
            templates_file(settings),
            {"verdicts": self.classifier, "records": records},
            marks=self.ledger,
            forgotten=() if self.job is None else _FORGOTTEN.get(self.job.forced_from, ()),
        )

    def site_of(self, url: str) -> Site:
        """www.example.com and example.com are one site."""
        name = site_name(url)
        if name not in self.sites:
            self.sites[name] = Site(name, self.learned.open(url))
        return self.sites[name]

    def keep_progress(self, page: Page) -> None:
        """What a page on its way has cost so far is worth keeping."""
        if self.ledger is not None:
            self.ledger.keep_progress(page.url, page.as_line(), page.stages)

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
        await self.records.close()
        self.reader.close()
        await self.learned.close()
        if self._asker is not None:
            await self._asker.close()
        if self._cache is not None:
            await self._cache.close()
        if self.model is not None:
            await self.model.close()

    def _split(self, site: str, template: str, labels: Mapping[str, str]) -> Changes | None:
        changes = self.sites[site].grouper.split_by(template, labels)
        self.records.regroup(site, changes.aliases, changes.moved)
        self.sites[site].regroupings += 1
        return changes if changes.moved or changes.splits else None

    def _page_type_of(self, site: str, template: str) -> str | None:
        verdict = self.classifier.template_verdict(site, template)
        return verdict[0] if verdict else None

    def _note_verdict(self, _question: Question, verdict: Verdict) -> None:
        if verdict.decided_by == LLM:
            self.learned.note_change()


class PageAsking:
    """Questions about pages: from the cache, else in batches to the model. Made for one event loop."""

    def __init__(self, crawler: Crawler, model: Model, page_types: PageTypes, cache: AnswerCache | None) -> None:
        settings = crawler.settings
        assert crawler.stats is not None
        self._crawler = crawler
        self._stats: StatsCollector = crawler.stats
        self._model = model
        self._page_types = page_types
        embedded = model.is_embedded
        worker = ClassifyWorker(model.ask, page_types, self._count_shown, small_model=embedded)
        self._batcher: Batcher[PageView, Answer] = Batcher(
            worker,
            rules=BatchRules(
                max_questions=1 if embedded else settings.getint("LLM_BATCH_PAGES"),
                max_tokens=settings.getint("LLM_BATCH_TOKENS"),
                wait_seconds=settings.getfloat("LLM_BATCH_WAIT_SECONDS"),
                patient_seconds=settings.getfloat("LLM_BATCH_PATIENT_SECONDS"),
                max_in_flight=1 if embedded else settings.getint("LLM_CONCURRENCY"),
            ),
            tokens_of=tokens_of,
            pressure=lambda: _pressure(crawler),
            on_batch=lambda _report: self._count_usage(),
        )
        self._cache = cache
        self._cached: CachedAsker[PageView, Answer] | None = None

    async def submit(self, question: PageView, *, patient: bool = False) -> Answer:
        if self._cache is None:
            return await self._batcher.submit(question, patient=patient)
        if self._cached is None:
            key_of = page_key(await self._model.name(), self._page_types, small_model=self._model.is_embedded)
            self._cached = CachedAsker(
                self._batcher,
                self._cache,
                key_of=key_of,
                to_json=answer_to_json,
                from_json=answer_from_json,
                usage=self._model.usage,
            )
        return await self._cached.submit(question, patient=patient)

    async def close(self) -> None:
        await self._batcher.close()
        self._count_usage()

    def _count_shown(self, pages: int) -> None:
        self._stats.inc_value("llmcrawler/llm/pages_shown", pages)

    def _count_usage(self) -> None:
        for name, value in self._model.usage.as_dict().items():
            self._stats.set_value(f"llmcrawler/llm/{name}", value)


def _pressure(crawler: Crawler, waiting: int | None = None) -> str | None:
    """Why pages must wait no longer: they hold up the crawl, or nothing else is going on. Of the pages that are being
    worked on so many (`waiting`) wait for just this; None: it does not matter what the others do.
    """
    engine = crawler.engine
    if engine is None or engine.scraper.slot is None or not engine.running:
        return "stopped"
    if engine._slot is None or engine._slot.closing is not None:
        # CLOSESPIDER_* leaves requests behind that nobody will hand out: waiting for them would be for ever.
        return "closing"
    slot = engine.scraper.slot
    if slot.needs_backout():
        return "backing_out"
    scheduler = engine.scheduler
    if scheduler is not None and (engine.downloader.active or scheduler.has_pending_requests()):
        return None
    return "idle" if waiting is None or len(slot.active) + len(slot.queue) <= waiting else None


def _records(
    crawler: Crawler,
    options: ExploreOptions,
    model: Model | None,
    cache: AnswerCache | None,
    on_learned: Callable[[Learner], None],
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
        record_types=_record_types(settings, options),
        pressure=lambda waiting: _pressure(crawler, waiting),
        wanted=options.wanted,
        on_learned=on_learned,
        count=lambda name, value: stats.inc_value(f"llmcrawler/records/{name}", value),
        single=SingleRecords(teacher, lesson.budget_tokens) if singletons else None,
    )


def _record_types(settings: BaseSettings, options: ExploreOptions) -> RecordTypes:
    if options.wanted is not None and options.wanted.page_types:
        return RecordTypes(False, options.wanted.page_types)
    return RecordTypes.of(str(settings.get("RECORD_PAGE_TYPES") or ""))


# What the file of learned templates has to hold for the parts of `Crawl.learned`.
_READERS: dict[str, learned.Reader] = {
    "verdicts": lambda _site, value, origin: SiteVerdicts.from_json(value, origin),
    "records": read_learners,
}

_crawls: WeakKeyDictionary[Crawler, Crawl] = WeakKeyDictionary()


def job_wish(settings: BaseSettings, spider: str, options: ExploreOptions) -> Wish:
    known = (*STAGES, *load_stages(settings))
    unknown = set(options.force) - {*known, "all"}
    if unknown:
        raise ConfigError(
            f"force={','.join(options.force)}: no stage {min(unknown)!r}; there are: {', '.join(known)}, all"
        )
    stages = known[1:] if "all" in options.force else tuple(name for name in known if name in options.force)
    return Wish(spider, options.identity(), stages, options.refresh, any_arguments=settings.getbool("JOBDIR_FORCE"))


def _job(crawler: Crawler, options: ExploreOptions) -> Job | None:
    settings = crawler.settings
    if not settings.get("JOBDIR") or not options.urls:
        return None
    rules = JobRules(
        sync_seconds=settings.getfloat("JOBDIR_SYNC_SECONDS"),
        keep_bodies=settings.getbool("STORE_BODIES"),
        lease_seconds=settings.getfloat("LEASE_SECONDS"),
        max_leases=settings.getint("MAX_LEASES"),
    )
    wish = job_wish(settings, crawler.spidercls.name, options)

    closing: list[asyncio.Future[None]] = []  # a task that nobody holds may be collected

    def stop(failure: StorageFailed) -> None:
        logger.error("%s. What was written before is kept: make room and run the same command again", failure)
        if crawler.engine is not None and crawler.engine.spider is not None:
            closing.append(asyncio.ensure_future(crawler.engine.close_spider_async(reason="storage_failed")))

    return Job(Path(settings["JOBDIR"]), wish, rules, on_failure=stop)


def _memory_frontier(settings: BaseSettings) -> MemoryFrontier:
    return MemoryFrontier(lease_seconds=settings.getfloat("LEASE_SECONDS"), max_leases=settings.getint("MAX_LEASES"))


def crawl_of(crawler: Crawler) -> Crawl:
    """The crawl of a crawler; the first component that asks makes it, from the `options` of the spider.

    A spider without any (`scrapy shell` and `scrapy fetch` have one) gets a crawl with no start urls: its requests
    pass through, politely.
    """
    if crawler not in _crawls:
        options = getattr(crawler.spider, "options", None)
        _crawls[crawler] = Crawl(crawler, options if isinstance(options, ExploreOptions) else ExploreOptions(urls=()))
    return _crawls[crawler]


_MINIMA: Mapping[str, float] = {
    **dict.fromkeys(("LLM_BATCH_PAGES", "LLM_CONCURRENCY", "LLM_MAX_ATTEMPTS", "CONTENT_INLINE_CHARS"), 1),
    **dict.fromkeys(("LLM_BATCH_TOKENS", "LLM_BATCH_WAIT_SECONDS", "LLM_BATCH_PATIENT_SECONDS"), 0),
    **dict.fromkeys(("RECORD_MIN_PAGES", "RECORD_LEARN_PAGES", "RECORD_SAMPLES", "RECORD_MAX_SAMPLES"), 1),
    **dict.fromkeys(("CONCURRENT_REQUESTS_PER_DOMAIN", "THROTTLE_BREAKER_FAILURES", "LEASE_SECONDS", "MAX_LEASES"), 1),
    **dict.fromkeys(("DOWNLOAD_DELAY", "THROTTLE_PUT_BACKS", "THROTTLE_BREAKER_REST_SECONDS"), 0),
    **dict.fromkeys(("THROTTLE_BREAKER_PROBES", "JOBDIR_SYNC_SECONDS", "STAGE_TIMEOUT_SECONDS"), 0),
    "LLM_TIMEOUT_SECONDS": 0,
    "RECORD_MAX_RELEARNED": 0,
    "RECORD_SAMPLE_TOKENS": 200,
}


def check(settings: BaseSettings, options: ExploreOptions, spider: str) -> None:
    """Raises ConfigError for a setting or an argument that a crawl could not be built from."""
    Scope(options.urls, allow=options.allow, deny=options.deny, max_depth=options.depth)
    _page_types(options)
    _model(settings)
    if options.wanted is not None:
        Validator(options.wanted.schema)
    _proxies(settings)
    _bans(settings)
    load_validator(settings)
    if str(settings.get("PROGRESS", "auto")).lower() not in ("auto", "live", "log", "off"):
        raise ConfigError(f"PROGRESS={settings['PROGRESS']!r}: it is one of auto, live, log, off")
    for name, minimum in _MINIMA.items():
        _at_least(settings, name, minimum)
    wish = job_wish(settings, spider, options)
    if settings.get("JOBDIR"):
        check_job(Path(settings["JOBDIR"]), wish)
    elif wish.stages:
        raise ConfigError(f"force={','.join(options.force)}: there is nothing to run again without a JOBDIR")
    file = templates_file(settings)
    if file is not None:
        learned.check(file, options.urls, _READERS)


def load_stages(settings: BaseSettings) -> dict[str, Callable[[Page], Awaitable[Any]]]:
    """The user's own stages by name, in their order."""
    stages: dict[str, Callable[[Page], Awaitable[Any]]] = {}
    for path in settings.getlist("PAGE_STAGES"):
        try:
            function = load_object(path)
        except (ImportError, NameError, ValueError, TypeError) as error:
            raise ConfigError(f"PAGE_STAGES: {path!r} is no path of a function: {error}") from error
        if not asyncio.iscoroutinefunction(function):
            raise ConfigError(f"PAGE_STAGES: {path!r} is no async function (async def f(page): ...)")
        if function.__name__ in stages or function.__name__ in STAGES:
            raise ConfigError(
                f"PAGE_STAGES: there is a stage named {function.__name__!r} already: give it another name"
            )
        stages[function.__name__] = function
    return stages


def load_validator(settings: BaseSettings) -> Callable[[Any], Any] | None:
    """The function that VALIDATE_RESPONSE names."""
    path = settings.get("VALIDATE_RESPONSE")
    if not path:
        return None
    try:
        validator: Callable[[Any], Any] = load_object(path)
    except (ImportError, NameError, ValueError, TypeError) as error:
        raise ConfigError(f"VALIDATE_RESPONSE={path!r} is no path of a function: {error}") from error
    if not callable(validator):
        raise ConfigError(f"VALIDATE_RESPONSE={path!r} is a {type(validator).__name__}, and no function")
    return validator


def _at_least(settings: BaseSettings, name: str, minimum: float) -> None:
    try:
        value = float(settings[name])
    except (TypeError, ValueError):
        raise ConfigError(f"{name}={settings[name]!r} is not a number") from None
    if value < minimum:
        raise ConfigError(f"{name}={settings[name]!r} is too small: at least {minimum:g}")


def _page_types(options: ExploreOptions) -> PageTypes:
    return DEFAULT_PAGE_TYPES if options.page_types is None else load_page_types(options.page_types)


def _model(settings: BaseSettings) -> Model | None:
    choice = resolve_provider(settings, os.environ)
    if choice.kind == "none":
        return None
    price_in, price_out = (read_price(name, settings, os.environ) for name in ("LLM_PRICE_INPUT", "LLM_PRICE_OUTPUT"))
    limits = Limits(
        concurrency=settings.getint("LLM_CONCURRENCY"),
        timeout_seconds=settings.getfloat("LLM_TIMEOUT_SECONDS"),
        max_attempts=settings.getint("LLM_MAX_ATTEMPTS"),
        requests_per_minute=settings.getint("LLM_REQUESTS_PER_MINUTE"),
        tokens_per_minute=settings.getint("LLM_TOKENS_PER_MINUTE"),
    )
    return Model(
        choice,
        limits,
        price_of(choice.model, price_in, price_out),
        embedded_file=settings.get("LLM_EMBEDDED_MODEL") or "",
        on_progress=FetchProgress("the embedded model"),
    )


def templates_file(settings: BaseSettings) -> TemplatesFile | None:
    """Where a crawl keeps what it learns, if anywhere."""
    where, job = str(settings.get("TEMPLATES_FILE") or ""), str(settings.get("JOBDIR") or "")
    if "://" in where:
        raise ConfigError(f"TEMPLATES_FILE={where}: it is a file on this machine, not a url")
    if where:
        return TemplatesFile(Path(where).expanduser())
    return TemplatesFile(Path(job) / "templates.json", "JOBDIR") if job else None


def _proxies(settings: BaseSettings) -> ProxyPool | None:
    provider = resolve_proxies(settings, os.environ)
    if provider is None:
        return None
    for name, minimum in (("PROXY_MAX_FAULTS", 1), ("PROXY_MAX_SWITCHES", 1), ("PROXY_REST_SECONDS", 0)):
        _at_least(settings, name, minimum)
    _at_least(settings, "PROXY_TRIAL_SECONDS", 0)
    rules = PoolRules(
        max_faults=settings.getint("PROXY_MAX_FAULTS"),
        rest_seconds=settings.getfloat("PROXY_REST_SECONDS"),
        max_switches=settings.getint("PROXY_MAX_SWITCHES"),
        sticky=settings.getbool("PROXY_STICKY"),
        countries=read_countries(settings),
    )
    return ProxyPool(provider, rules, clock=time.monotonic)


def _bans(settings: BaseSettings) -> BanRules:
    statuses = settings.getlist("PROXY_BAN_STATUSES")
    try:
        codes = frozenset(int(status) for status in statuses)
    except (TypeError, ValueError):
        codes = frozenset({0})
    if not all(100 <= code <= 599 for code in codes):
        raise ConfigError(f"PROXY_BAN_STATUSES={statuses!r} are no HTTP statuses: write numbers such as 403,407")
    return BanRules(codes, tuple(str(mark) for mark in settings.getlist("PROXY_BAN_MARKS") if str(mark).strip()))


def _answer_cache(settings: BaseSettings) -> AnswerCache | None:
    where = str(settings.get("LLM_CACHE", ""))
    if where.lower() in ("", "false", "0", "none", "off"):
        return None
    if where.lower() in ("true", "1", "on"):
        return AnswerCache(default_cache_folder() / "answers.sqlite")
    return AnswerCache(Path(where))
