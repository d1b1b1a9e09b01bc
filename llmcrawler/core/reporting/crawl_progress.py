"""Tells how far a crawl or a download is, how fast, and what holds it back, for the log or a display."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from llmcrawler.core.reporting.crawl_limits import DownloadFlow, HostThrottle, Limit, binding_limit
from llmcrawler.core.reporting.figures import Figures, Stats, read_figures
from llmcrawler.core.reporting.model_wait import ModelWait
from llmcrawler.core.reporting.record_summary import goal_progress
from llmcrawler.core.reporting.text import counts, duration, many, money, percent, plain, ranked

logger = logging.getLogger(__name__)

_BAR_CHARS = 20
_SELF_SAYING = ("pages", "queue", "left")  # rows that need no name
_SHOWN = 6  # page types, errors, hosts: the most frequent ones


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """A crawl at one moment. Rates are fetched pages per second: over the last half minute, and over the whole crawl.

    `fetched` pages are those that are written and those that wait; a url that could not be fetched is none of them.
    """

    figures: Figures
    fetched: int
    flow: DownloadFlow
    elapsed_seconds: float
    rate_now: float
    rate_overall: float
    latency_seconds: float | None
    limit: Limit | None
    waiting: ModelWait = field(default_factory=ModelWait)

    @property
    def pages_left(self) -> int | None:
        """Pages up to the cap, or the urls that are known where those are fewer; None when neither is known."""
        known = max(0, self.figures.queued + self.figures.leased - self.waiting.pages)
        if self.figures.max_pages is None:
            return known if known or self.waiting.pages else None
        return max(0, min(known, self.figures.max_pages - self.fetched))

    @property
    def seconds_left(self) -> float | None:
        """Time to fetch what is left, or for the model's calls where those take longer: both go on side by side."""
        rate = self.rate_now or self.rate_overall
        fetching = self.pages_left / rate if self.pages_left and rate else 0.0
        return max(fetching, self.waiting.seconds_left or 0.0) or None

    @property
    def is_capped(self) -> bool:
        """Tell whether more urls are known than may be fetched: the crawl then ends at its cap."""
        figures = self.figures
        if figures.max_pages is None:
            return False
        return figures.queued + figures.leased - self.waiting.pages >= figures.max_pages - self.fetched

    def as_line(self) -> str:
        """Return the report as one line of printable characters, whatever the pages hold."""
        rows = {name: ", ".join(parts) for name, parts in self.as_rows()}
        parts = [text if name in _SELF_SAYING else f"{name}: {text}" for name, text in rows.items()]
        return plain(" | ".join(parts))

    def as_rows(self) -> list[tuple[str, list[str]]]:
        """Return the report as rows of (name, parts), the most important row first, and the first part of each."""
        figures = self.figures
        rows = [
            ("urls", [f"{figures.sources.total():,}", *_counted(figures.sources)] if figures.sources else []),
            ("pages", self._pages()),
            ("waiting", self.waiting.parts()),
            ("queue", [f"{figures.queued:,} queued", f"{self.flow.in_flight} in flight"]),
            ("left", self._left()),
            ("goal", goal_progress(figures, self.waiting.by_type) if figures.goal else []),
            ("records", self._records()),
            ("limit", [self.limit.words] if self.limit else []),
            ("throttle", self._throttle()),
            ("status", _counted(figures.statuses)),
            ("templates", [f"{figures.templates:,}"] if figures.templates else []),
            ("types", self._types()),
            ("llm", self._llm()),
            ("errors", _counted(figures.errors)),
        ]
        return [(name, [plain(part) for part in parts]) for name, parts in rows if parts]

    def _pages(self) -> list[str]:
        cap = f" (max_pages {self.figures.max_pages:,})" if self.figures.max_pages else ""
        rates = f"{self.rate_now:.1f}/s ({self.rate_overall:.1f}/s overall)"
        written, failed = self.figures.counted_pages, self.figures.failed_urls
        fetched = many(self.fetched, "page") if self.fetched == written else f"{self.fetched:,} fetched"
        parts = [f"{fetched}{cap} in {duration(self.elapsed_seconds)}"]
        if self.fetched != written:
            parts.append(f"{written:,} written")
        return [*parts, *([many(failed, "failed url")] if failed else []), rates]

    def _types(self) -> list[str]:
        guessed = sum(self.figures.guessed_types.values())
        return _counted(self.figures.page_types) + ([f"{guessed:,} of them guessed"] if guessed else [])

    def _left(self) -> list[str]:
        if self.seconds_left is None:
            return []
        # New urls may be found as long as the cap is not reached.
        return [f"{'about' if self.is_capped else 'at least'} {duration(self.seconds_left)} left"]

    def _records(self) -> list[str]:
        figures = self.figures
        ordered = ranked(figures.page_records)
        return [f"{name} {count:,} of {many(figures.page_types[name], 'page')}" for name, count in ordered[:_SHOWN]]

    def _throttle(self) -> list[str]:
        latency = [f"latency {self.latency_seconds:.2f} s"] if self.latency_seconds is not None else []
        hosts = sorted(self.flow.busy, key=lambda host: -host.in_flight)
        shown = [part for host in hosts[:3] for part in _host_parts(host)]
        more = [f"{len(hosts) - 3} more hosts"] if len(hosts) > 3 else []
        resting = [f"{host.host} rests for {host.rest_seconds:.0f} s more" for host in self.flow.resting[:3]]
        return latency + shown + more + resting

    def _llm(self) -> list[str]:
        llm = self.figures.llm
        if not llm.calls and not llm.cached_answers:
            return []
        parts = [many(llm.calls, "call"), many(llm.pages_shown, "page"), many(llm.tokens, "token"), money(llm.cost_usd)]
        if llm.cached_answers:
            parts.append(f"{many(llm.cached_answers, 'answer')} from the cache")
        if llm.faults:
            parts.append(f"faults {counts(llm.faults, _SHOWN)}")
        return parts


