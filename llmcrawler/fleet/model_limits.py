"""Keeps the budget and the pace of the model over crawls of many machines, which share nothing else in their Redis."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError

from llmcrawler.errors import LLMFailed, StorageFailed
from llmcrawler.fleet.connection import RedisConnection, check_redis

if TYPE_CHECKING:
    from llmcrawler.core.llm.budget import BudgetLimits
    from llmcrawler.core.llm.cache import AnswerStore
    from llmcrawler.core.llm.call_limits import CallLimits

logger = logging.getLogger(__name__)

_DEFAULT_NAME: Final = "budget"
_PATIENCE_SECONDS: Final = 60.0


class SharedLimits:
    """The CommonBudget and the CallRate of all workers. A worker that is killed leaves the whole price of its calls."""

    def __init__(self, connection: RedisConnection, calls: CallLimits, budget: BudgetLimits) -> None:
        self._connection = connection
        self._per_minute = (calls.requests_per_minute, calls.tokens_per_minute)
        self._budget = (budget.max_tokens, budget.max_cost_usd)
        self._number = count()
        self._posted: set[asyncio.Task[Any]] = set()

    async def take(self, tokens: int, cost_usd: float) -> tuple[bool, int, float]:
        """Take from the budget; return whether that was left, and the tokens and money that all workers have taken."""
        taken, all_tokens, all_cost = await self._run("take_budget", *self._budget, tokens, cost_usd)
        return bool(taken), int(all_tokens), float(all_cost)

    async def give_back(self, tokens: int, cost_usd: float) -> None:
        """Return what a call held and did not cost."""
        await self._run("add_to_budget", -tokens, -cost_usd)

    async def admit(self, tokens: int) -> str:
        name = f"{self._connection.worker}/{next(self._number)}"
        while True:
            wait_seconds = float(await self._run("admit_call", *self._per_minute, tokens, name))
            if wait_seconds <= 0:
                return name
            await asyncio.sleep(wait_seconds)

    def hold(self, seconds: float) -> None:
        """Start no call for so many seconds, as the server refused one as too fast."""
        self._connection.post(self._connection.run("hold_calls", seconds), self._posted)

    def settle(self, entry: Any, tokens: int) -> None:
        self._connection.post(self._connection.run("settle_call", entry, tokens), self._posted)

    async def _run(self, script: str, *arguments: str | float) -> Any:
        return await self._connection.run(script, *arguments)


class CommonLimits(SharedLimits):
    """Those of crawls that share nothing else, at URL#NAME. Raises LLMFailed where Redis stays away or forgot them."""

    def __init__(self, url: str, calls: CallLimits, budget: BudgetLimits) -> None:
        where, _, name = url.partition("#")
        connection = RedisConnection(where, name or _DEFAULT_NAME, secrets.token_hex(8))
        connection.stop_waiting(_PATIENCE_SECONDS)
        super().__init__(connection, calls, budget)
        self._has_begun = False

    async def give_back(self, tokens: int, cost_usd: float) -> None:
        """Return what a call held and did not cost. Where Redis is away it stays spent."""
        try:
            await super().give_back(tokens, cost_usd)
        except LLMFailed as error:
            logger.warning("What a call did not cost stays spent: %s", error)

    async def close(self) -> None:
        await self._connection.close()

    async def _run(self, script: str, *arguments: str | float) -> Any:
        try:
            if not self._has_begun:
                self._has_begun = True
                # A Redis that comes back without it has lost what was spent, which the connection notices by this.
                await self._connection.put("meta", {"budget": "1"})
            return await super()._run(script, *arguments)
        except (StorageFailed, RedisError) as error:
            raise LLMFailed(f"LLM_BUDGET_URL: {error}; nothing is asked without it") from error


def check_budget_url(url: str) -> None:
    """Raise ConfigError where no budget could be kept there."""
    where, _, name = url.partition("#")
    check_redis(where, name or _DEFAULT_NAME)


class SharedAnswers:
    """Looks answers up in this machine's own store, if it has one, then among those of the crawl's other workers."""

    def __init__(self, connection: RedisConnection, own: AnswerStore | None) -> None:
        self._connection = connection
        self._own = own
        self._name = f"{connection.prefix}:answers"

    async def get(self, key: str) -> Any | None:
        found = await self._own.get(key) if self._own is not None else None
        if found is not None:
            return found
        packed = await self._connection.call(lambda: self._connection.client.hget(self._name, key))
        return None if packed is None else json.loads(packed)

    async def put(self, key: str, value: Any) -> None:
        if self._own is not None:
            await self._own.put(key, value)
        await self._connection.put("answers", {key: json.dumps(value, ensure_ascii=False)})

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()
