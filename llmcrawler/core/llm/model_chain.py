"""Asks several servers in their order: the next where those before it cannot be asked."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from llmcrawler.core.llm.client import LLMClient
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.usage import Usage
from llmcrawler.errors import BudgetSpent, LLMError, LLMFailed, LLMUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ModelChain:
    """Used as LLMClient is. Each question goes to the first server that is not known to be out, and on to the next
    where it fails there for good.

    What a client knows of its own server makes that sticky: one that was refused (key, credit, model) is never asked
    again, one that was down is left alone, and tried again by a single call after 10 s, 20 s and so on up to 2 min.
    An answer that is no good is no reason to go on: the same question is asked again, in smaller parts.
    """

    def __init__(self, clients: Sequence[LLMClient], usage: Usage) -> None:
        self._clients = clients
        self._usage = usage
        self._current = 0

    async def ask(self, ask: ModelRequest) -> Any:
        """Return the answer of the first server that has one. Raises as LLMClient.ask does, with what each has said."""
        return await self._first(lambda client: client.ask(ask))

    async def check(self, ask: ModelRequest) -> None:
        """Do what LLMClient.check does, until one server can be used."""
        await self._first(lambda client: client.check(ask))

    async def model_name(self) -> str:
        """Return the model of the first server that tells it: kept answers stand under that one's name."""
        return await self._first(lambda client: client.model_name())

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _first(self, attempt: Callable[[LLMClient], Awaitable[T]]) -> T:
        errors: list[LLMError] = []
        for place, client in enumerate(self._clients):
            try:
                result = await attempt(client)
            except BudgetSpent:
                raise
            except (LLMUnavailable, LLMFailed) as error:
                errors.append(error)
                continue
            self._note(place, errors)
            return result
        what = "; ".join(f"{client.label}: {error}" for client, error in zip(self._clients, errors, strict=True))
        raise (LLMUnavailable if all(isinstance(one, LLMUnavailable) for one in errors) else LLMFailed)(what)

    def _note(self, place: int, errors: Sequence[LLMError]) -> None:
        """Count answers of others than the first, and say once where they come from now."""
        self._usage.fallback_answers += place > 0
        if place > self._current:
            label = self._clients[place].label
            logger.warning("The LLM is now %s (LLM_FALLBACKS), as before it: %s", label, "; ".join(map(str, errors)))
        elif place < self._current:
            logger.warning("The LLM is %s again", self._clients[place].label)
        self._current = place
