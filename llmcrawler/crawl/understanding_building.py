"""Builds what a crawl understands pages with from settings: the model, classifier, records and templates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.content import PageReader
from llmcrawler.core.frontier import FocusedCrawl
from llmcrawler.core.llm import AnswerStore, Batcher
from llmcrawler.core.llm.client import LanguageModel
from llmcrawler.core.processes.bounded_processes import BoundedProcesses
from llmcrawler.core.reporting import ModelWait
from llmcrawler.core.understanding.classification import (
    LLM,
    Answer,
    Classifier,
    PageTypes,
    Question,
    Verdict,
    check_question,
)
from llmcrawler.core.understanding.classification.page_asker import PageView, page_batcher
from llmcrawler.core.understanding.extraction import (
    Annotator,
    ExtractionRunner,
    Learner,
    LLMAnnotator,
    RecordRules,
    Records,
    RecordSerializer,
    SingleRecords,
    TrainingRules,
    waiting_by_type,
)
from llmcrawler.core.understanding.site_reader import SiteReader
from llmcrawler.core.understanding.sites import SiteRegistry
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.understanding.templates import Changes
from llmcrawler.core.understanding.templates.duplicates import DUPLICATES, DuplicateFinder
from llmcrawler.crawl.arguments import KEEP, ExploreOptions
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.configuration import (
    page_types_of,
    record_types_of,
    templates_file,
    worker_rules,
)
from llmcrawler.crawl.engine_state import EngineWatch
from llmcrawler.crawl.model_settings import batch_rules, build_model, count_usage
from llmcrawler.errors import BudgetSpent, ConfigError, LLMError

logger = logging.getLogger(__name__)

# A tree of lxml takes longer than the text of the page.
_RECORD_INLINE_CHARS: Final = 100_000
# Loaded by the processes that make records of costly pages, and learn.
_RECORD_MODULES: Final = ("llmcrawler.core.understanding.extraction",)
# Parts that are not taken from the file of learned templates when stages run anew, by the first of the stages.
_FORGOTTEN: Final[Mapping[str | None, tuple[str, ...]]] = {
    "fetch": ("grouping",),
    "content": ("grouping",),
    "classify": ("grouping",),
    "record": ("records",),
}


@dataclass(frozen=True, slots=True)
class Understanding:
    """Parts that understand pages. `model` and `answers` are None where no model is asked, `asker` where none is asked
    for page types."""

    stats: StatsCollector
    page_types: PageTypes
    reader: SiteReader
    processes: BoundedProcesses
    model: LanguageModel | None
    asker: Batcher[PageView, Answer] | None
    answers: AnswerStore | None
    classifier: Classifier
    records: Records
    annotator: LLMAnnotator | None
    templates: TemplateStore
    sites: SiteRegistry

    def waiting(self) -> ModelWait:
        """Return what pages wait for just now."""
        learning = [one for one in self.records.all_learners if one.is_learning]
        by_type, for_learning = waiting_by_type(self.records.all_learners), waiting_by_type(learning).total()
        waiting = ModelWait(
            self.classifier.waiting_count, for_learning, by_type.total() - for_learning, by_type=by_type
        )
        model, annotator = self.model, self.annotator
        if model is None or annotator is None:
            return waiting
        at_once = 1 if model.is_embedded else max(1, len(learning))
        seconds = model.usage.seconds / model.usage.answers / at_once if model.usage.answers else None
        return replace(
            waiting,
            calls_done=annotator.calls_done,
            calls_due=annotator.calls_due,
            call_seconds=seconds,
            fetched_bytes=model.fetched_bytes,
            is_starting=model.is_starting,
        )

    async def check_model(self, urls: Sequence[str]) -> None:
        """Ask the model one tiny question before the first request, unless earlier crawls have learned the sites of
        `urls`, which may be enough. Raises ConfigError where it cannot be used and is not optional.
        """
        model = self.model
        if model is None or self.templates.knows(urls):
            return
        try:
            await model.check(check_question(self.page_types, next(iter(urls), "https://example.com/")))
        except BudgetSpent:
            pass  # it may still be enough for answers that are known
        except LLMError as error:
            if not model.is_optional:
                cure = "LLM_OPTIONAL=True crawls on without its answers, LLM_PROVIDER=none without a model"
                raise ConfigError(f"The model cannot be used: {error}. {cure}") from error
            logger.warning("The model cannot be used, and LLM_OPTIONAL is set: %s", error)

    def cut_off(self) -> None:
        """End the processes that read pages and learn, whatever they do."""
        for name, value in self.reader.figures().items():
            self.stats.set_value(f"llmcrawler/content_workers/{name}", value)
        self.reader.close()
        self.processes.close()

    async def close(self) -> None:
        await self.records.close()
        self.cut_off()
        await self.templates.close()
        for part in (self.asker, self.answers, self.model):
            if part is not None:
                await part.close()
        if self.model is not None:
            count_usage(self.stats, self.model)


def build_understanding(
    crawler: Crawler,
    options: ExploreOptions,
    backend: CrawlBackend,
    watch: EngineWatch,
    focused_crawl: FocusedCrawl | None,
) -> Understanding:
    settings, stats, session = crawler.settings, crawler.stats, backend.session
    assert stats is not None
    page_reader, processes = PageReader(settings.getint("CONTENT_INLINE_CHARS")), BoundedProcesses(_RECORD_MODULES)
    model, answers = build_model(crawler, backend)
    stats.set_value("llmcrawler/llm/provider", "none" if model is None else model.provider)
    page_types = page_types_of(options)
    asker = None
    if model is not None and not model.is_embedded:
        asker = page_batcher(
            model,
            page_types,
            batch_rules(settings),
            answers=answers,
            watch=watch,
            on_batch=lambda _report: count_usage(stats, model),
            on_shown=partial(stats.inc_value, "llmcrawler/llm/pages_shown"),
        )

    # These know each other: a verdict may part a template, and what is learned of it is kept with it.
    templates: TemplateStore
    sites: SiteRegistry

    def split(site: str, template: str, labels: Mapping[str, str]) -> Changes | None:
        return sites.split(site, template, labels)

    def on_verdict(question: Question, verdict: Verdict) -> None:
        if focused_crawl is not None:
            focused_crawl.note_verdict(question.url, verdict.page_type)
        if verdict.decided_by == LLM:
            templates.note_change()

    inline_chars = min(_RECORD_INLINE_CHARS, settings.getint("CONTENT_INLINE_CHARS"))
    runner = ExtractionRunner(inline_chars, processes.run, page_reader.is_cheap)
    classifier = Classifier(
        page_types,
        asker,
        split=split,
        on_verdict=on_verdict,
    )
    annotator = None if model is None else _annotator(crawler, options, model, answers)
    min_pages = settings.getint("RECORD_MIN_PAGES")

    def pressure(held: int) -> str | None:
        """Say why pages must not be held any longer. The model gets ready as soon as there is something to learn."""
        if model is not None and model.is_cold and any(len(one.waiting) >= min_pages for one in records.all_learners):
            model.warm_up()
        return watch.reason_to_flush(held)

    records = _records(crawler, options, annotator, pressure, runner, lambda _learner: templates.note_change())

    def page_type_of(site: str, template: str) -> str | None:
        verdict = classifier.template_verdict(site, template)
        return verdict[0] if verdict else None

    job = backend.job
    duplicates = _duplicate_finder(options, backend)
    reader = SiteReader(page_reader, worker_rules(settings), with_sketches=duplicates is not None)
    templates = TemplateStore(
        templates_file(settings),
        {
            "verdicts": classifier,
            "records": RecordSerializer(records, options.wanted, page_type_of),
            **({} if duplicates is None else {DUPLICATES: duplicates}),
        },
        marks=None if job is None else job.ledger,
        forgotten=(DUPLICATES,) if job is None else _FORGOTTEN.get(job.forced_from, ()),
        keep=None if session is None else session.keep,
    )
    sites = SiteRegistry(templates, classifier, records, duplicates)
    return Understanding(
        stats,
        page_types,
        reader,
        processes,
        model,
        asker,
        answers,
        classifier,
        records,
        annotator,
        templates,
        sites,
    )


def _duplicate_finder(options: ExploreOptions, backend: CrawlBackend) -> DuplicateFinder | None:
    """Return what finds the duplicates of a crawl; None where all pages are kept."""
    if options.duplicates == KEEP:
        return None
    if backend.job is not None:
        return DuplicateFinder(backend.job.fetched_since)
    return DuplicateFinder(None if backend.session is None else 0.0)


def _training_rules(crawler: Crawler) -> TrainingRules:
    settings = crawler.settings
    return TrainingRules(
        samples=settings.getint("RECORD_SAMPLES"),
        max_samples=settings.getint("RECORD_MAX_SAMPLES"),
        budget_tokens=settings.getint("RECORD_SAMPLE_TOKENS"),
    )


def _annotator(
    crawler: Crawler, options: ExploreOptions, model: LanguageModel, answers: AnswerStore | None
) -> LLMAnnotator:
    small = model.is_embedded
    return LLMAnnotator(
        model.ask,
        model.name,
        requested=options.wanted,
        cache=answers,
        pages_a_call=1 if small else _training_rules(crawler).max_samples,
        small_model=small,
    )


def _records(  # noqa: PLR0913, PLR0917 - what a crawl decides
    crawler: Crawler,
    options: ExploreOptions,
    annotator: Annotator | None,
    pressure: Callable[[int], str | None],
    runner: ExtractionRunner,
    on_learned: Callable[[Learner], None],
) -> Records:
    settings, stats = crawler.settings, crawler.stats
    assert stats is not None
    training, single = _training_rules(crawler), None
    if annotator is not None and settings.getbool("RECORD_SINGLETONS"):
        single = SingleRecords(annotator, training.budget_tokens, runner)
    return Records(
        annotator,
        RecordRules(
            min_pages=settings.getint("RECORD_MIN_PAGES"),
            learn_pages=settings.getint("RECORD_LEARN_PAGES"),
            max_relearned=settings.getint("RECORD_MAX_RELEARNED"),
            training=training,
        ),
        record_types=record_types_of(settings, options),
        pressure=pressure,
        requested=options.wanted,
        on_learned=on_learned,
        count=lambda name, value: stats.inc_value(f"llmcrawler/records/{name}", value),
        single=single,
        runner=runner,
    )
