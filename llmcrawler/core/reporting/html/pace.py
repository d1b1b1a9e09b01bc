"""Tells how fast the crawl was over time, and what bounded it, by Little's law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.reporting.crawl_limits import GAP
from llmcrawler.core.reporting.text import percent
from llmcrawler.core.reporting.timeline import Bucket, Timeline
from llmcrawler.core.storage.job_file import Run

# Advice that would lift a limit, by its name (crawl_limits.py).
_CURES: Mapping[str, str] = {
    GAP: ("A shorter DOWNLOAD_DELAY (it was {DOWNLOAD_DELAY} s) would make it faster, at the site's expense."),
    "requests in flight per host": (
        "More requests in flight would make it faster: CONCURRENT_REQUESTS_PER_DOMAIN was "
        "{CONCURRENT_REQUESTS_PER_DOMAIN}, and the throttle allowed no more than the site took well."
    ),
    "requests in flight": "CONCURRENT_REQUESTS (it was {CONCURRENT_REQUESTS}) held it back over all hosts together.",
    "hosts that rest": (
        "The site asked to be left alone for a while (429, 503 or failures): a slower crawl may be a quicker one."
    ),
    "waiting for links to follow": (
        "It had fetched all that it knew and waited for pages to name more: links come in a chain."
    ),
    "pages in process": (
        "Downloads waited for pages to be read and classified: a faster model, or LLM_CONCURRENCY, would help."
    ),
    "the speed of this machine": "The site would have taken more than this machine asked for.",
}


# What the limits are, in words that go on after "held back by".
LIMITS: Mapping[str, str] = {
    "the gap between requests": "the pause between two requests to a host",
    "requests in flight per host": "the number of requests allowed at once to a host",
    "requests in flight": "the number of requests allowed at once to all hosts together",
    "hosts that rest": "hosts that asked for a rest or kept failing",
    "waiting for links to follow": "a lack of urls: all that were known had been asked for",
    "pages in process": "pages that had to be read and classified first",
    "the speed of this machine": "this machine, which asked for less than was allowed",
}


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of one run. `limits` are (name, seconds, share of the time), the longest first; `words` is Little's law
    in figures, `cure` what would change the first of them.
    """

    seconds: float
    total: Bucket
    limits: tuple[tuple[str, float, float], ...]
    words: str
    cure: str

    @property
    def bound(self) -> str:
        if not self.limits:
            return ""
        name, _seconds, share = self.limits[0]
        return f"{percent(share)} of the time it was held back by {LIMITS.get(name, name)}"

    @property
    def urls_per_second(self) -> float:
        return self.total.pages / self.seconds if self.seconds else 0.0


def pace_of(timeline: Timeline, seconds: float, settings: Mapping[str, Any]) -> Pace:
    total = timeline.total()
    held = sum(total.limits.values())
    limits = tuple(
        (name, spent, spent / held) for name, spent in sorted(total.limits.items(), key=lambda pair: -pair[1]) if spent
    )
    return Pace(seconds, total, limits, _little(total, seconds), _cure(limits, settings))


def _little(total: Bucket, seconds: float) -> str:
    latency = total.mean_latency
    answers = total.latencies.total()
    if latency is None or not seconds:
        return ""
    rate = answers / seconds
    words = f"{rate:.2f} answers/s × {latency:.2f} s on average = {rate * latency:.1f} requests in flight"
    return f"{words}; {total.allowed:.1f} were allowed" if total.allowed else words


def _cure(limits: tuple[tuple[str, float, float], ...], settings: Mapping[str, Any]) -> str:
    if not limits:
        return ""
    if limits[0][0] == GAP and settings.get("DOWNLOAD_DELAY") in ("0", "0.0"):
        return "The site set the gap itself: with a Crawl-delay in its robots.txt, or by refusing what came faster."
    return _CURES.get(limits[0][0], "").format_map({**dict.fromkeys(_SETTINGS, "?"), **settings})


_SETTINGS = ("DOWNLOAD_DELAY", "CONCURRENT_REQUESTS_PER_DOMAIN", "CONCURRENT_REQUESTS")


def chart_data(timeline: Timeline, start: float, seconds: float, *, is_whole: bool) -> dict[str, Any]:
    """Return columns over `at`, seconds since the start of the run. `is_whole` False: there are pages only."""
    width = timeline.width_seconds
    buckets = timeline.buckets
    lengths = [max(min(width, seconds - number * width), 0.25 * width) for number in range(len(buckets))]
    columns: dict[str, list[Any]] = {
        "at": [round(number * width, 2) for number in range(len(buckets))],
        "pages": [round(one.pages / length, 2) for one, length in zip(buckets, lengths, strict=True)],
        "errors": [one.errors for one in buckets],
        "p50": [_rounded(one.latency(0.5)) for one in buckets],
        "p95": [_rounded(one.latency(0.95)) for one in buckets],
    }
    if is_whole:
        columns |= {
            "in_flight": [_rounded(one.in_flight) for one in buckets],
            "allowed": [_rounded(one.allowed) for one in buckets],
            "refused": [one.refused for one in buckets],
            "queued": [one.queued if one.samples else None for one in buckets],
        }
    return {"start": start, "width": width, "columns": columns}


def chart_rows(data: Mapping[str, Any], most: int = 24) -> list[dict[str, Any]]:
    """Return the same for a table, with fewer rows: sums of counts, means of the others."""
    columns = data["columns"]
    count = len(columns["at"])
    step = max(1, -(-count // most))
    rows = []
    for first in range(0, count, step):
        part = {name: values[first : first + step] for name, values in columns.items()}
        rows.append({name: _folded(name, values) for name, values in part.items()})
    return rows


def _folded(name: str, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if name == "at":
        return known[0]
    if name in ("errors", "refused"):
        return sum(known)
    return known[-1] if name == "queued" else round(sum(known) / len(known), 2)


def last_busy(runs: list[Run]) -> Run | None:
    """Return the newest run that asked the site for anything, else the newest."""
    for run in reversed(runs):
        if Timeline.of_json(run.timeline).total().answers:
            return run
    return runs[-1] if runs else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
