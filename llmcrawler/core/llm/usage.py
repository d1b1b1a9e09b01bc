"""Counts what the model was asked, and what that cost."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llmcrawler.core.llm.openai_transport import Completion

FLEX = "flex"  # OpenAI's service tier for what may take its time
_FLEX_SHARE = 0.5
BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text`: one for four bytes of UTF-8, rounded up.

    OpenAI gives four characters of English a token ("What are tokens and how to count them", OpenAI help centre).
    Their byte-pair encodings work on bytes, so bytes keep the rule near for other scripts too, where a character
    costs more: Cyrillic half a token, Chinese three quarters.
    """
    size_bytes = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size_bytes // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens as the server counts them. Of the prompt's, `cached` were in the provider's cache, `cache_written` were
    put there.
    """

    prompt: int
    completion: int
    cached: int = 0
    cache_written: int = 0

    def plausible(self) -> Tokens:
        """Return them with no more of the cache than the prompt has."""
        cached = min(self.cached, self.prompt)
        return replace(self, cached=cached, cache_written=min(self.cache_written, self.prompt - cached))


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens; `cached_input` is for prompt tokens that the provider had in its cache,
    `cache_write` for those that it put there (None: as all other input). `flex_share` is what flex processing costs of
    that.
    """

    input: float
    output: float
    cached_input: float
    cache_write: float | None = None
    flex_share: float = 1.0

    def of_tier(self, service_tier: str | None) -> Price:
        share = self.flex_share if service_tier == FLEX else 1.0
        write = None if self.cache_write is None else self.cache_write * share
        return Price(self.input * share, self.output * share, self.cached_input * share, write)

    def cost_usd(self, tokens: Tokens) -> float:
        write = self.input if self.cache_write is None else self.cache_write
        fresh = tokens.prompt - tokens.cached - tokens.cache_written
        paid_in = fresh * self.input + tokens.cached * self.cached_input + tokens.cache_written * write
        return (paid_in + tokens.completion * self.output) / 1_000_000

    def most_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the most that a call can cost: all of its prompt at the highest of the prices that it may have."""
        dearest = max(self.input, self.cached_input, self.cache_write or 0.0)
        return (prompt_tokens * dearest + completion_tokens * self.output) / 1_000_000


# OpenAI's list prices (developers.openai.com/api/docs/pricing), standard tier, short prompts, as of November 2026; flex
# costs half. Small models only: for any other one set LLM_PRICE_INPUT and LLM_PRICE_OUTPUT.
PRICES = {
    "gpt-6-luna": Price(0.10, 0.50, 0.01, 0.125, _FLEX_SHARE),
    "gpt-5.6-luna": Price(0.20, 1.20, 0.02, 0.25, _FLEX_SHARE),
    "gpt-5.4-nano": Price(0.20, 1.25, 0.02, None, _FLEX_SHARE),
    "gpt-5.4-mini": Price(0.75, 4.50, 0.075, None, _FLEX_SHARE),
    "gpt-5-nano": Price(0.05, 0.40, 0.005, None, _FLEX_SHARE),
    "gpt-5-mini": Price(0.25, 2.00, 0.025, None, _FLEX_SHARE),
    "gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "gpt-4o-mini": Price(0.15, 0.60, 0.075),
}

_SNAPSHOT_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_GPT_VERSION = re.compile(r"(?:^|/)gpt-(\d+)(?:\.(\d+))?(?![\d.])")
_WRITE_SURCHARGE = 1.25


def charges_cache_writes(model: str) -> bool:
    """Tell whether it is one of OpenAI's models from GPT-5.6 on: what they put into the prompt cache costs 1.25 times
    the input price (developers.openai.com/api/docs/guides/prompt-caching).
    """
    found = _GPT_VERSION.search(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (5, 6)


def price_of(model: str, own_in: float | None = None, own_out: float | None = None) -> Price | None:
    """Return the price of a model, or None where it is not known. What the user pays for a million tokens of input or
    output, where that is given, wins over the table.
    """
    known = PRICES.get(_SNAPSHOT_DATE.sub("", model))
    if known is None and (own_in is None or own_out is None):
        return None
    paid_in = known.input if own_in is None and known else own_in or 0.0
    paid_out = known.output if own_out is None and known else own_out or 0.0
    # An input price of the user's own says nothing about the provider's cache: count its tokens in full.
    cached, write = (known.cached_input, known.cache_write) if known and own_in is None else (paid_in, None)
    if write is None and charges_cache_writes(model):
        write = paid_in * _WRITE_SURCHARGE
    # The user's own prices are those of the tier that the user chose.
    return Price(paid_in, paid_out, cached, write, known.flex_share if known and own_in is own_out is None else 1.0)


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
    provider_cache_write_tokens: int = 0
    cost_usd: float = 0.0


class Usage:
    """Running totals of one crawl. `price` None: the cost of some calls is not known, and so it is never shown as 0."""

    def __init__(
        self, price: Price | None = None, on_call: Callable[[CallReport], object] = lambda _call: None
    ) -> None:
        self.price = price
        self.on_call = on_call
        self.answers = 0
        self.bad_answers = 0
        self.retries = 0
        self.cached_answers = 0
        self.fallback_answers = 0  # of other servers than the first
        self.seconds = 0.0
        self.tasks: defaultdict[str, TaskUsage] = defaultdict(TaskUsage)
        self.faults: Counter[str] = Counter()

    @property
    def total(self) -> TaskUsage:
        return TaskUsage(*(sum(getattr(task, one.name) for task in self.tasks.values()) for one in fields(TaskUsage)))

    @property
    def cost_usd(self) -> float | None:
        return None if self.price is None else self.total.cost_usd

    def count_answer(self, task: str, tokens: Tokens, price: Price | None = None) -> None:
        """Count a call that was answered; `price` is that of the model that answered, where it is another one."""
        spent, tokens, price = self.tasks[task], tokens.plausible(), price or self.price
        self.answers += 1
        spent.calls += 1
        spent.prompt_tokens += tokens.prompt
        spent.completion_tokens += tokens.completion
        spent.provider_cached_tokens += tokens.cached
        spent.provider_cache_write_tokens += tokens.cache_written
        spent.cost_usd += price.cost_usd(tokens) if price is not None else 0.0

    def as_dict(self) -> dict[str, int | float]:
        """Return flat figures for stats: `calls`, `calls/TASK`, `faults/KIND`, ... A cost not known is left out."""
        figures: dict[str, int | float | None] = {
            "answers": self.answers,
            "bad_answers": self.bad_answers,
            "retries": self.retries,
            "cached_answers": self.cached_answers,
            "seconds": round(self.seconds, 3),
            "fallback_answers": self.fallback_answers or None,
            **asdict(self.total),
            "cost_usd": self.cost_usd,
        }
        for name, task in sorted(self.tasks.items()):
            figures[f"calls/{name}"] = task.calls or None
            if task.prompt_tokens:
                figures[f"prompt_tokens/{name}"] = task.prompt_tokens
                figures[f"completion_tokens/{name}"] = task.completion_tokens
                figures[f"cost_usd/{name}"] = None if self.price is None else task.cost_usd
                figures[f"provider_cached_tokens/{name}"] = task.provider_cached_tokens or None
        figures |= {f"faults/{kind}": count for kind, count in sorted(self.faults.items())}
        return {name: round(figure, 6) for name, figure in figures.items() if figure is not None}


def counted_tokens(answer: Completion, prompt_tokens: int) -> Tokens:
    """Return the tokens of a call, by the estimate of its messages where a server counts nothing or far too little, as
    some count only what was not in their cache. No text has 16 bytes a token throughout.
    """
    prompt, completion = (
        count if count is not None and 4 * count >= estimate else estimate
        for count, estimate in (
            (answer.prompt_tokens, prompt_tokens),
            (answer.completion_tokens, estimate_tokens(answer.text)),
        )
    )
    return Tokens(prompt, completion, answer.provider_cached_tokens, answer.provider_cache_write_tokens).plausible()
