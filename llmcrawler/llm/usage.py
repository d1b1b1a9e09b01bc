"""Counts what the model was asked, and what that cost."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens; `cached_input` is for prompt tokens that the provider had in its cache."""

    input: float
    output: float
    cached_input: float

    def cost_usd(self, prompt_tokens: int, completion_tokens: int, provider_cached_tokens: int) -> float:
        fresh = prompt_tokens - provider_cached_tokens
        total = fresh * self.input + provider_cached_tokens * self.cached_input + completion_tokens * self.output
        return total / 1_000_000


# OpenAI's list prices (developers.openai.com/api/docs/pricing), standard tier, short prompts, as of November 2026.
# Small models only: for any other one set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT.
PRICES: dict[str, Price] = {
    "gpt-6-luna": Price(0.10, 0.50, 0.01),
    "gpt-5.6-luna": Price(0.20, 1.20, 0.02),
    "gpt-5.4-nano": Price(0.20, 1.25, 0.02),
    "gpt-5.4-mini": Price(0.75, 4.50, 0.075),
    "gpt-5-nano": Price(0.05, 0.40, 0.005),
    "gpt-5-mini": Price(0.25, 2.00, 0.025),
    "gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "gpt-4o-mini": Price(0.15, 0.60, 0.075),
}

_SNAPSHOT_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def price_of(model: str, input_usd: float | None = None, output_usd: float | None = None) -> Price | None:
    """Return the price of a model, or None where it is not known; figures of the user's win over the table."""
    known = PRICES.get(_SNAPSHOT_DATE.sub("", model))
    if input_usd is None and output_usd is None:
        return known
    if known is None and (input_usd is None or output_usd is None):
        return None
    paid_in = input_usd if input_usd is not None else known.input if known else 0.0
    paid_out = output_usd if output_usd is not None else known.output if known else 0.0
    # A price of the user's own says nothing about the provider's cache: count its tokens in full.
    cached = paid_in if input_usd is not None else known.cached_input if known else paid_in
    return Price(paid_in, paid_out, cached)


@dataclass(frozen=True, slots=True)
class CallReport:
    """Report on an HTTP request that has just come back. `fault` is None where it brought an answer."""

    task: str
    model: str
    host: str
    seconds: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    fault: str | None = None


@dataclass(slots=True)
class TaskUsage:
    """Totals of one task. A call is one HTTP request that reached the server, repeats and faults included."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    provider_cached_tokens: int = 0

    def cost_usd(self, price: Price | None) -> float | None:
        if price is None:
            return None
        return price.cost_usd(self.prompt_tokens, self.completion_tokens, self.provider_cached_tokens)


class Usage:
    """Running totals of one crawl; `on_call` is told of each call.

    `price` None means that the cost is not known, and so it is never shown as 0.
    """

    def __init__(
        self, price: Price | None = None, on_call: Callable[[CallReport], object] = lambda _call: None
    ) -> None:
        self.price = price
        self.tell = on_call
        self.answers = 0
        self.bad_answers = 0
        self.retries = 0
        self.cached_answers = 0
        self.seconds = 0.0
        self.tasks: defaultdict[str, TaskUsage] = defaultdict(TaskUsage)
        self.faults: Counter[str] = Counter()

    @property
    def total(self) -> TaskUsage:
        return TaskUsage(*(sum(getattr(task, one.name) for task in self.tasks.values()) for one in fields(TaskUsage)))

    @property
    def cost_usd(self) -> float | None:
        return self.total.cost_usd(self.price)

    def count_call(self, task: str) -> None:
        self.tasks[task].calls += 1

    def count_tokens(
        self, task: str, prompt_tokens: int, completion_tokens: int, provider_cached_tokens: int = 0
    ) -> None:
        spent = self.tasks[task]
        spent.prompt_tokens += prompt_tokens
        spent.completion_tokens += completion_tokens
        spent.provider_cached_tokens += min(provider_cached_tokens, prompt_tokens)

    def as_dict(self) -> dict[str, int | float]:
        """Return flat figures for stats: `calls`, `calls/TASK`, `faults/KIND`, ... A cost not known is left out."""
        total = self.total
        figures: dict[str, int | float | None] = {
            "calls": total.calls,
            "answers": self.answers,
            "bad_answers": self.bad_answers,
            "retries": self.retries,
            "cached_answers": self.cached_answers,
            "prompt_tokens": total.prompt_tokens,
            "completion_tokens": total.completion_tokens,
            "provider_cached_tokens": total.provider_cached_tokens,
            "seconds": round(self.seconds, 3),
            "cost_usd": total.cost_usd(self.price),
        }
        for name, task in sorted(self.tasks.items()):
            figures[f"calls/{name}"] = task.calls or None
            if task.prompt_tokens:
                figures[f"prompt_tokens/{name}"] = task.prompt_tokens
                figures[f"completion_tokens/{name}"] = task.completion_tokens
                figures[f"cost_usd/{name}"] = task.cost_usd(self.price)
        figures |= {f"faults/{kind}": count for kind, count in sorted(self.faults.items())}
        return {name: round(figure, 6) for name, figure in figures.items() if figure is not None}
