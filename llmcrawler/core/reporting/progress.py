"""Tells how far a crawl is, how fast, and what holds it back, for the log or a display."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from llmcrawler.core.reporting.account import Figures, Stats, goal_progress, read_figures
from llmcrawler.core.reporting.text import counts, duration, many, money, percent, plain, ranked

# A limit binds when the crawl reaches this share of what it allows: jitter and the odd slow page take the rest.
_BINDS_FROM = 0.8

_WITHOUT_MODEL: Final = "to go on without it: Ctrl-C, then the same command with -s LLM_PROVIDER=none"

_SELF_SAYING = ("pages", "queue", "left")  # rows that need no name
_SHOWN = 6  # page types, errors: the most frequent ones
_HOSTS = 3


@dataclass(frozen=True, slots=True)
class ModelWait:
    """Pages waiting for the model, to classify them or to learn their template, or for more pages of their template.
    `calls_due` are known to be needed, `call_seconds` is the time of one. `by_type` counts those waiting for
    a template.
    """

    for_model: int = 0
    for_template: int = 0
    calls_done: int = 0
    calls_due: int = 0
    call_seconds: float | None = None
    by_type: Counter[str] = field(default_factory=Counter)

    @property
    def pages(self) -> int:
        return self.for_model + self.for_template

    @property
    def seconds_left(self) -> float | None:
        """The time of the calls that are due; None where nothing is known about them."""
        if self.call_seconds is None or not self.calls_due:
            return None
        return (self.calls_due - self.calls_done) * self.call_seconds

    def parts(self) -> list[str]:
        """Return it as parts of one line; none where no page waits."""
        state = ""
        if self.calls_due:
            about = "" if self.seconds_left is None else f", about {duration(self.seconds_left)}"
            state = f": {self.calls_done:,} of {many(self.calls_due, 'call')}{about}"
        parts = [f"{_pages_wait(self.for_model)} for the model{state}"] if self.for_model else []
        if self.for_template:
            whose = "its" if self.for_template == 1 else "their"
            parts.append(f"{_pages_wait(self.for_template)} for more pages of {whose} template")
        return parts


def _pages_wait(count: int) -> str:
    return f"{many(count, 'page')} wait{'s' if count == 1 else ''}"


@dataclass(frozen=True, slots=True)
class HostThrottle:
    """The throttle of one host. `waiting` requests wait for it alone; `rest_seconds` are left of a cooldown, `failures`
    came in a row, the last one was `failure`. Latencies are None before an answer.
    """

    host: str
    concurrency: float
    gap_seconds: float
    in_flight: int
    waiting: int = 0
    rest_seconds: float = 0.0
    requests: int = 0
    throughput: float = 0.0
    latency_p50: float | None = None
    latency_p95: float | None = None
    refused_share: float = 0.0
    failures: int = 0
    failure: str = ""

    @property
    def limit(self) -> str:
        """Name what binds this host, by Little's law: L = lambda * W."""
        if self.rest_seconds > 0:
            return "rests"
        used, latency = self.throughput, self.latency_p50 or 0.001
        by_gap = used * self.gap_seconds
        by_concurrency = used * latency / self.concurrency if self.concurrency > 0 else 0.0
        if max(by_gap, by_concurrency) < _BINDS_FROM:
            return "links or this machine"
        return "gap" if by_gap > by_concurrency else "in flight"


@dataclass(frozen=True, slots=True)
class DownloadFlow:
    """The state of the downloads at one moment. `backing_out`: downloads pause, as too many pages are in process."""

    hosts: Sequence[HostThrottle] = ()
    concurrency: int = 0
    backing_out: bool = False

    @property
    def in_flight(self) -> int:
        return sum(host.in_flight for host in self.hosts)

    @property
    def busy(self) -> list[HostThrottle]:
        return [host for host in self.hosts if host.in_flight or host.waiting]

    @property
    def resting(self) -> list[HostThrottle]:
        return [host for host in self.hosts if host.rest_seconds > 0]


