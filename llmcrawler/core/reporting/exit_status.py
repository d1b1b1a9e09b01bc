"""Tells the exit status of a crawl from its stats: a schedule goes by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from llmcrawler.errors import BudgetSpent, LLMUnavailable
from llmcrawler.items import PageError

BUDGET_REACHED: Final = "llmcrawler/llm/budget_reached"
LLM_FAILURE: Final = "llmcrawler/llm/failure"  # the last error of a model that has answered nothing
LLM_IS_OPTIONAL: Final = "llmcrawler/llm/is_optional"

_LINES, _FAILED_LINES = "llmcrawler/lines", "llmcrawler/lines_failed"
_WITHOUT_LLM = "llmcrawler/lines_without_llm"  # as the budget was spent
_UNJUDGED = "llmcrawler/lines_unjudged"  # as the LLM could not be used
_FORBIDDEN = "llmcrawler/lines_forbidden"  # as the site said
_FAILED_FEEDS = "feedexport/failed_count/"  # and the kind of storage
_START_LINES, _FAILED_START_LINES = "llmcrawler/start_lines", "llmcrawler/start_lines_failed"

# Reasons to close that are an end as it was asked for. CLOSESPIDER_* limits are the user's own wish.
_GOOD_REASONS = {
    "finished",
    "closespider_itemcount",
    "closespider_pagecount",
    "closespider_pagecount_no_item",
    "closespider_timeout",
    "closespider_timeout_no_item",
}


class ExitStatus(IntEnum):
    """Exit status of scrapy crawl; where several apply, the lowest. 2 is wrong usage in all of Scrapy's commands."""

    FINISHED = 0
    ERROR = 1
    USAGE = 2
    INTERRUPTED = 3
    UNREACHABLE = 4
    BUDGET = 5
    ERRORS_SHARE = 6
    BUSY = 7


def count_item(count: Callable[[str], None], depth: int, error: PageError | None) -> None:
    """Count an item of the feed, of an earlier run of the job too. `count` adds one to a stat."""
    count(_LINES)
    if error is not None:
        count(_FAILED_LINES)
        if error.kind == BudgetSpent.kind:
            count(_WITHOUT_LLM)
        if error.kind == LLMUnavailable.kind:
            count(_UNJUDGED)
        if error.kind in ("robots", "rights"):
            count(_FORBIDDEN)
    if depth == 0:
        count(_START_LINES)
        if error is not None and error.stage == "fetch":
            count(_FAILED_START_LINES)


def reason_words(reason: str) -> str:
    """Return what is said after "stopped" of a crawl that Scrapy ended for this reason."""
    return "by Ctrl-C or SIGTERM" if reason == "shutdown" else f"({reason})"


def nothing_came(stats: Mapping[str, Any]) -> bool:
    """Tell whether no start url could be fetched."""
    return bool(0 < stats.get(_START_LINES, 0) == stats.get(_FAILED_START_LINES, 0))


def exit_status_of(stats: Mapping[str, Any], max_errors_share: float) -> tuple[ExitStatus, str]:
    """Return the exit status, and why it is that, in words."""
    reason = stats.get("finish_reason")
    forbidden = stats.get(_FORBIDDEN, 0)
    lines, failed = stats.get(_LINES, 0) - forbidden, stats.get(_FAILED_LINES, 0) - forbidden
    if stats.get(LLM_IS_OPTIONAL):
        failed -= stats.get(_UNJUDGED, 0)
    if any(value and name.startswith(_FAILED_FEEDS) for name, value in stats.items()):
        return ExitStatus.ERROR, "a feed could not be written, see the log"
    if (failure := stats.get(LLM_FAILURE)) and not stats.get(LLM_IS_OPTIONAL):
        return ExitStatus.ERROR, f"each question to the model failed, the last one with: {failure}"
    # A failed page is a line of the feed and no error of the log.
    if stats.get("llmcrawler/internal_errors") or stats.get("log_count/ERROR") or stats.get("log_count/CRITICAL"):
        return ExitStatus.ERROR, "there were errors beside those of pages, see the log"
    if reason not in _GOOD_REASONS:
        return ExitStatus.INTERRUPTED, f"stopped before its end {reason_words(reason or 'killed')}"
    if nothing_came(stats):
        return ExitStatus.UNREACHABLE, "nothing came from the start urls"
    if stats.get(BUDGET_REACHED) or stats.get(_WITHOUT_LLM):  # in this run, or in an earlier one of the job
        return ExitStatus.BUDGET, "the budget of the LLM was reached"
    if lines and failed / lines > max_errors_share:
        what = f"{failed:,} of {lines:,} pages have errors, {failed / lines:.1%}"
        return ExitStatus.ERRORS_SHARE, f"{what}: more than CRAWL_MAX_ERRORS_SHARE={max_errors_share:g}"
    return ExitStatus.FINISHED, "finished"
