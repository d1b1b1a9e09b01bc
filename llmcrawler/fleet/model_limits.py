"""Keeps the budget and the pace of the model over crawls of many machines, which share nothing else in their Redis."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

from redis.exceptions import RedisError

from llmcrawler.errors import LLMFailed, StorageFailed
from llmcrawler.fleet.connection import RedisConnection, check_redis

if TYPE_CHECKING:
    from llmcrawler.core.llm import AnswerStore
    from llmcrawler.fleet.connection import RedisConnection


class SharedRate:
    """Limits calls as llm.RateLimiter does, for all workers together."""

    def __init__(self, connection: RedisConnection, requests_per_minute: int, tokens_per_minute: int) -> None:
        self._connection = connection
        self._limits = (requests_per_minute, tokens_per_minute)
        self._number = count()
        self._posted: set[asyncio.Task[Any]] = set()

    def hold(self, seconds: float) -> None:
        """Start no call for so many seconds, as the server refused one as too fast."""
        self._post("hold_calls", seconds)

    async def admit(self, tokens: int) -> str:
        name = f"{self._connection.worker}/{next(self._number)}"
        while True:
            wait_seconds = float(await self._connection.run("admit_call", *self._limits, tokens, name))
            if wait_seconds <= 0:
                return name
            await asyncio.sleep(wait_seconds)

    def settle(self, entry: Any, tokens: int) -> None:
        self._post("settle_call", entry, tokens)

    def _post(self, script: str, *arguments: str | float) -> None:
        self._connection.post(self._connection.run(script, *arguments), self._posted)


class SharedBudget:
    """Takes the price of calls from the budget of the crawl. What is not given back is spent: a worker that is killed
    leaves the whole price of its calls.
    """

    def __init__(self, connection: RedisConnection, max_tokens: int, max_cost_usd: float) -> None:
        self._connection = connection
        self._limits = (max_tokens, max_cost_usd)

    async def take(self, tokens: int, cost_usd: float) -> tuple[bool, int, float]:
        """Take from the budget; return whether that was left, and the tokens and money that all workers have taken."""
        taken, all_tokens, all_cost = await self._connection.run("take_budget", *self._limits, tokens, cost_usd)
        return bool(taken), int(all_tokens), float(all_cost)

    async def give_back(self, tokens: int, cost_usd: float) -> None:
        await self._connection.run("add_to_budget", -tokens, -cost_usd)


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


class SharedAnswers:
    """Looks answers up in this machine's own store, if it has one, then among those of the crawl's other workers."""

    _NAME = "answers"

    def __init__(self, connection: RedisConnection, own: AnswerStore | None) -> None:
        self._connection = connection
        self._own = own
        self._name = f"{connection.prefix}:{self._NAME}"

    async def get(self, key: str) -> Any | None:
        found = await self._own.get(key) if self._own is not None else None
        if found is not None:
            return found
        packed = await self._connection.call(lambda: self._connection.client.hget(self._name, key))
        return None if packed is None else json.loads(packed)

    async def put(self, key: str, value: Any) -> None:
        if self._own is not None:
            await self._own.put(key, value)
        await self._connection.put(self._NAME, {key: json.dumps(value, ensure_ascii=False)})

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()
