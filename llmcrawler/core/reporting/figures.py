"""Reads the figures of a crawl from the flat stats that its components keep."""

# ruff: noqa: RUF009 - _of makes a field of a dataclass
from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

Stats = Mapping[str, Any]

_LASTING = (
    "downloader/request_count",
    "downloader/response_bytes",
    "downloader/response_status_count/",
    "llmcrawler/",
)
_PRIVATE = ("llmcrawler/politeness/proxies/",)

FAILED_PER_PAGE: Final = 10  # urls that may fail for each page of `max_pages`: a site could name dead ones for ever


def _of(stat: str, default: Any = 0) -> Any:
    """Make a field that is read from this stat; or from all below it, by the rest of their names, where it ends with
    "/".
    """
    if stat.endswith("/"):
        return field(default_factory=Counter, metadata={"stat": stat})
    return field(default=default, metadata={"stat": stat})


@dataclass(frozen=True, slots=True)
class BudgetFigures:
    """Limits and spending of the LLM's budget. Limits of 0 are none. Spending counts over all runs of a job; `cost_usd`
    None: the price is not known.
    """

    max_tokens: int = _of("llmcrawler/llm/budget_max_tokens")
    max_cost_usd: float = _of("llmcrawler/llm/budget_max_cost_usd")
    tokens: int = _of("llmcrawler/llm/budget_tokens")
    cost_usd: float | None = _of("llmcrawler/llm/budget_cost_usd", None)
    is_reached: bool = _of("llmcrawler/llm/budget_reached", default=False)


@dataclass(frozen=True, slots=True)
class LLMFigures:
    """Calls of the model in this run. `cost_usd` is None where its price is not known."""

    calls: int = _of("llmcrawler/llm/calls")
    calls_by_task: Counter[str] = _of("llmcrawler/llm/calls/")
    pages_shown: int = _of("llmcrawler/llm/pages_shown")
    prompt_tokens: int = _of("llmcrawler/llm/prompt_tokens")
    completion_tokens: int = _of("llmcrawler/llm/completion_tokens")
    provider_cached_tokens: int = _of("llmcrawler/llm/provider_cached_tokens")
    cost_usd: float | None = _of("llmcrawler/llm/cost_usd", None)
    cached_answers: int = _of("llmcrawler/llm/cached_answers")
    faults: Counter[str] = _of("llmcrawler/llm/faults/")
    provider: str = _of("llmcrawler/llm/provider", "")
    failure: str = _of("llmcrawler/llm/failure", "")
    budget: BudgetFigures | None = None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def provider_cached_share(self) -> float:
        """Return the share of the prompts' tokens that the provider had in its prompt cache, in 0..1."""
        return self.provider_cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a crawl so far. `errors` counts "stage/kind"; `queued` and `leased` are urls; `requests` are those
    that went out, repeats too; `noindex_pages` have no text because they say so.

    `goal` are the page types that are wanted first, with commas; `goal_records` counts over all runs of a job.
    `changes` counts the pages of a refresh by what became of them. `rights` counts pages by their marks
    (core/storage/rights_marks.py). `sources` counts the urls of a map, which are no pages; `map_end` says why it looked
    through no more pages.
    """

    llm: LLMFigures
    pages: int = _of("llmcrawler/pages")
    max_pages: int | None = _of("llmcrawler/max_pages", None)
    duplicates: int = _of("llmcrawler/duplicates")
    queued: int = _of("llmcrawler/frontier/queued")
    leased: int = _of("llmcrawler/frontier/leased")
    requests: int = _of("downloader/request_count")
    templates: int = _of("llmcrawler/templates")
    statuses: Counter[str] = _of("downloader/response_status_count/")
    page_types: Counter[str] = _of("llmcrawler/page_types/")
    page_records: Counter[str] = _of("llmcrawler/page_records/")
    goal: str = _of("llmcrawler/goal", "")
    goal_records: int = _of("llmcrawler/goal_records")
    max_records: int | None = _of("llmcrawler/max_records", None)
    changes: Counter[str] = _of("llmcrawler/changes/")
    decided_by: Counter[str] = _of("llmcrawler/decided_by/")
    rights: Counter[str] = _of("llmcrawler/rights/")
    errors: Counter[str] = _of("llmcrawler/errors/")
    noindex_pages: int = _of("llmcrawler/noindex_pages")
    sources: Counter[str] = _of("llmcrawler/urls/")
    map_end: str = _of("llmcrawler/map_end", "")

    @property
    def counted_pages(self) -> int:
        """The pages that count towards max_pages: a url that could not be fetched does not, nor does a duplicate."""
        return self.pages - self.failed_urls - self.duplicates

    @property
    def guessed_types(self) -> dict[str, int]:
        """The page types that no model told, by who guessed them: the trained classifier, and rules of thumb."""
        guessed = {"the trained classifier": self.decided_by["classifier"], "rules": self.decided_by["rule"]}
        return {who: count for who, count in guessed.items() if count}

    @property
    def failed_urls(self) -> int:
        return sum(count for kind, count in self.errors.items() if kind.startswith("fetch/"))


def read_figures(stats: Stats) -> Figures:
    """Return the figures; what is not in the stats (yet) counts as none."""
    budget = BudgetFigures(**_values(BudgetFigures, stats)) if "llmcrawler/llm/budget_tokens" in stats else None
    return Figures(llm=LLMFigures(**_values(LLMFigures, stats), budget=budget), **_values(Figures, stats))


def _values(figures: Any, stats: Stats) -> dict[str, Any]:
    read = {one.name: one.metadata["stat"] for one in fields(figures) if "stat" in one.metadata}
    values: dict[str, Any] = {name: stats[stat] for name, stat in read.items() if stat in stats}
    for name, prefix in read.items():
        if prefix.endswith("/"):
            below = {key.removeprefix(prefix): int(value) for key, value in stats.items() if key.startswith(prefix)}
            values[name] = Counter(below)
    return values


def lasting_stats(stats: Stats) -> dict[str, int | float]:
    """Return the stats that are worth keeping after a run. Proxies are about who crawls, and what is kept may be handed
    on.
    """
    return {
        name: value
        for name, value in stats.items()
        if name.startswith(_LASTING) and not name.startswith(_PRIVATE) and isinstance(value, int | float)
    }
