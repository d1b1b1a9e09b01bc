"""Builds the model that a crawl asks, with its answers so far, and counts what it does."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.llm import AnswerStore, CallReport
from llmcrawler.core.llm.budget_file import FileBudget, FileRate
from llmcrawler.core.llm.client import LanguageModel
from llmcrawler.core.reporting import LLM_FAILURE, LLM_IS_OPTIONAL
from llmcrawler.crawl import signals
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.model_settings import (
    answer_cache_of,
    budget_file,
    call_limits,
    common_limits,
    model_of,
)

logger = logging.getLogger(__name__)


def build_model(crawler: Crawler, backend: CrawlBackend) -> tuple[LanguageModel | None, AnswerStore | None]:
    """Return the model and its answers so far. Workers of one crawl share its rate, its budget and its answers;
    so do the crawls of one LLM_BUDGET_FILE or LLM_BUDGET_URL but for the answers, which are in a file of their own.
    """
    settings, session, job, stats = crawler.settings, backend.session, backend.job, crawler.stats
    assert stats is not None

    def on_call(call: CallReport) -> None:
        assert model is not None
        count_usage(stats, model)
        crawler.signals.send_catch_log(signals.llm_called, call=call)

    if session is None:
        file, common = budget_file(settings), common_limits(settings)
        rate = common if file is None else FileRate(file, call_limits(settings))
        model = model_of(settings, rate=rate, on_call=on_call)
        if model is not None and file is not None:
            limits = model.budget.limits
            model.budget.share(FileBudget(file, limits.max_tokens, limits.max_cost_usd))
            model.close_shared = partial(asyncio.to_thread, file.close)
        elif model is not None and common is not None:
            common.limit(model.budget.limits.max_tokens, model.budget.limits.max_cost_usd, *_per_minute(settings))
            model.budget.share(common)
            model.close_shared = common.close
        if model is not None and job is not None:
            model.budget.go_on(job.spent, job.ledger)
        return model, None if model is None else answer_cache_of(settings)
    from llmcrawler.fleet.model_limits import (  # noqa: PLC0415 - redis takes 0.14 s to load
        SharedAnswers,
        SharedBudget,
        SharedRate,
    )

    model = model_of(settings, rate=SharedRate(session.connection, *_per_minute(settings)), on_call=on_call)
    if model is None:
        return None, None
    limits = model.budget.limits
    model.budget.share(SharedBudget(session.connection, limits.max_tokens, limits.max_cost_usd))
    return model, SharedAnswers(session.connection, answer_cache_of(settings))


def _per_minute(settings: BaseSettings) -> tuple[int, int]:
    return settings.getint("LLM_REQUESTS_PER_MINUTE"), settings.getint("LLM_TOKENS_PER_MINUTE")


def count_usage(stats: StatsCollector, model: LanguageModel) -> None:
    """Put what was asked and what it has cost into the stats."""
    for name, value in model.figures().items():
        stats.set_value(f"llmcrawler/llm/{name}", value)
    if model.failure:
        stats.set_value(LLM_FAILURE, model.failure)
        stats.set_value(LLM_IS_OPTIONAL, model.is_optional)
