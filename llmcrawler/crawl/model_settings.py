"""Builds the model of a crawl, its budget and its batches from the settings. A ConfigError names a wrong setting."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from scrapy.settings import BaseSettings

from llmcrawler.crawl.configuration import OFF, number
from llmcrawler.errors import ConfigError
from llmcrawler.llm import (
    AnswerCache,
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
from llmcrawler.llm.embedded import default_cache_folder
from llmcrawler.llm.language_model import LanguageModel
from llmcrawler.reporting import DownloadProgress


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
    if choice.kind == "none":
        return None
    limits = CallLimits(
        concurrency=settings.getint("LLM_CONCURRENCY"),
        timeout_seconds=settings.getfloat("LLM_TIMEOUT_SECONDS"),
        max_attempts=settings.getint("LLM_MAX_ATTEMPTS"),
        requests_per_minute=settings.getint("LLM_REQUESTS_PER_MINUTE"),
        tokens_per_minute=settings.getint("LLM_TOKENS_PER_MINUTE"),
    )
    price = Price(0, 0, 0) if choice.kind == "embedded" else price_of(choice.model, own_prices(settings, os.environ))
    fallbacks: list[Endpoint] = []
    if choice.kind == "openai":
        fallbacks = read_fallbacks(settings, os.environ, Endpoint(choice, limits, price))
    elif settings.get("LLM_FALLBACKS") and not choice.is_chosen:
        raise ConfigError("LLM_FALLBACKS is set, but no first model: set LLM_BASE_URL or LLM_API_KEY (OPENAI_API_KEY)")
    for one in fallbacks:
        budget_limits(settings, one.price, one.choice.model)  # a limit in money needs the prices of all
    # Where the price of one of them is not known, the sum is not.
    price = price if all(one.price for one in fallbacks) else None
    return LanguageModel(
        choice,
        limits,
        price,
        fallbacks=fallbacks,
        budget=Budget(budget_limits(settings, price, choice.model)),
        embedded_file=settings.get("LLM_EMBEDDED_MODEL") or "",
        on_progress=DownloadProgress("the embedded model"),
        rate=rate,
        on_call=on_call,
        is_optional=settings.getbool("LLM_OPTIONAL"),
    )


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
