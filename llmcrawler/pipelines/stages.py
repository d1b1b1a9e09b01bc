"""The stages of a page: content, classify, record, the user's own (PAGE_STAGES); then what the feed shows of it.

Each run of a stage on a page is timed, bounded and recorded; one that was successful is not repeated.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, get_args

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, NotConfigured
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.content import forget_kinds
from llmcrawler.core.politeness.robots import NOINDEX
from llmcrawler.core.reporting.exit_status import count_item
from llmcrawler.core.storage import Ledger, marks_of
from llmcrawler.core.storage.feeds.tables import clean, clean_text
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.question import TEMPLATE, Question
from llmcrawler.core.understanding.extraction.learner import described_schema, described_selectors
from llmcrawler.core.understanding.extraction.records import Records
from llmcrawler.core.understanding.page_extractor import ask_for_record
from llmcrawler.core.understanding.site_reader import CHANGED, UNCHANGED, SiteReader
from llmcrawler.core.understanding.sites import Site, SiteRegistry
from llmcrawler.core.understanding.templates.grouping import Assignment
from llmcrawler.core.understanding.templates.page_sample import words_of
from llmcrawler.crawl.compat import engine_of, stats_of
from llmcrawler.crawl.configuration import FeedSettings, JobSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.engine_state import CrawlStop
from llmcrawler.errors import STOPPED, StorageFailed, WorkGivenBack
from llmcrawler.items import FeedItem, Page, PageError, StageRun, Template

SUCCESS, FAILED, SKIPPED = "success", "failed", "skipped"

_TURN_SECONDS = 0.005

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StageRules:
    """Rules for all stages. `timeout_seconds` are those of one page in one stage, 0 for no limit. `ledger` of a job
    keeps what a page has cost so far. `check_storage` raises StorageFailed where a page could not be acknowledged any
    more. `stop` says how far the crawl's stopping is.
    """

    stats: StatsCollector
    timeout_seconds: float = 0.0
    ledger: Ledger | None = None
    check_storage: Callable[[], None] = lambda: None  # a crawl of one process is closed when its storage fails
    stop: CrawlStop = field(default_factory=CrawlStop)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl, timeout_seconds = crawl_of(crawler), JobSettings.of(crawler.settings).stage_timeout_seconds
        rules = cls(stats_of(crawler), timeout_seconds, crawl.ledger, stop=crawl.stop)
        session = crawl.backend.session
        return rules if session is None else replace(rules, check_storage=session.connection.check)


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
        is_stopped = isinstance(item, Page) and item.error is not None and item.error.kind == STOPPED
        if is_stopped and self.rules.stop.goes_on_later:
            left = "the crawl is being stopped; the page is left for its next run"
            raise DropItem(left, log_level="DEBUG") from WorkGivenBack()
        return item

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
            raise DropItem("another worker continues with the page", log_level="DEBUG") from left
        except StorageFailed as failure:
            raise DropItem("the crawl is being closed; the page is left for its next run") from failure
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


@dataclass(eq=False)
class ContentPipeline(Stage):
    """Takes the text, its hash, the title and the language from what was read of the page."""

    sites: SiteRegistry
    reader: SiteReader

    name = "content"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        known = crawl_of(crawler).understanding
        return cls(StageRules.from_crawler(crawler), known.sites, known.reader)

    async def run(self, page: Page) -> PageError | None:
        assert page.content is not None
        main, page.main = page.main, None
        if main is None:
            main = await self.reader.main_text(self.sites.of(page.url), page.content, page.final_url or page.url)
        page.text, page.content_hash, page.sketch = main
        page.title = page.content.title or None
        page.lang = page.content.lang or None
        # The largest parts of a page that may wait for long from here on, and nobody asks for them any more.
        page.content = replace(page.content, links=(), blocks=())
        return None

    async def restore(self, page: Page) -> None:
        """Run the stage again: it is quickly done, and the later stages need its text."""
        await self.run(page)


@dataclass(eq=False)
class ClassifyPipeline(Stage):
    """Finds the template and the page type of a page, which may wait here for its batch while other pages go on."""

    sites: SiteRegistry
    classifier: Classifier
    crawler: Crawler | None = field(default=None, kw_only=True)  # the one whose parts are opened and closed here

    name = "classify"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        known = crawl_of(crawler).understanding
        return cls(StageRules.from_crawler(crawler), known.sites, known.classifier, crawler=crawler)

    async def open_spider(self) -> None:
        assert self.crawler is not None
        crawl = crawl_of(self.crawler)
        crawl.understanding.check_model(crawl.options.urls)

    async def process_item(self, item: Any) -> Any:
        item = await super().process_item(item)
        if self.crawler is not None:
            await crawl_of(self.crawler).understanding.wait_for_check()
        return item

    async def close_spider(self) -> None:
        """Put what was learned into the feed too; feeds are still open now."""
        assert self.crawler is not None
        crawl = crawl_of(self.crawler)
        known, session = crawl.understanding, crawl.backend.session
        own = [one for one in known.sites if session is None or one.name in session.frontier.sites]
        for template in learned_templates(own, known.classifier, known.records):
            await engine_of(self.crawler).scraper.start_itemproc_async(template, response=None)
        await crawl.close()

    async def run(self, page: Page) -> PageError | None:
        """Judge the page. One that repeats another has only a line: that one's text, type and record are its own."""
        earlier, page.duplicate_of = page.duplicate_of, None
        error = await self._judge(page)
        if _is_duplicate(page):
            _empty(page)
        elif earlier is not None and page.change == UNCHANGED:
            page.change = CHANGED  # what it repeated is gone
        return error

    async def _judge(self, page: Page) -> PageError | None:
        assert page.content is not None
        if self.sites.duplicates is not None:
            self.sites.duplicates.judge(page)
            if _is_duplicate(page):
                return None
        question, assigned = await self._place(page)
        site = self.sites.of(page.url)
        regroupings = site.regroupings
        verdict = await self.classifier.classify(question)
        page.page_type, page.decided_by = verdict.page_type, verdict.decided_by
        page.confidence = round(verdict.confidence, 3)
        page.template = assigned.template
        forget_kinds(page.content)
        judge_again(page, site, self.classifier, was_regrouped=site.regroupings != regroupings)
        return verdict.error

    async def restore(self, page: Page) -> None:
        """Keep the verdict of an earlier run, and find the template, which may have another id in this run."""
        assert page.content is not None
        if self.sites.duplicates is not None:
            self.sites.duplicates.restore_page(page)
        if _is_duplicate(page):
            _empty(page)
            return
        question, assigned = await self._place(page)
        page.template = self.sites.of(page.url).grouper.resolve(assigned.template)
        forget_kinds(page.content)
        if page.page_type is not None and page.decided_by is not None:
            self.classifier.restore_verdict(question, page.page_type, page.confidence or 0.0, page.decided_by)

    async def _place(self, page: Page) -> tuple[Question, Assignment]:
        """Put a page into a group of its site, and write down what the classifier is to know of it."""
        assert page.content is not None
        site = self.sites.of(page.url)
        words = words_of(page.content)
        assigned = site.grouper.assign(page.id, page.content.features, words, title=page.content.title)
        await self.sites.recluster(site)
        self.sites.count_templates(site)
        self.rules.stats.set_value("llmcrawler/templates", self.sites.template_count)
        question = Question(
            url=page.id,  # one url may be asked for in several ways
            title=page.title or "",
            text=page.text or "",
            content=page.content,
            site=site.name,
            template=site.grouper.resolve(assigned.template),
            member=assigned.member,
            settled=assigned.settled,
            rivals=assigned.rivals,
            is_known=assigned.is_known,
            words=words,
        )
        return question, assigned


