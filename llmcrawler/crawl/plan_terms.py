"""Reads the terms of a plan from the settings: how the crawl is done, and which model it is priced for."""

from __future__ import annotations

import os
from collections import ChainMap
from dataclasses import replace
from typing import Any, Final

from scrapy.settings import BaseSettings

from llmcrawler.core.llm.providers import PLACEHOLDER_KEY, ProviderChoice, own_prices, resolve_provider
from llmcrawler.core.llm.usage import Price, price_of
from llmcrawler.core.reporting.planning.estimate import THOUGHT_TOKENS, CrawlTerms
from llmcrawler.core.understanding.classification.page_asker import call_tokens
from llmcrawler.core.understanding.extraction.annotators import annotation_tokens
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.configuration import ModelSettings, PolitenessSettings, RecordSettings, page_types_of

NO_MODEL: Final = "none"


def plan_terms(settings: BaseSettings, options: ExploreOptions, model: str = "") -> CrawlTerms:
    """Return the terms of a crawl with the model of that name ("none" too), or with the one that the settings choose. A
    key is not needed: a plan asks no model.
    """
    choice = _choice(settings, model)
    politeness, records = PolitenessSettings.of(settings), RecordSettings.of(settings)
    terms = CrawlTerms(
        max_pages=options.max_pages,
        gap_seconds=politeness.download_delay,
        concurrency=politeness.concurrent_requests_per_domain,
    )
    if choice.kind == NO_MODEL:
        return terms
    page_types = page_types_of(options)
    return replace(
        terms,
        model=choice.model or choice.base_url,
        batches=ModelSettings.of(settings).batch_rules,
        classify_tokens=call_tokens(page_types),
        induce_tokens=annotation_tokens(options.wanted),
        thought_tokens=THOUGHT_TOKENS.get(choice.reasoning_effort or "", 0),
        price=_price(settings, choice),
        record_types=records.types(options),
        min_pages=records.record_min_pages,
        samples=records.record_samples,
        max_samples=records.record_max_samples,
    )


def _choice(settings: BaseSettings, name: str) -> ProviderChoice:
    """Return the model of that name, else that of the settings: LLM_MODEL too where there is no key for it yet."""
    given: dict[str, Any] = {"LLM_PROVIDER": name} if name else {}
    if name not in ("", NO_MODEL):
        given = {"LLM_PROVIDER": "openai", "LLM_MODEL": name}
    values: ChainMap[Any, Any] = ChainMap(given, settings)
    provider, model = (str(values.get(one) or os.environ.get(one, "")).strip() for one in ("LLM_PROVIDER", "LLM_MODEL"))
    key = os.environ.get("LLM_API_KEY") or (PLACEHOLDER_KEY if provider.lower() == "openai" else "")
    choice = resolve_provider(values, {**os.environ, "LLM_API_KEY": key})
    if model and not choice.is_chosen:
        return _choice(settings, model)
    return choice


def _price(settings: BaseSettings, choice: ProviderChoice) -> Price | None:
    """Return the price of a model; LLM_PRICE_INPUT and so on are those of the settings' own model."""
    is_own = choice.model == _choice(settings, "").model
    price = price_of(choice.model, *own_prices(settings, os.environ)) if is_own else price_of(choice.model)
    return price and price.of_tier(choice.service_tier)
