"""Builds what a crawl understands pages with from settings: the model, classifier, records and templates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from llmcrawler.core.content import PageReader
from llmcrawler.core.processes.bounded_processes import BoundedProcesses
from llmcrawler.core.reporting.progress import ModelWait
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.question import LLM, Answer, Question, Verdict
from llmcrawler.core.understanding.extraction.corrections import Correction
from llmcrawler.core.understanding.extraction.extractor import ExtractionRunner
from llmcrawler.core.understanding.extraction.learner import waiting_by_type
from llmcrawler.core.understanding.extraction.records import Records, RecordSerializer
from llmcrawler.core.understanding.extraction.training_run import ColumnAnnotator
from llmcrawler.core.understanding.site_reader import SiteReader
from llmcrawler.core.understanding.sites import SiteRegistry
from llmcrawler.core.understanding.template_store import TemplateStore
from llmcrawler.core.understanding.templates.duplicates import DUPLICATES, DuplicateFinder
from llmcrawler.crawl.arguments import KEEP, ExploreOptions
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.compat import close_spider_soon, stats_of
from llmcrawler.crawl.configuration import ContentSettings, JobSettings, ModelSettings, RecordSettings, page_types_of
from llmcrawler.crawl.engine_state import EngineWatch
from llmcrawler.crawl.model_building import build_model, count_usage
from llmcrawler.errors import BudgetSpent, LLMError, LLMStopped, WorkGivenBack

if TYPE_CHECKING:
    from llmcrawler.core.frontier.focused_crawl import FocusedCrawl
    from llmcrawler.core.llm.batching import Batcher
    from llmcrawler.core.llm.client import LanguageModel
    from llmcrawler.core.llm.dialect import ModelRequest
    from llmcrawler.core.understanding.classification.page_asker import PageView
    from llmcrawler.core.understanding.extraction.annotators import LLMAnnotator

logger = logging.getLogger(__name__)

# A tree of lxml takes longer than the text of the page.
_LEARN_PAGES_WITHOUT_MODEL: Final = 12
# Loaded by the processes that make records of costly pages, and learn.
_RECORD_MODULES: Final = tuple(
    f"llmcrawler.core.understanding.extraction.{name}" for name in ("column_annotator", "selector_induction")
)
# Parts that are not taken from the file of learned templates when stages run anew, by the first of the stages.
_FORGOTTEN: Final[Mapping[str | None, tuple[str, ...]]] = {
    "fetch": ("grouping",),
    "content": ("grouping",),
    "classify": ("grouping",),
    "record": ("records",),
}


class Understanding:
    """Parts of a crawl that understand its pages. `model` and `answers` are None where no model is used, `asker` where
    none is asked for page types.
    """

    def __init__(
        self,
        crawler: Crawler,
        options: ExploreOptions,
        backend: CrawlBackend,
        watch: EngineWatch,
        focused_crawl: FocusedCrawl | None,
    ) -> None:
        stats = self.stats = stats_of(crawler)
        content, job, session = ContentSettings.of(crawler.settings), backend.job, backend.session
        self._watch, self._focused_crawl = watch, focused_crawl
        self._check: asyncio.Task[None] | None = None
        self.is_void = False  # nothing is written, as the model cannot be used
        self.processes = BoundedProcesses(_RECORD_MODULES)
        model, answers = self.model, self.answers = build_model(crawler, backend)
        stats.set_value("llmcrawler/llm/provider", "none" if model is None else model.provider)
        self.page_types = page_types_of(options)
        self.asker: Batcher[PageView, Answer] | None = None
        if model is not None:
            from llmcrawler.core.understanding.classification.page_asker import page_batcher

            self.asker = page_batcher(
                model,
                self.page_types,
                ModelSettings.of(crawler.settings).batch_rules,
                answers=answers,
                watch=watch,
                on_batch=lambda _report: count_usage(stats, model),
                on_shown=partial(stats.inc_value, "llmcrawler/llm/pages_shown"),
            )
        self.classifier = Classifier(
            self.page_types,
            self.asker,
            split=lambda site, template, labels: self.sites.split(site, template, labels),  # noqa: PLW0108 - made later
            on_verdict=self._note_verdict,
            is_over=lambda: watch.reason_to_flush() in ("idle", "closing"),
            correction_of=self._correction_of,
        )
        page_reader = PageReader()
        runner = ExtractionRunner(apart=self.processes.run, is_cheap=page_reader.is_cheap)
        self.annotator: LLMAnnotator | None = None
        self.records = self._make_records(options, RecordSettings.of(crawler.settings), runner)
        duplicates = None
        if options.duplicates != KEEP:  # pages that other runs or workers fetched count too
            since = None if session is None else 0.0
            duplicates = DuplicateFinder(since if job is None else job.fetched_since)
        self.reader = SiteReader(page_reader, content.worker_rules(), with_sketches=duplicates is not None)
        self.templates = TemplateStore(
            JobSettings.of(crawler.settings).templates,
            {
                "verdicts": self.classifier,
                "records": RecordSerializer(self.records, self._page_type_of),
                **({} if duplicates is None else {DUPLICATES: duplicates}),
            },
            ledger=None if job is None else job.ledger,
            forgotten=(DUPLICATES,) if job is None else _FORGOTTEN.get(job.forced_from, ()),
            keep=None if session is None else session.keep_learned,
        )
        self.sites = SiteRegistry(self.templates, self.classifier, self.records, duplicates)

    def _make_records(self, options: ExploreOptions, rules: RecordSettings, runner: ExtractionRunner) -> Records:
        if (model := self.model) is not None:
            from llmcrawler.core.understanding.extraction.annotators import LLMAnnotator

            self.annotator = LLMAnnotator(
                model.ask,
                model.name,
                requested=options.wanted,
                cache=self.answers,
                pages_a_call=rules.record_max_samples,
            )
        given = rules.rules(options)
        if self.model is None:  # the first records are to be there within seconds
            given = replace(given, learn_pages=_LEARN_PAGES_WITHOUT_MODEL)
        return Records(
            self.annotator or ColumnAnnotator(options.wanted),
            given,
            runner,
            pressure=self._watch.reason_to_flush,
            on_learned=lambda _learner: self.templates.note_change(),
            count=lambda name, value: self.stats.inc_value(f"llmcrawler/records/{name}", value),
            correction_of=self._correction_of,
        )

    def _correction_of(self, site: str, template: str) -> Correction | None:
        return self.templates.correction_of(site, template)

    def _note_verdict(self, question: Question, verdict: Verdict) -> None:
        if self._focused_crawl is not None:
            self._focused_crawl.note_verdict(question.url, verdict.page_type)
        if verdict.decided_by == LLM:
            self.templates.note_change()

    def _page_type_of(self, site: str, template: str) -> str | None:
        verdict = self.classifier.template_verdict(site, template)
        return verdict[0] if verdict else None

    def waiting(self) -> ModelWait:
        learning = [one for one in self.records.all_learners if one.is_learning]
        by_type, for_learning = waiting_by_type(self.records.all_learners), waiting_by_type(learning).total()
        for_model = self.classifier.waiting_count + for_learning
        waiting = ModelWait(for_model, by_type.total() - for_learning, by_type=by_type)
        model, annotator = self.model, self.annotator
        if model is None or annotator is None:
            return waiting
        at_once = max(1, len(learning))
        seconds = model.usage.seconds / model.usage.answers / at_once if model.usage.answers else None
        return replace(
            waiting,
            calls_done=annotator.calls_done,
            calls_due=annotator.calls_due,
            call_seconds=seconds,
        )

    def check_model(self, urls: Sequence[str]) -> None:
        """Begin to ask the model one tiny question, unless earlier crawls have learned the sites of `urls`, which may
        be enough. The crawl goes on meanwhile, and ends where the model cannot be used and is not optional.
        """
        if self.model is not None and not self.templates.knows(urls):
            from llmcrawler.core.understanding.classification.page_asker import check_question

            question = check_question(self.page_types, next(iter(urls), "https://example.com/"))
            self.templates.is_on_hold = True  # a site that is known is a reason not to ask
            self._check = asyncio.ensure_future(self._ask_first(self.model, question))

    async def _ask_first(self, model: LanguageModel, question: ModelRequest) -> None:
        try:
            await model.check(question)
        except LLMStopped:
            return
        except BudgetSpent:
            pass  # it may still be enough for answers that are known
        except LLMError as error:
            if model.is_optional:
                logger.warning("The model cannot be used, and LLM_OPTIONAL is set: %s", error)
            elif not model.has_answered:
                cure = "LLM_OPTIONAL=True crawls on without its answers, LLM_PROVIDER=none without a model"
                logger.critical("The model cannot be used: %s. %s", error, cure)
                self.is_void = True
                model.give_up()
                close_spider_soon(self._watch.crawler, "model_unusable")
                return
        self.templates.is_on_hold = False

    async def wait_for_check(self) -> None:
        """Wait until it is known whether the model can be used; raises DropItem where it cannot: then no feed is
        touched, and a job has its pages for the next run.
        """
        if self._check is not None:
            await asyncio.shield(self._check)
        if self.is_void:
            raise DropItem("the model cannot be used", log_level="DEBUG") from WorkGivenBack()

    def cut_off(self) -> None:
        """End the processes that read pages and learn, whatever they do."""
        for name, value in self.reader.figures().items():
            self.stats.set_value(f"llmcrawler/content_workers/{name}", value)
        self.reader.close()
        self.processes.close()

    async def close(self) -> None:
        if self._check is not None:
            self._check.cancel()
        await self.records.close()
        self.cut_off()
        await self.templates.close()
        for part in (self.asker, self.answers, self.model):
            if part is not None:
                await part.close()
        if self.model is not None:
            count_usage(self.stats, self.model)