def _is_duplicate(page: Page) -> bool:
    return page.duplicate_of is not None


def _empty(page: Page) -> None:
    """Leave nothing of a duplicate to the stages that follow; its line tells what it is a copy of."""
    page.withhold("title", "lang", "content_hash")
    page.content = page.html = None


def judge_again(page: Page, site: Site, classifier: Classifier, *, was_regrouped: bool) -> None:
    """Give a page the template that it has now. If it `was_regrouped` while it waited, its group may have been parted:
    a page that took the verdict of its template takes that of the part that it is in.
    """
    assert page.content is not None
    assert page.template is not None
    page.template = site.grouper.resolve(page.template)
    if was_regrouped:
        content = page.content
        words = words_of(content)
        page.template = site.grouper.match(page.id, content.features, words, title=content.title) or page.template
        known = classifier.template_verdict(site.name, page.template)
        if known and page.decided_by == TEMPLATE:
            page.page_type, page.confidence = known[0], round(known[1], 3)


def learned_templates(sites: Iterable[Site], classifier: Classifier, records: Records) -> list[Template]:
    """Return what this process has learned of each template, as items of the feed."""
    templates = []
    for site in sites:
        for group in site.grouper.groups():
            verdict = classifier.template_verdict(site.name, group.template)
            purity = classifier.purity(site.name, group.template)
            template = Template(
                template=group.template,
                page_type=verdict[0] if verdict else None,
                confidence=round(verdict[1], 3) if verdict else None,
                purity=None if purity is None else round(purity, 3),
                url_pattern=group.url_pattern,
                page_count=group.page_count,
                examples=list(group.examples),
                aliases=list(group.aliases),
            )
            learner = records.learner_of(site.name, template.template, template.page_type)
            template.llm_calls = learner.calls if learner is not None else 0
            extractors = learner.extractors if learner is not None else []
            if (corrected := records.correction_of(site.name, template.template)) is not None:
                extractors = corrected.extractors(extractors)
            template.schema = described_schema(extractors)
            template.selectors = described_selectors(extractors)
            templates.append(template)
    return templates


_MAX_JUDGED = 3  # times that one page is judged; its site settles


