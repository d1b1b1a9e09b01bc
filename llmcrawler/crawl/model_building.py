"""Builds the model of a crawl from the settings, with the budget, rate and answers that crawls share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector

from llmcrawler.core.llm.providers import Endpoint, own_prices, read_fallbacks, resolve_provider
from llmcrawler.core.reporting.exit_status import LLM_FAILURE, LLM_IS_OPTIONAL
from llmcrawler.crawl import signals
from llmcrawler.crawl.backend import CrawlBackend
from llmcrawler.crawl.compat import stats_of
from llmcrawler.crawl.configuration import OFF, ModelSettings
from llmcrawler.errors import ConfigError, require

if TYPE_CHECKING:
    from llmcrawler.core.llm.cache import AnswerCache, AnswerStore
    from llmcrawler.core.llm.client import LanguageModel
    from llmcrawler.core.llm.usage import CallReport


def model_of(
    settings: BaseSettings,
    *,
    on_call: Callable[[CallReport], object] = lambda _call: None,
) -> LanguageModel | None:
    """Return the model that the settings and the environment name; None where they name none. `on_call` is told of each
    call.
    """
    choice, given = resolve_provider(settings, os.environ), ModelSettings.of(settings)
    if given.llm_fallbacks and not choice.is_chosen:
        raise ConfigError(
            "LLM_FALLBACKS is set, but no primary model: set LLM_BASE_URL or LLM_API_KEY (OPENAI_API_KEY)"
        )
    if choice.kind == "none":
        return None
    # Most crawls have no model, and need none of this.
    from llmcrawler.core.llm.budget import Budget
    from llmcrawler.core.llm.client import LanguageModel
    from llmcrawler.core.llm.usage import Usage, price_of

    price = price_of(choice.model, *own_prices(settings, os.environ))
    first = Endpoint(choice, given.call_limits, price)
    fallbacks = read_fallbacks(settings, os.environ, first)
    for one in fallbacks:
        given.budget_limits(one.price, one.choice.model)  # a limit in money needs the prices of all
    # Where the price of one of them is not known, the sum is not.
    known_price = price if all(one.price for one in fallbacks) else None
    return LanguageModel(
        [replace(first, price=known_price), *fallbacks],
        usage=Usage(known_price, on_call),
        budget=Budget(given.budget_limits(known_price, choice.model)),
        is_optional=given.llm_optional,
    )


def check_shared_budget(given: ModelSettings) -> None:
    """Raise ConfigError where the budget could not be shared by what the settings name."""
    if given.llm_budget_file is not None:
        from llmcrawler.core.llm.budget_file import open_budget_file

        open_budget_file(given.llm_budget_file).check()
    if given.llm_budget_url:
        require("redis", "redis", "LLM_BUDGET_URL")
        from llmcrawler.fleet.model_limits import check_budget_url  # redis takes 0.14 s to load

        check_budget_url(given.llm_budget_url)


def build_model(crawler: Crawler, backend: CrawlBackend) -> tuple[LanguageModel | None, AnswerStore | None]:
    """Return the model and its answers so far. Workers of one crawl share its rate, its budget and its answers;
    so do the crawls of one LLM_BUDGET_FILE or LLM_BUDGET_URL but for the answers, which are in a file of their own.
    """
    settings, session, job, stats = crawler.settings, backend.session, backend.job, stats_of(crawler)
    given = ModelSettings.of(settings)

    def on_call(call: CallReport) -> None:
        assert model is not None
        count_usage(stats, model)
        crawler.signals.send_catch_log(signals.llm_called, call=call)

    model = model_of(settings, on_call=on_call)
    if model is None:
        return None, None
    calls, limits, own_answers = given.call_limits, model.budget.limits, _answer_cache(given.llm_cache)
    if session is not None:
        from llmcrawler.fleet.model_limits import SharedAnswers, SharedLimits

        shared = SharedLimits(session.connection, calls, limits)
        model.share(shared, shared)
        return model, SharedAnswers(session.connection, own_answers)
    if given.llm_budget_file is not None:
        from llmcrawler.core.llm.budget_file import FileLimits, open_budget_file

        file = open_budget_file(given.llm_budget_file)
        by_file = FileLimits(file, calls, limits)
        model.share(by_file, by_file, partial(asyncio.to_thread, file.close))
    elif given.llm_budget_url:
        from llmcrawler.fleet.model_limits import CommonLimits

        common = CommonLimits(given.llm_budget_url, calls, limits)
        model.share(common, common, common.close)
    if job is not None:
        model.budget.go_on(job.spent, job.ledger)
    return model, own_answers


def _answer_cache(where: str) -> AnswerCache | None:
    if where.lower() in OFF:
        return None
    from llmcrawler.core.llm.cache import AnswerCache

    is_default = where.lower() in ("true", "1", "on")
    return AnswerCache(platformdirs.user_cache_path("llmcrawler") / "answers.sqlite" if is_default else Path(where))


def count_usage(stats: StatsCollector, model: LanguageModel) -> None:
    for name, value in model.figures().items():
        stats.set_value(f"llmcrawler/llm/{name}", value)
    if model.failure:
        stats.set_value(LLM_FAILURE, model.failure)
        stats.set_value(LLM_IS_OPTIONAL, model.is_optional)
