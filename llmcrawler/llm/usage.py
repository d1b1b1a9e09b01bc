"""What the model was asked and what that cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


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
    """The price of a model, or None when it is not known; figures of the user's win over the table."""
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
    """One HTTP request that has just come back. `fault` is None where it brought an answer."""

    task: str
    model: str
    host: str
    seconds: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    fault: str | None = None


class Usage:
    """Running totals of one crawl; `watchers` are told of each call. A call is one HTTP request that reached the
    server, repeats and faults included.

    `price` None means that the cost is not known, and so it is never shown as 0.
    """

    def __init__(self, price: Price | None = None) -> None:
        self.price = price
        self.calls = 0
        self.answers = 0
        self.bad_answers = 0
        self.retries = 0
        self.cached_answers = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.provider_cached_tokens = 0
        self.seconds = 0.0
        self.calls_by_task: Counter[str] = Counter()
        self.prompt_tokens_by_task: Counter[str] = Counter()
        self.completion_tokens_by_task: Counter[str] = Counter()
        self.provider_cached_tokens_by_task: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.watchers: list[Callable[[CallReport], None]] = []

    @property
    def cost_usd(self) -> float | None:
        if self.price is None:
            return None
        return self.price.cost_usd(self.prompt_tokens, self.completion_tokens, self.provider_cached_tokens)

    def cost_of_task_usd(self, task: str) -> float | None:
        if self.price is None:
            return None
        return self.price.cost_usd(
            self.prompt_tokens_by_task[task],
            self.completion_tokens_by_task[task],
            self.provider_cached_tokens_by_task[task],
        )

    def count_call(self, task: str) -> None:
        self.calls += 1
        self.calls_by_task[task] += 1

    def count_tokens(
        self, task: str, prompt_tokens: int, completion_tokens: int, provider_cached_tokens: int = 0
    ) -> None:
        cached = min(provider_cached_tokens, prompt_tokens)
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        self.provider_cached_tokens += cached
        self.prompt_tokens_by_task[task] += prompt_tokens
        self.completion_tokens_by_task[task] += completion_tokens
        self.provider_cached_tokens_by_task[task] += cached

    def tell(self, call: CallReport) -> None:
        for watch in self.watchers:
            watch(call)

    def count_fault(self, kind: str) -> None:
        self.faults[kind] += 1

    def as_dict(self) -> dict[str, int | float]:
        """Flat figures for stats: `calls`, `calls/TASK`, `faults/KIND`, ... A cost that is not known is left out."""
        figures: dict[str, int | float] = {
            "calls": self.calls,
            "answers": self.answers,
            "bad_answers": self.bad_answers,
            "retries": self.retries,
            "cached_answers": self.cached_answers,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "provider_cached_tokens": self.provider_cached_tokens,
            "seconds": round(self.seconds, 3),
        }
        if self.cost_usd is not None:
            figures["cost_usd"] = round(self.cost_usd, 6)
        figures |= {f"calls/{task}": count for task, count in sorted(self.calls_by_task.items())}
        for task in sorted(self.prompt_tokens_by_task):
            figures[f"prompt_tokens/{task}"] = self.prompt_tokens_by_task[task]
            figures[f"completion_tokens/{task}"] = self.completion_tokens_by_task[task]
            cost_usd = self.cost_of_task_usd(task)
            if cost_usd is not None:
                figures[f"cost_usd/{task}"] = round(cost_usd, 6)
        figures |= {f"faults/{kind}": count for kind, count in sorted(self.faults.items())}
        return figures