def binding_limit(flow: DownloadFlow, starts_per_second: float, latency_seconds: float | None, queued: int) -> str:
    """Return what holds the crawl back, its name before a colon; "" while there is nothing to judge by."""
    if flow.backing_out:
        return "pages in process: downloads wait until pages are read or classified"
    if limit := _limit_by_hosts(flow):
        return limit
    if not queued and not any(host.waiting for host in flow.hosts):
        return "waiting for links to follow: none is left to fetch"
    if not flow.busy or latency_seconds is None or starts_per_second <= 0:
        return ""
    rate, latency = starts_per_second, max(latency_seconds, 0.001)
    slots = sum(host.concurrency for host in flow.busy)
    allowed = {
        "gap": sum(1 / host.gap_seconds if host.gap_seconds > 0 else math.inf for host in flow.busy),
        "per host": slots / latency,
        "over all": flow.concurrency / latency if flow.concurrency else math.inf,
    }
    tightest = min(allowed, key=lambda name: allowed[name])
    if rate < _BINDS_FROM * allowed[tightest]:
        return f"the speed of this machine: {rate:.1f} requests/s where {allowed[tightest]:.1f} are allowed"
    used = f"{rate:.1f}/s x {latency:.2f} s = {rate * latency:.1f}"
    if tightest == "gap":
        return f"the gap between requests: {rate:.1f} of {allowed['gap']:.1f} requests/s"
    if tightest == "per host":
        return f"requests in flight per host: {used} of {slots:g}"
    return f"requests in flight over all hosts: {used} of {flow.concurrency}"


def _limit_by_hosts(flow: DownloadFlow) -> str:
    if flow.resting and not flow.busy:
        longest = max(flow.resting, key=lambda host: host.rest_seconds)
        return f"hosts that rest: {longest.host} for {longest.rest_seconds:.0f} s more"
    if any(host.failures == 0 for host in flow.busy) or not flow.busy:
        return ""
    worst = max(flow.busy, key=lambda host: host.failures)
    times = f" {worst.failures} times in a row" if worst.failures > 1 else ""
    return f"hosts that do not answer: {worst.host} failed{times}: {worst.failure}"


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """A crawl at one moment. Rates are fetched pages per second, over the last half minute and over the whole crawl;
    `fetched` pages are written or waiting, failed urls are not among them.
    """

    figures: Figures
    fetched: int
    flow: DownloadFlow
    elapsed_seconds: float
    rate_now: float
    rate_overall: float
    latency_seconds: float | None
    limit: str
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
    def waits_for_model(self) -> bool:
        """Tell whether nothing is fetched until the model has answered."""
        is_quiet = not self.flow.in_flight and (self.flow.backing_out or not self.pages_left)
        return is_quiet and self.waiting.for_model > 0

    def waiting_parts(self) -> list[str]:
        return [*self.waiting.parts(), *([_WITHOUT_MODEL] if self.waits_for_model else [])]

    def as_line(self) -> str:
        rows = {name: ", ".join(parts) for name, parts in self.as_rows()}
        parts = [text if name in _SELF_SAYING else f"{name}: {text}" for name, text in rows.items()]
        return plain(" | ".join(parts))

    def as_rows(self) -> list[tuple[str, list[str]]]:
        """Return the report as rows of (name, parts), the most important row first, and the first part of each."""
        figures = self.figures
        records = [
            f"{name} {count:,} of {many(figures.page_types[name], 'page')}"
            for name, count in ranked(figures.page_records)[:_SHOWN]
        ]
        guessed = sum(figures.guessed_types.values())
        rows = [
            ("urls", [f"{figures.sources.total():,}", *_counted(figures.sources)] if figures.sources else []),
            ("pages", self._pages()),
            ("waiting", self.waiting_parts()),
            ("queue", [f"{figures.queued:,} queued", f"{self.flow.in_flight} in flight"]),
            ("left", self._left()),
            ("goal", goal_progress(figures, self.waiting.by_type) if figures.goal else []),
            ("records", records),
            ("limit", [self.limit] if self.limit else []),
            ("throttle", self._throttle()),
            ("status", _counted(figures.statuses)),
            ("templates", [f"{figures.templates:,}"] if figures.templates else []),
            ("types", _counted(figures.page_types) + ([f"{guessed:,} of them guessed"] if guessed else [])),
            ("llm", self._llm()),
            ("errors", _counted(figures.errors)),
        ]
        return [(name, [plain(part) for part in parts]) for name, parts in rows if parts]

    def _pages(self) -> list[str]:
        written, failed, most = self.figures.counted_pages, self.figures.failed_urls, self.figures.max_pages
        fetched = many(self.fetched, "page") if self.fetched == written else f"{self.fetched:,} fetched"
        cap = f" (max_pages {most:,})" if most else ""
        parts = [f"{fetched}{cap} in {duration(self.elapsed_seconds)}"]
        if self.fetched != written:
            parts.append(f"{written:,} written")
        if failed:
            parts.append(many(failed, "failed url"))
        return [*parts, f"{self.rate_now:.1f}/s ({self.rate_overall:.1f}/s overall)"]

    def _left(self) -> list[str]:
        if self.seconds_left is None:
            return []
        figures = self.figures
        # Where more urls are known than may be fetched, the crawl ends at its cap; else it may find new ones.
        known = figures.queued + figures.leased - self.waiting.pages
        is_capped = figures.max_pages is not None and known >= figures.max_pages - self.fetched
        return [f"{'about' if is_capped else 'at least'} {duration(self.seconds_left)} left"]

    def _throttle(self) -> list[str]:
        parts = [f"latency {self.latency_seconds:.2f} s"] if self.latency_seconds is not None else []
        hosts = sorted(self.flow.busy, key=lambda host: -host.in_flight)
        for host in hosts[:_HOSTS]:
            parts.append(f"{host.host} {host.in_flight} of {host.concurrency:g} in flight")
            parts.append(f"gap {host.gap_seconds:.2f} s")
            if host.latency_p50 is not None and host.latency_p95 is not None:
                parts.append(f"p50 {host.latency_p50:.2f} s, p95 {host.latency_p95:.2f} s")
            if host.refused_share:
                parts.append(f"{percent(host.refused_share)} refused")
        if len(hosts) > _HOSTS:
            parts.append(f"{len(hosts) - _HOSTS} more hosts")
        resting = self.flow.resting[:_HOSTS]
        return parts + [f"{host.host} rests for {host.rest_seconds:.0f} s more" for host in resting]

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


