"""Builds the model of a crawl, its budget, its batches and its cache from the settings, and counts what it
does. A ConfigError names a wrong setting."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.llm import (
    AnswerCache,
    AnswerStore,
    BatchRules,
    Budget,
    BudgetLimits,
    CallLimits,
    CallRate,
    CallReport,
    Endpoint,
    Price,
    own_prices,
    price_of,
    read_fallbacks,
    resolve_provider,
)
from llmcrawler.core.llm.budget_file import FileBudget, FileRate, open_budget_file
from llmcrawler.core.llm.client import LanguageModel
from llmcrawler.core.llm.embedded import default_cache_folder
from llmcrawler.core.llm.usage import Usage
from llmcrawler.core.reporting import LLM_FAILURE, LLM_IS_OPTIONAL, DownloadProgress
from llmcrawler.core.storage import SharedFile
from llmcrawler.crawl import signals
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.configuration import OFF, local_file, number
from llmcrawler.errors import ConfigError, require

if TYPE_CHECKING:
    from llmcrawler.fleet.model_limits import CommonLimits


def model_of(
    settings: BaseSettings,
    *,
    rate: CallRate | None = None,
    on_call: Callable[[CallReport], object] = lambda _call: None,
) -> LanguageModel | None:
    """Return the model that the settings and the environment name; None for LLM_PROVIDER=none.

    `rate` is what several workers share; None: the model has one of its own. `on_call` is told of each call.
    """
    choice = resolve_provider(settings, os.environ)
    if settings.get("LLM_FALLBACKS") and not choice.is_chosen:
        raise ConfigError("LLM_FALLBACKS is set, but no first model: set LLM_BASE_URL or LLM_API_KEY (OPENAI_API_KEY)")
    if choice.kind == "none":
        return None
    limits = call_limits(settings)
    price = Price(0, 0, 0) if choice.kind == "embedded" else price_of(choice.model, own_prices(settings, os.environ))
    first = Endpoint(choice, limits, price)
    fallbacks: list[Endpoint] = []
    if choice.kind == "openai":
        fallbacks = read_fallbacks(settings, os.environ, first)
    elif settings.get("LLM_FALLBACKS") and not choice.is_chosen:
        raise ConfigError("LLM_FALLBACKS is set, but no first model: set LLM_BASE_URL or LLM_API_KEY (OPENAI_API_KEY)")
    for one in fallbacks:
        budget_limits(settings, one.price, one.choice.model)  # a limit in money needs the prices of all
    # Where the price of one of them is not known, the sum is not.
    known_price = price if all(one.price for one in fallbacks) else None
    return LanguageModel(
        [replace(first, price=known_price), *fallbacks],
        usage=Usage(known_price, on_call),
        budget=Budget(budget_limits(settings, known_price, choice.model)),
        rate=rate,
        is_optional=settings.getbool("LLM_OPTIONAL"),
        embedded_file=settings.get("LLM_EMBEDDED_MODEL") or "",
        on_progress=DownloadProgress("the embedded model"),
    )


def call_limits(settings: BaseSettings) -> CallLimits:
    return CallLimits(
        concurrency=settings.getint("LLM_CONCURRENCY"),
        timeout_seconds=settings.getfloat("LLM_TIMEOUT_SECONDS"),
        max_attempts=settings.getint("LLM_MAX_ATTEMPTS"),
        requests_per_minute=settings.getint("LLM_REQUESTS_PER_MINUTE"),
        tokens_per_minute=settings.getint("LLM_TOKENS_PER_MINUTE"),
    )


def budget_file(settings: BaseSettings) -> SharedFile | None:
    """Return the file by which the crawls of this machine share their budget; None where each has its own."""
    path = local_file(settings, "LLM_BUDGET_FILE")
    if path is not None and settings.get("REDIS_URL"):
        raise ConfigError("LLM_BUDGET_FILE and REDIS_URL: workers of one crawl share its budget there: leave one out")
    return None if path is None else open_budget_file(path)


def common_limits(settings: BaseSettings) -> CommonLimits | None:
    """Return the limits that crawls of several machines share; None where there are none."""
    url = settings.get("LLM_BUDGET_URL")
    for name in ("REDIS_URL", "LLM_BUDGET_FILE"):
        if url and settings.get(name):
            raise ConfigError(f"LLM_BUDGET_URL and {name}: each says where a budget is shared: leave one out")
    if not url:
        return None
    require("redis", "redis", "LLM_BUDGET_URL")
    from llmcrawler.fleet.model_limits import CommonLimits  # noqa: PLC0415 - only they need redis

    return CommonLimits(url)


def check_shared_budget(settings: BaseSettings) -> None:
    """Raise ConfigError where the budget could not be shared by what the settings name."""
    for shared in (budget_file(settings), common_limits(settings)):
        if shared is not None:
            shared.check()


def check_budget_of_many(settings: BaseSettings) -> None:
    """Raise ConfigError where crawls of many machines could not keep to the model's limits together."""
    if settings.get("LLM_BUDGET_FILE"):
        raise ConfigError("LLM_BUDGET_FILE is a file of one machine: give many machines LLM_BUDGET_URL")
    names = ("LLM_MAX_TOKENS", "LLM_MAX_COST_USD", "LLM_REQUESTS_PER_MINUTE", "LLM_TOKENS_PER_MINUTE")
    limited = [name for name in names if settings.getfloat(name)]
    if limited and not settings.get("LLM_BUDGET_URL"):
        raise ConfigError(f"{limited[0]}: many machines keep to it by LLM_BUDGET_URL=redis://HOST/0#NAME: add that")


def budget_limits(settings: BaseSettings, price: Price | None, model: str) -> BudgetLimits:
    max_tokens, max_cost_usd = (number(settings, name, 0) for name in ("LLM_MAX_TOKENS", "LLM_MAX_COST_USD"))
    if max_cost_usd and price is None:
        raise ConfigError(
            f"LLM_MAX_COST_USD={max_cost_usd:g}: the price of {model or 'the model that the server lists'} is not "
            "known; set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT (US dollars per million tokens), or LLM_MAX_TOKENS instead"
        )
    return BudgetLimits(int(max_tokens), max_cost_usd, price)


def batch_rules(settings: BaseSettings) -> BatchRules:
    """Return the rules of the batches in which pages are asked about."""
    return BatchRules(
        max_questions=settings.getint("LLM_BATCH_PAGES"),
        max_tokens=settings.getint("LLM_BATCH_TOKENS"),
        wait_seconds=settings.getfloat("LLM_BATCH_WAIT_SECONDS"),
        patient_seconds=settings.getfloat("LLM_BATCH_PATIENT_SECONDS"),
        max_in_flight=settings.getint("LLM_CONCURRENCY"),
    )


def answer_cache_of(settings: BaseSettings) -> AnswerCache | None:
    where = str(settings.get("LLM_CACHE", ""))
    if where.lower() in OFF:
        return None
    is_default = where.lower() in ("true", "1", "on")
    return AnswerCache(default_cache_folder() / "answers.sqlite" if is_default else Path(where))


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
            model.budget.share(FileBudget(file, model.budget.limits))
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
