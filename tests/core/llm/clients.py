"""Clients of one server, and what watches a crawl for a batcher, for tests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.client import LLMClient
from llmcrawler.core.llm.providers import Endpoint, ProviderChoice


@dataclass
class Watch:
    """A BatchWatch."""

    reason_to_flush: Callable[[], str | None] = lambda: None
    is_ending: Callable[[], bool] = lambda: False


_OF_THE_CHOICE = ("reasoning_effort", "service_tier", "temperature", "is_fallback")


def client_at(base_url: str, model: str, api_key: str, **options: Any) -> LLMClient:
    """Return a client; options are those of the server's choice, its limits and price, and the client's own."""
    chosen = {name: options.pop(name) for name in _OF_THE_CHOICE if name in options}
    choice = ProviderChoice("openai", base_url, model, api_key, **chosen)
    limits = options.pop("limits", None) or CallLimits()
    return LLMClient(Endpoint(choice, limits, options.pop("price", None)), **options)
