"""Shows in words what was planned beside what came of it. Plans are read as make_plan gives them to JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.reporting.text import count, dollars, duration
from llmcrawler.core.storage.job_status import JobStatus

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Actual:
    """Figures of a crawl so far, over all its runs but for `seconds`. `cost_usd` None: the price is not known."""

    pages: int
    errors: int
    seconds: float | None = None
    llm_calls: int = 0
    llm_tokens: int = 0
    cost_usd: float | None = None


def job_plan_rows(
    status: JobStatus, llm_calls: int | None = None, llm_tokens: int | None = None
) -> list[tuple[str, str, str]]:
    """Return the rows of plan_rows for a job, none where nothing was planned. The calls and tokens are of all runs,
    where one knows them: the status has those since the last refresh began.
    """
    if status.plan is None:
        return []
    actual = Actual(
        pages=status.urls["done"],
        errors=status.urls["dead"],
        seconds=status.rate.seconds if status.runs == 1 else None,
        llm_calls=int(status.spent.get("calls", 0)) if llm_calls is None else llm_calls,
        llm_tokens=int(status.spent.get("tokens", 0)) if llm_tokens is None else llm_tokens,
        cost_usd=status.spent.get("cost_usd"),
    )
    return plan_rows(status.plan, actual)


def plan_rows(plan: Mapping[str, Any], actual: Actual) -> list[tuple[str, str, str]]:
    """Return (figure, planned, actual), as words."""
    llm = plan["llm"]
    has_llm = bool(llm["model"]) or actual.llm_calls > 0
    rows: list[tuple[str, Amounts | None, float | None, Callable[[float], str]]] = [
        ("pages", plan["pages"], actual.pages, count),
        ("errors", plan["errors"], actual.errors, count),
        ("time", plan["seconds"], actual.seconds, duration),
        ("LLM calls", llm["calls"], actual.llm_calls if has_llm else None, count),
        ("LLM tokens", llm["tokens"], actual.llm_tokens if has_llm else None, count),
        ("cost", llm["cost_usd"], actual.cost_usd, dollars),
    ]
    return [
        (name, planned(amounts, word), word(come))
        for name, amounts, come, word in rows
        if amounts is not None and come is not None
    ]


def words_of_amounts(amounts: Amounts, word: Callable[[float], str]) -> list[str]:
    """Return the low, the likely and the high amount."""
    return [word(amounts[name]) for name in ("low", "likely", "high")]


def planned(amounts: Amounts, word: Callable[[float], str]) -> str:
    """Return the likely amount, and how far it may be off."""
    low, likely, high = words_of_amounts(amounts, word)
    return likely if low == high else f"{likely} ({low} to {high})"
