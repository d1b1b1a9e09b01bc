"""Limits what the model costs over a whole crawl, in tokens and money, which are held before each call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from llmcrawler.core.llm.usage import BYTES_PER_TOKEN, Price, Tokens
from llmcrawler.errors import BudgetSpent

logger = logging.getLogger(__name__)

# An estimate gives a token four bytes. Dense text (JSON, digits, scripts of their own) has two to three, so a call
# holds twice its estimate until answers have shown how this model counts, and then a quarter more than the worst.
_UNKNOWN_MARGIN: Final = 2.0
_LEAST_MARGIN: Final = 1.25
_ROOM: Final = 1.25
_MOST_MARGIN: Final = float(BYTES_PER_TOKEN)  # no tokeniser that works on bytes makes more tokens than there are bytes
_ENOUGH_ANSWERS: Final = 2
_FREE: Final = Price(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens, US dollars and calls that were paid, or are held."""

    tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.tokens + other.tokens, self.cost_usd + other.cost_usd, self.calls + other.calls)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.tokens - other.tokens, self.cost_usd - other.cost_usd, self.calls - other.calls)


class Account(Protocol):
    """Stores what a job has spent, as plain values. `keep` returns once it outlasts the process; `note` need not."""

    async def keep(self, spent: Mapping[str, float]) -> None: ...

    def note(self, spent: Mapping[str, float]) -> None: ...


