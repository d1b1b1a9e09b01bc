"""The figures of a crawl, read from the flat stats that its components keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Stats = Mapping[str, Any]

_LASTING = (
    "downloader/request_count",
    "downloader/response_bytes",
    "downloader/response_status_count/",
    "llmcrawler/",
)
_PRIVATE = ("llmcrawler/proxies/",)


@dataclass(frozen=True, slots=True)
class BudgetFigures:
    """Limits of 0 are none. What is spent counts over all runs of a job; `cost_usd` None: the price is not known."""

    max_tokens: int
    max_cost_usd: float
    tokens: int
    cost_usd: float | None
    is_reached: bool


@dataclass(frozen=True, slots=True)
class LLMFigures:
    """`cost_usd` is None where the model's price is not known."""

    calls: int
    calls_by_task: Counter[str]
    pages_shown: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    cached_answers: int
    faults: Counter[str]
    budget: BudgetFigures | None = None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Figures:
    """`errors` counts "stage/kind"; `queued` and `leased` are urls; `requests` are those that went out, repeats too.

    `sources` counts the urls of a map, whose lines are no pages; `map_end` says why it looked through no more pages.
    """

    pages: int
    max_pages: int | None
    queued: int
    leased: int
    dead: int
    requests: int
    templates: int
    statuses: Counter[str]
    page_types: Counter[str]
    decided_by: Counter[str]
    errors: Counter[str]
    llm: LLMFigures
    sources: Counter[str] = field(default_factory=Counter)
    map_end: str = ""

    @property
    def counted_pages(self) -> int:
        """Those that count towards max_pages: a page that could not be fetched does not."""
        return self.pages - sum(count for kind, count in self.errors.items() if kind.startswith("fetch/"))


def read_figures(stats: Stats) -> Figures:
    """What is not in the stats (yet) counts as none."""
    return Figures(
        pages=_count(stats, "llmcrawler/pages"),
        max_pages=stats.get("llmcrawler/max_pages"),
        queued=_count(stats, "llmcrawler/frontier/queued"),
        leased=_count(stats, "llmcrawler/frontier/leased"),
        dead=_count(stats, "llmcrawler/frontier/dead"),
        requests=_count(stats, "downloader/request_count"),
        templates=_count(stats, "llmcrawler/templates"),
        statuses=_counts_below(stats, "downloader/response_status_count/"),
        page_types=_counts_below(stats, "llmcrawler/page_types/"),
        decided_by=_counts_below(stats, "llmcrawler/decided_by/"),
        errors=_counts_below(stats, "llmcrawler/errors/"),
        llm=LLMFigures(
            calls=_count(stats, "llmcrawler/llm/calls"),
            calls_by_task=_counts_below(stats, "llmcrawler/llm/calls/"),
            pages_shown=_count(stats, "llmcrawler/llm/pages_shown"),
            prompt_tokens=_count(stats, "llmcrawler/llm/prompt_tokens"),
            completion_tokens=_count(stats, "llmcrawler/llm/completion_tokens"),
            cost_usd=stats.get("llmcrawler/llm/cost_usd"),
            cached_answers=_count(stats, "llmcrawler/llm/cached_answers"),
            faults=_counts_below(stats, "llmcrawler/llm/faults/"),
            budget=_budget(stats),
        ),
        sources=_counts_below(stats, "llmcrawler/urls/"),
        map_end=str(stats.get("llmcrawler/map_end", "")),
    )


def lasting_stats(stats: Stats) -> dict[str, int | float]:
    """Those that are worth keeping after a run. Proxies are about who crawls, and what is kept may be handed on."""
    return {
        name: value
        for name, value in stats.items()
        if name.startswith(_LASTING) and not name.startswith(_PRIVATE) and isinstance(value, int | float)
    }


def _budget(stats: Stats) -> BudgetFigures | None:
    if "llmcrawler/llm/budget_tokens" not in stats:
        return None
    return BudgetFigures(
        max_tokens=_count(stats, "llmcrawler/llm/budget_max_tokens"),
        max_cost_usd=float(stats.get("llmcrawler/llm/budget_max_cost_usd", 0)),
        tokens=_count(stats, "llmcrawler/llm/budget_tokens"),
        cost_usd=stats.get("llmcrawler/llm/budget_cost_usd"),
        is_reached=bool(stats.get("llmcrawler/llm/budget_reached")),
    )


def _count(stats: Stats, key: str) -> int:
    return int(stats.get(key, 0))


def _counts_below(stats: Stats, prefix: str) -> Counter[str]:
    return Counter({key.removeprefix(prefix): int(value) for key, value in stats.items() if key.startswith(prefix)})