class CrawlProgress:
    """Takes samples of a crawl. `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float], window_seconds: float = 30.0) -> None:
        self._clock = clock
        self._window_seconds = window_seconds
        self._started = clock()
        self._samples: deque[tuple[float, int, int]] = deque([(self._started, 0, 0)])
        self._fetched = 0

    def sample(
        self, stats: Stats, flow: DownloadFlow, latency_seconds: float | None = None, waiting: ModelWait | None = None
    ) -> ProgressReport:
        now, figures, waiting = self._clock(), read_figures(stats), waiting or ModelWait()
        # Scrapy counts a request when the downloader takes it, before it waits for the throttle.
        starts = figures.requests - sum(host.waiting for host in flow.hosts)
        # A page that waits no longer is not written at once.
        self._fetched = max(self._fetched, figures.counted_pages + waiting.pages)
        # Rates are since the youngest sample that is older than the window, else since the oldest there is.
        while len(self._samples) > 1 and self._samples[1][0] <= now - self._window_seconds:
            self._samples.popleft()
        since, fetched_before, starts_before = self._samples[0]
        # A display asks four times a second; a sample a second is enough for the window.
        if now - self._samples[-1][0] >= 1.0:
            self._samples.append((now, self._fetched, starts))
        span, elapsed = now - since, now - self._started
        starts_per_second = (starts - starts_before) / span if span > 0 else 0.0
        return ProgressReport(
            figures=figures,
            fetched=self._fetched,
            flow=flow,
            elapsed_seconds=elapsed,
            rate_now=(self._fetched - fetched_before) / span if span > 0 else 0.0,
            rate_overall=self._fetched / elapsed if elapsed > 0 else 0.0,
            latency_seconds=latency_seconds,
            limit=binding_limit(flow, starts_per_second, latency_seconds, figures.queued),
            waiting=waiting,
        )