class CommonBudget(Protocol):
    """Limits what several processes spend together. `take` returns whether so much was left, and the totals."""

    async def take(self, tokens: int, cost_usd: float) -> tuple[bool, int, float]: ...

    async def give_back(self, tokens: int, cost_usd: float) -> None: ...


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Limits over all calls; 0 means none. A limit in money needs a `price`, which holds where a call has no other."""

    max_tokens: int = 0
    max_cost_usd: float = 0.0
    price: Price | None = None

    def __bool__(self) -> bool:
        return bool(self.max_tokens or self.max_cost_usd)

    def allow(self, tokens: int, cost_usd: float) -> bool:
        # A millionth of a cent: sums of floats are not exact.
        return (not self.max_tokens or tokens <= self.max_tokens) and (
            not self.max_cost_usd or cost_usd <= self.max_cost_usd + 1e-8
        )


@dataclass(slots=True)
class Call:
    """A request to the server. One that ends with neither `settle` nor `release` may be on the bill: all that was held
    counts.
    """

    held: Spent
    price: Price
    paid: Spent
    counted_prompt_tokens: int | None = None

    def settle(self, tokens: Tokens, price: Price | None = None) -> None:
        """Pay for the tokens that the server counted; `price` where it is lower than what the call was held at."""
        cost_usd = (price or self.price).cost_usd(tokens.plausible())
        self.paid = Spent(tokens.prompt + tokens.completion, cost_usd, 1)
        self.counted_prompt_tokens = tokens.prompt

    def release(self) -> None:
        """Pay nothing, as the server did not answer the question."""
        self.paid = Spent()


class Budget:
    """Budget of one crawl. What calls under way may cost at most is held: spent and held never exceed the limits.

    That rests on two bounds: the prompt has no more tokens than the margin over its estimate allows, and the server
    keeps to the length of an answer that it was asked for. Where a server counts more than was held, that is what is
    spent, and the margin grows.
    """

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self.spent = Spent()
        self.is_reached = False
        self.refused_calls = 0
        self._held = Spent()
        self._worst_ratio = 0.0
        self._answers = 0
        self._changed = asyncio.Event()
        self._account: Account | None = None
        self._common: CommonBudget | None = None
        self._spent_by_all = Spent()  # as all processes had it last, with what is held

    def share(self, common: CommonBudget) -> None:
        """Count the calls of other processes too. `spent`, and the stats, are still of this one."""
        self._common = common

    def go_on(self, earlier: Mapping[str, float], account: Account) -> None:
        """Start from what earlier runs have spent. Before each call `account` gets what is spent if all calls under way
        are paid in full: a process that is killed leaves no call that is not counted.
        """
        self.spent = Spent(
            int(earlier.get("tokens", 0)), float(earlier.get("cost_usd", 0)), int(earlier.get("calls", 0))
        )
        self._account = account

    @asynccontextmanager
    async def call(self, prompt_tokens: int, answer_tokens: int, price: Price | None = None) -> AsyncIterator[Call]:
        """Hold what a call may cost, by an estimate and the most that is asked for; wait while calls under way may
        leave enough. Raises BudgetSpent.
        """
        price = price or self.limits.price or _FREE
        held = await self._hold(prompt_tokens, answer_tokens, price)
        call = Call(held, price, paid=held)
        try:
            if self._account is not None:
                await self._account.keep(self._committed())
            yield call
        finally:
            if call.counted_prompt_tokens is not None:
                self._answers += 1
                self._worst_ratio = max(self._worst_ratio, call.counted_prompt_tokens / max(1, prompt_tokens))
            try:  # first, as calls that wait for this one look there next
                if self._common is not None and self.limits:
                    unspent = held - call.paid
                    await self._common.give_back(unspent.tokens, unspent.cost_usd)
            finally:
                self._held -= held
                self.spent += call.paid
                self._changed.set()
                if self._account is not None:
                    self._account.note(self._committed())

    def as_dict(self) -> dict[str, int | float]:
        """Return figures for stats, over all runs of the crawl but for `budget_refused`; none without limits."""
        if not self.limits:
            return {}
        figures: dict[str, int | float] = {
            "budget_tokens": self.spent.tokens,
            "budget_refused": self.refused_calls,
            "budget_max_tokens": self.limits.max_tokens,
            "budget_max_cost_usd": self.limits.max_cost_usd,
        }
        if self.limits.price is not None:
            figures["budget_cost_usd"] = round(self.spent.cost_usd, 6)
        return figures | ({"budget_reached": True} if self.is_reached else {})

    async def _hold(self, prompt_tokens: int, answer_tokens: int, price: Price) -> Spent:
        while True:
            margin = min(_MOST_MARGIN, max(_LEAST_MARGIN, _ROOM * self._worst_ratio))
            if self._answers < _ENOUGH_ANSWERS:
                margin = max(_UNKNOWN_MARGIN, margin)
            most_prompt_tokens = int(prompt_tokens * margin) + 1
            # The provider may charge more for tokens that it puts into its cache.
            cost_usd = price.most_usd(most_prompt_tokens, answer_tokens)
            need = Spent(most_prompt_tokens + answer_tokens, cost_usd, 1)
            if await self._takes(need):
                return need
            if not self._held.calls or not self._allows(self.spent + need):
                raise self._refusal(need)
            self._changed.clear()
            await self._changed.wait()

    async def _takes(self, need: Spent) -> bool:
        if not self._allows(self.spent + self._held + need):
            return False
        self._held += need
        if self._common is None or not self.limits:
            return True
        is_taken = False
        try:
            is_taken, tokens, cost_usd = await self._common.take(need.tokens, need.cost_usd)
        finally:
            if not is_taken:
                self._held -= need
                self._changed.set()  # a call may wait for what this one held
        self._spent_by_all = Spent(tokens, cost_usd)
        return is_taken

    def _allows(self, spent: Spent) -> bool:
        return self.limits.allow(spent.tokens, spent.cost_usd)

    def _refusal(self, need: Spent) -> BudgetSpent:
        self.refused_calls += 1
        limits, spent = self.limits, self.spent if self._common is None else self._spent_by_all
        what = f"{spent.tokens:,} of LLM_MAX_TOKENS={limits.max_tokens:,}" if limits.max_tokens else ""
        if limits.max_cost_usd and (not what or limits.allow(spent.tokens + need.tokens, 0.0)):
            what = f"${spent.cost_usd:.4f} of LLM_MAX_COST_USD={limits.max_cost_usd:g}"
        reason = f"the budget is spent: {what}, which leaves too little for another call"
        if not self.is_reached:
            self.is_reached = True
            logger.warning("%s. Learned templates stay in use; rules and structured data decide the rest", reason)
        return BudgetSpent(reason)

    def _committed(self) -> dict[str, float]:
        committed = self.spent + self._held
        kept: dict[str, float] = {"tokens": committed.tokens, "calls": committed.calls}
        return kept | ({} if self.limits.price is None else {"cost_usd": round(committed.cost_usd, 9)})
