"""Clients of one server, what they ask, their time, and what watches a crawl for a batcher, for tests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.llm.call_limits import CallLimits, Clock
from llmcrawler.core.llm.client import LLMClient
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.providers import Endpoint, ProviderChoice

KEY = "sk-live-0123456789abcdef"
WALL_SECONDS = 1_800_000_000.0
LABELS = ["product", "listing", "other"]
ENTRY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "label", "confidence"],
    "properties": {
        "id": {"type": "string"},
        "label": {"type": "string", "enum": LABELS},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["pages"],
    "properties": {"pages": {"type": "array", "items": ENTRY}},
}


class FakeTime:
    """Time that passes only when someone sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: WALL_SECONDS + self.now, self.sleep, lambda: 0.0)


@dataclass
class Watch:
    """A BatchWatch."""

    reason_to_flush: Callable[[], str | None] = lambda: None
    is_ending: Callable[[], bool] = lambda: False


def client_at(base_url: str, model: str, api_key: str, **options: Any) -> LLMClient:
    """Return a client; options are those of the server's choice, its limits and price, and the client's own."""
    of_the_choice = ("reasoning_effort", "service_tier", "is_fallback")
    chosen = {name: options.pop(name) for name in of_the_choice if name in options}
    choice = ProviderChoice("openai", base_url, model, api_key, **chosen)
    limits = options.pop("limits", None) or CallLimits()
    return LLMClient(Endpoint(choice, limits, options.pop("price", None)), **options)


def document(count: int = 2) -> dict[str, Any]:
    pages = [{"id": str(n), "url": f"http://shop.test/p/{n}", "title": "T", "text": "x"} for n in range(1, count + 1)]
    return {"task": "classify", "labels": [{"name": name, "description": ""} for name in LABELS], "pages": pages}


async def ask(client: Any, count: int = 2, **options: Any) -> Any:
    """Ask a client or a model about pages of a shop."""
    return await client.ask(ModelRequest("classify", "You sort pages.", document(count), SCHEMA, **options))


async def ask_on(client: Any) -> None:
    for _ in range(1000):
        await ask(client)
