"""Keeps the budget and the pace of the model over crawls of many machines, which share nothing else in their Redis."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from redis.exceptions import RedisError

from llmcrawler.errors import LLMFailed, StorageFailed
from llmcrawler.fleet.connection import RedisConnection
from llmcrawler.fleet.redis_checks import check_redis
from llmcrawler.fleet.shared_budget import SharedBudget
from llmcrawler.fleet.shared_rate import SharedRate

logger = logging.getLogger(__name__)

T = TypeVar("T")

_DEFAULT_NAME: Final = "budget"
_PATIENCE_SECONDS: Final = 60.0


class CommonLimits:
    """A CommonBudget and a CallRate. `url` is a Redis, and after a # the name of the budget there."""

    def __init__(self, url: str) -> None:
        self._url, _, name = url.partition("#")
        self._name = name or _DEFAULT_NAME
        self._connection: RedisConnection | None = None
        self._has_begun = False

    def check(self) -> None:
        """Raise ConfigError where no budget could be kept there."""
        check_redis(self._url, self._name)

    def limit(self, max_tokens: int, max_cost_usd: float, requests_per_minute: int, tokens_per_minute: int) -> None:
        """Give the limits, before anything else is asked."""
        self._connection = RedisConnection(self._url, self._name, secrets.token_hex(8))
        self._connection.stop_waiting(_PATIENCE_SECONDS)
        self._budget = SharedBudget(self._connection, max_tokens, max_cost_usd)
        self._rate = SharedRate(self._connection, requests_per_minute, tokens_per_minute)

    async def take(self, tokens: int, cost_usd: float) -> tuple[bool, int, float]:
        return await self._ask(lambda: self._budget.take(tokens, cost_usd))

    async def give_back(self, tokens: int, cost_usd: float) -> None:
        """Return what a call held and did not cost. Where Redis is away it stays spent."""
        try:
            await self._ask(lambda: self._budget.give_back(tokens, cost_usd))
        except LLMFailed as error:
            logger.warning("What a call did not cost stays spent: %s", error)

    async def admit(self, tokens: int) -> str:
        return await self._ask(lambda: self._rate.admit(tokens))

    def hold(self, seconds: float) -> None:
        self._rate.hold(seconds)

    def settle(self, entry: Any, tokens: int) -> None:
        self._rate.settle(entry, tokens)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Raise LLMFailed where Redis stays away, or came back without what was spent."""
        assert self._connection is not None
        try:
            if not self._has_begun:
                self._has_begun = True
                # A Redis that comes back without it has lost what was spent, which the connection notices by this.
                await self._connection.put("meta", {"budget": "1"})
            return await ask()
        except (StorageFailed, RedisError) as error:
            raise LLMFailed(f"LLM_BUDGET_URL: {error}; nothing is asked without it") from error
