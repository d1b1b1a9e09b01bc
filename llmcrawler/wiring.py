"""From settings and arguments to the core's objects: one set per crawler, shared by all of its components."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
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

from llmcrawler.arguments import ExploreOptions
from llmcrawler.classification import (
    DEFAULT_PAGE_TYPES,
    Answer,
    Classifier,
    ClassifyWorker,
    PageTypes,
    PageView,
    answer_from_json,
    answer_to_json,
    load_page_types,
    page_key,
    tokens_of,
)
from llmcrawler.content import Boilerplate, PageReader
from llmcrawler.errors import ConfigError
from llmcrawler.frontier import Admission, Frontier, MemoryFrontier
from llmcrawler.llm import AnswerCache, Batcher, BatchRules, CachedAsker, Limits, price_of, read_price, resolve_provider
from llmcrawler.llm.embedded import default_cache_folder
from llmcrawler.llm.model import Model
from llmcrawler.proxies import BanRules, PoolRules, ProxyPool, resolve_proxies
from llmcrawler.proxies.choice import read_countries
from llmcrawler.reporting import FetchProgress
from llmcrawler.templates import Changes, TemplateGrouper, recluster
from llmcrawler.urls import AddressGuard, Scope, TrapGuard


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
        self.frontier: Frontier = MemoryFrontier()
        self.addresses = AddressGuard(urlsplit(url).hostname or "" for url in options.urls)
        self.reader = PageReader(settings.getint("CONTENT_INLINE_CHARS"))
        self.proxies = _proxies(settings)
        self.bans = _bans(settings)
        self.model = _model(settings)
        self.sites: dict[str, Site] = {}
        page_types = _page_types(options)
        self._asker = None if self.model is None else PageAsking(crawler, self.model, page_types)
        self.classifier = Classifier(page_types, self._asker, split=self._split)

    def site_of(self, url: str) -> Site:
        """www.example.com and example.com are one site."""
        name = urlsplit(url).netloc.removeprefix("www.")
        if name not in self.sites:
            number = len(self.sites)
            self.sites[name] = Site(name, TemplateGrouper("t" if number == 0 else f"s{number}t"))
        return self.sites[name]

    async def recluster(self, site: Site) -> None:
        """Group the site's pages anew when it is time, in a thread: it takes about 30 ms."""
        if not site.grouper.due or site.clustering.locked():
            return
        async with site.clustering:
            clustering = await asyncio.to_thread(recluster, site.grouper.snapshot())
            self.classifier.regroup(site.name, site.grouper.adopt(clustering))
            site.regroupings += 1

    async def close(self) -> None:
        self.reader.close()
        if self._asker is not None:
            await self._asker.close()
        if self.model is not None:
            await self.model.close()

    def _split(self, site: str, template: str, labels: Mapping[str, str]) -> Changes | None:
        changes = self.sites[site].grouper.split_by(template, labels)
        self.sites[site].regroupings += 1
        return changes if changes.moved or changes.splits else None


class PageAsking:
    """Questions about pages: from the cache, else in batches to the model. Made for one event loop."""

    def __init__(self, crawler: Crawler, model: Model, page_types: PageTypes) -> None:
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
            pressure=self._pressure,
            on_batch=lambda _report: self._count_usage(),
        )
        self._cache = _answer_cache(settings)
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
        if self._cache is not None:
            await self._cache.close()

    def _pressure(self) -> str | None:
        """Why a batch must go out at once: pages that wait for it hold up the crawl, or nothing else is going on."""
        engine = self._crawler.engine
        if engine is None or engine.scraper.slot is None or not engine.running:
            return "closing"
        if engine.scraper.slot.needs_backout():
            return "backing_out"
        scheduler = engine.scheduler
        if scheduler is None or not (engine.downloader.active or scheduler.has_pending_requests()):
            return "idle"
        return None

    def _count_shown(self, pages: int) -> None:
        self._stats.inc_value("llmcrawler/llm/pages_shown", pages)

    def _count_usage(self) -> None:
        for name, value in self._model.usage.as_dict().items():
            self._stats.set_value(f"llmcrawler/llm/{name}", value)


_crawls: WeakKeyDictionary[Crawler, Crawl] = WeakKeyDictionary()


def crawl_of(crawler: Crawler) -> Crawl:
    """The crawl of a crawler; the first component that asks makes it, from the `options` of the spider.

    A spider without any (`scrapy shell` and `scrapy fetch` have one) gets a crawl with no start urls: its requests
    pass through, politely.
    """
    if crawler not in _crawls:
        options = getattr(crawler.spider, "options", None)
        _crawls[crawler] = Crawl(crawler, options if isinstance(options, ExploreOptions) else ExploreOptions(urls=()))
    return _crawls[crawler]


def check(settings: BaseSettings, options: ExploreOptions) -> None:
    """Raises ConfigError for a setting or an argument that a crawl could not be built from."""
    Scope(options.urls, allow=options.allow, deny=options.deny, max_depth=options.depth)
    _page_types(options)
    _model(settings)
    _proxies(settings)
    _bans(settings)
    load_validator(settings)
    if str(settings.get("PROGRESS", "auto")).lower() not in ("auto", "live", "log", "off"):
        raise ConfigError(f"PROGRESS={settings['PROGRESS']!r}: it is one of auto, live, log, off")
    for name in ("LLM_BATCH_PAGES", "LLM_CONCURRENCY", "LLM_MAX_ATTEMPTS", "CONTENT_INLINE_CHARS"):
        _at_least(settings, name, 1)
    for name in ("LLM_BATCH_TOKENS", "LLM_BATCH_WAIT_SECONDS", "LLM_BATCH_PATIENT_SECONDS", "LLM_TIMEOUT_SECONDS"):
        _at_least(settings, name, 0)


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