@dataclass(eq=False)
class RecordPipeline(Stage):
    """Takes the record of a page, which may wait here until its template is learned while other pages go on."""

    sites: SiteRegistry
    classifier: Classifier
    records: Records

    name = "record"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        known = crawl_of(crawler).understanding
        return cls(StageRules.from_crawler(crawler), known.sites, known.classifier, known.records)

    def applies(self, page: Page) -> bool:
        return page.html is not None and page.page_type is not None and page.template is not None

    async def run(self, page: Page) -> PageError | None:
        assert page.content is not None
        site = self.sites.of(page.url)
        for _ in range(_MAX_JUDGED):
            regroupings, page_type = site.regroupings, page.page_type
            answer = await ask_for_record(page, page.content, page.html or "", site.name, self.records)
            if answer.home is not None:
                site.grouper.move(page.id, answer.home.template)
                self.sites.count_templates(site)
                break
            # While it waited its template may have been split, and the page may be no longer what it was taken for.
            judge_again(page, site, self.classifier, was_regrouped=site.regroupings != regroupings)
            if page.page_type == page_type:
                break
        page.record, page.record_by = answer.record, answer.by
        return answer.error


RUNNING = "running"  # the status of a stage that a process left behind when it died


class OwnStages:
    """Runs the user's stages in their order. What a function returns stands in the page's `results` under its name."""

    def __init__(self, stages: list[Stage]) -> None:
        self._stages = stages

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        kept = JobSettings.of(crawler.settings)
        functions = kept.stages()
        if not functions:
            raise NotConfigured
        rules = StageRules.from_crawler(crawler)
        return cls([OwnStage(rules, name, function, kept.max_leases) for name, function in functions.items()])

    async def process_item(self, item: Any) -> Any:
        for stage in self._stages:
            item = await stage.process_item(item)
        return item


@dataclass(eq=False)
class OwnStage(Stage):
    """Runs a function on each page, but not on one on which the crawl has died `max_deaths` times."""

    name: str  # type: ignore[misc]  # of the class in other stages
    function: Callable[[Page], Awaitable[Any]]
    max_deaths: int

    costly_seconds = 0.0  # who knows what it did outside

    async def run(self, page: Page) -> PageError | None:
        if self.rules.ledger is not None:
            earlier = page.stages.get(self.name)
            deaths = earlier.attempts if earlier is not None and earlier.status == RUNNING else 0
            if deaths >= self.max_deaths:
                return PageError(self.name, "lost", f"the crawl died {deaths} times while it ran", deaths)
            run = StageRun(RUNNING, None, deaths + 1, time.time(), 0.0)
            await self.rules.ledger.keep_stage(page.id, self.name, run)
        try:
            result = await self.function(page)
        except asyncio.CancelledError:
            if self.rules.ledger is not None and self.rules.stop.is_over:  # which is no death
                await self.rules.ledger.keep_stage(page.id, self.name, replace(run, attempts=deaths))
            raise
        finally:  # it may have put anything there, and the page is to have its line
            page.title, page.text, page.record = clean(page.title), clean(page.text), clean(page.record)
        try:
            json.dumps(result)
        except (TypeError, ValueError) as error:
            return PageError(self.name, "result", f"what the stage returned is not JSON: {error}")
        if result is not None:
            page.results = {**(page.results or {}), self.name: result}
        return None


@dataclass(eq=False)
class FeedPipeline:
    """Takes out of an item what the feed does not show, and counts it. `with_text`: the feed has the main text."""

    stats: StatsCollector
    with_text: bool

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(stats_of(crawler), FeedSettings.of(crawler.settings).content_in_feed)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, FeedItem):
            count_item(self.stats.inc_value, item.depth, item.error)
        if isinstance(item, Page):
            item.content = item.html = None
            if not self.with_text:
                item.text = None
            self._count(item)
        if isinstance(item, FeedItem | Template):
            _clean_fields(item)
        return item

    def _count(self, page: Page) -> None:
        self.stats.inc_value("llmcrawler/pages")
        if page.duplicate_of is not None:
            self.stats.inc_value("llmcrawler/duplicates")
        counted = {"page_types": page.page_type, "decided_by": page.decided_by, "changes": page.change}
        counted["page_records"] = None if page.record is None else page.page_type
        for name, value in counted.items():
            if value is not None:
                self.stats.inc_value(f"llmcrawler/{name}/{value}")
        if page.is_withheld and page.error is None and NOINDEX in (page.robots or ()):
            self.stats.inc_value("llmcrawler/noindex_pages")
        for mark in marks_of({"rights": page.rights, "robots": page.robots}):
            self.stats.inc_value(f"llmcrawler/rights/{mark}")
        if page.error is not None:
            self.stats.inc_value(f"llmcrawler/errors/{page.error.stage}/{page.error.kind}")


def _clean_fields(item: FeedItem | Template) -> None:
    """Replace what is no UTF-8: half a surrogate pair, from an escape in JSON-LD say, would cost the item its line."""
    for name in _FIELDS[type(item)]:
        value = getattr(item, name)
        if isinstance(value, PageError):
            setattr(item, name, replace(value, message=clean_text(value.message)))
        elif value is not None:
            setattr(item, name, clean(value))


_FIELDS = {item_class: tuple(one.name for one in fields(item_class)) for item_class in (*get_args(FeedItem), Template)}