def _counted(counter: Counter[str]) -> list[str]:
    return counts(counter, _SHOWN).split(", ") if counter else []


def _host_parts(host: HostThrottle) -> list[str]:
    parts = [f"{host.host} {host.in_flight} of {host.concurrency:g} in flight", f"gap {host.gap_seconds:.2f} s"]
    if host.latency_p50 is not None and host.latency_p95 is not None:
        parts.append(f"p50 {host.latency_p50:.2f} s, p95 {host.latency_p95:.2f} s")
    if host.refused_share:
        parts.append(f"{percent(host.refused_share)} refused")
    return parts


class CrawlProgress:
    """Takes samples of a crawl. `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float], window_seconds: float = 30.0) -> None:
        self._clock = clock
        self._window_seconds = window_seconds
        self._started = clock()
        self._samples: deque[tuple[float, int, int]] = deque([(self._started, 0, 0)])
        self._last = self._started
        self._fetched = 0
        self.limit_seconds: dict[str, float] = defaultdict(float)

    def sample(
        self, stats: Stats, flow: DownloadFlow, latency_seconds: float | None = None, waiting: ModelWait | None = None
    ) -> ProgressReport:
        now, figures = self._clock(), read_figures(stats)
        # Scrapy counts a request when the downloader takes it, before it waits for the throttle.
        starts = figures.requests - sum(host.waiting for host in flow.hosts)
        since, fetched, starts_before = self._window(now)
        span = now - since
        starts_per_second = (starts - starts_before) / span if span > 0 else 0.0
        limit = binding_limit(flow, starts_per_second, latency_seconds, figures.queued)
        if limit is not None:
            self.limit_seconds[limit.name] += now - self._last
        self._last = now
        waiting = waiting or ModelWait()
        # A page that waits no longer is not written at once.
        self._fetched = max(self._fetched, figures.counted_pages + waiting.pages)
        # A display asks four times a second; a sample a second is enough for the window.
        if now - self._samples[-1][0] >= 1.0:
            self._samples.append((now, self._fetched, starts))
        elapsed = now - self._started
        return ProgressReport(
            figures=figures,
            fetched=self._fetched,
            flow=flow,
            elapsed_seconds=elapsed,
            rate_now=(self._fetched - fetched) / span if span > 0 else 0.0,
            rate_overall=self._fetched / elapsed if elapsed > 0 else 0.0,
            latency_seconds=latency_seconds,
            limit=limit,
            waiting=waiting,
        )

    def _window(self, now: float) -> tuple[float, int, int]:
        """Return the youngest sample that is older than the window, else the oldest there is."""
        while len(self._samples) > 1 and self._samples[1][0] <= now - self._window_seconds:
            self._samples.popleft()
        return self._samples[0]


class DownloadProgress:
    """Logs how far a long download is, at every twentieth of the way: the display is the crawl's, which goes on beside
    it. To be called with (bytes done, bytes total) from any thread.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._told = -1
        self._lock = Lock()

    def __call__(self, bytes_done: int, bytes_total: int) -> None:
        step = _BAR_CHARS * bytes_done // max(1, bytes_total)
        with self._lock:
            if step <= self._told:
                return
            self._told = step
        bar = ("#" * step).ljust(_BAR_CHARS, ".")
        logger.info(
            "Fetching %s [%s] %d%% of %.2f GB",
            self._what,
            bar,
            100 * bytes_done // max(1, bytes_total),
            bytes_total / 1e9,
        )
