"""What was planned of a crawl beside what came of it, in words. A plan is read as planning.Plan gives it to JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llmcrawler.reporting.words import duration
from llmcrawler.storage.status import JobStatus

Amounts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Actual:
    """What a crawl has come to so far, over all its runs but for `seconds`. `cost_usd` None: the price is not known."""

    pages: int
    errors: int
    seconds: float | None = None
    llm_calls: int = 0
    llm_tokens: int = 0
    cost_usd: float | None = None


def of_job(
    status: JobStatus, llm_calls: int | None = None, llm_tokens: int | None = None
) -> list[tuple[str, str, str]]:
    """As `beside`; none where nothing was planned. The calls and tokens are of all runs, where one knows them: the
    status has those since the last refresh began.
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
    return beside(status.plan, actual)


def beside(plan: Mapping[str, Any], actual: Actual) -> list[tuple[str, str, str]]:
    """(figure, planned, actual), as words."""
    is_paid = bool(plan["llm"]["model"])
    rows = [
        ("pages", _planned(plan["pages"], count), count(actual.pages)),
        ("errors", _planned(plan["errors"], count), count(actual.errors)),
    ]
    if actual.seconds is not None:
        rows.append(("time", _planned(plan["seconds"], duration), duration(actual.seconds)))
    if is_paid or actual.llm_calls:
        rows.append(("LLM calls", _planned(plan["llm"]["calls"], count), count(actual.llm_calls)))
        rows.append(("LLM tokens", _planned(plan["llm"]["tokens"], count), count(actual.llm_tokens)))
    cost = plan["llm"]["cost_usd"]
    if cost is not None and actual.cost_usd is not None:
        rows.append(("cost", _planned(cost, dollars), dollars(actual.cost_usd)))
    return rows


def words(amounts: Amounts, word: Callable[[float], str]) -> list[str]:
    return [word(amounts[name]) for name in ("low", "likely", "high")]


def _planned(amounts: Amounts, word: Callable[[float], str]) -> str:
    low, likely, high = words(amounts, word)
    return likely if low == high else f"{likely} ({low} to {high})"


def count(number: float) -> str:
    return f"{number:,.0f}"


def dollars(amount: float) -> str:
    return f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"
