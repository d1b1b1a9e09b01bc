"""Drives Scrapy's download slots by the throttling policy."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from heapq import nlargest
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.task import LoopingCall

from llmcrawler.core.politeness.throttling import (
    HostPolicies,
    HostPolicy,
    ThrottleDecision,
    ThrottleRules,
    http_date,
    retry_after_seconds,
)
from llmcrawler.core.urls import site_of
from llmcrawler.crawl.compat import stats_of
from llmcrawler.crawl.configuration import PolitenessSettings
from llmcrawler.crawl.context import crawl_of
from llmcrawler.crawl.signals import robots_unreachable, site_taken
from llmcrawler.engine.downloader import (
    PoliteDownloader,
    PoliteSlot,
    check_downloader,
    download_failed,
    downloader_of,
    request_started,
    slot_made,
)
from llmcrawler.engine.failures import OVERLOAD_STATUSES, RefusalKind, failure_kind
from llmcrawler.engine.request_context import LATENCY, context_of
from llmcrawler.errors import ConfigError
from llmcrawler.extensions import connect_handlers

if TYPE_CHECKING:
    from llmcrawler.fleet.session import KeptSite

logger = logging.getLogger("llmcrawler.extensions.throttle")  # people look for its decisions under that name

_ALWAYS_LOGGED = frozenset({"recovered", "robots"})
_LOG_SECONDS = 10.0  # between two log lines about one host
_HOSTS_IN_STATS = 10
# By these a gateway says that the host behind it does not answer; 500 is an answer.
_GATEWAY_STATUSES = frozenset({502, 504, 520, 521, 522, 523, 524})
_HOST_FAILURES = (CannotResolveHostError, DownloadConnectionRefusedError, DownloadTimeoutError, DownloadFailedError)
_TICK_SECONDS = 1.0


class ThrottleReport:
    """Reports decisions of the throttle; with `logs_all` (AUTOTHROTTLE_DEBUG) each has a log line."""

    def __init__(self, stats: StatsCollector, *, logs_all: bool) -> None:
        self._stats = stats
        self._logs_all = logs_all
        self._in_stats: set[str] = set()
        self._logged_at: dict[str, float] = {}
        self._unlogged: Counter[str] = Counter()

    def decided(self, key: str, decision: ThrottleDecision) -> None:
        self._stats.inc_value(f"llmcrawler/throttle/decisions/{decision.reason}")
        now = monotonic()
        quiet = now - self._logged_at.get(key, -_LOG_SECONDS) < _LOG_SECONDS and decision.reason not in _ALWAYS_LOGGED
        if quiet and not self._logs_all:
            self._unlogged[key] += 1
            return
        self._logged_at[key] = now
        more = f" ({self._unlogged.pop(key)} more since the last line)" if self._unlogged[key] else ""
        pause = f", cools down for {decision.cooldown_seconds:.1f} s" if decision.cooldown_seconds else ""
        logger.info("%s: %s: concurrency %.3g%s%s", key, decision.details, decision.concurrency, pause, more)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._logged_at.pop(key, None)
            self._unlogged.pop(key, None)

    def write(self, policies: Mapping[str, HostPolicy], most: int = _HOSTS_IN_STATS) -> None:
        """Write the figures of up to `most` hosts into stats, and always of the same ones: a stat stays for good."""
        missing = most - len(self._in_stats)
        if missing > 0:
            new = policies.keys() - self._in_stats
            self._in_stats.update(nlargest(missing, new, key=lambda key: policies[key].meter.requests))
        for key in self._in_stats & policies.keys():
            policy = policies[key]
            figures = policy.meter.figures()
            values = {
                "requests": figures.requests,
                "concurrency": round(policy.window, 2),
                "gap_seconds": round(policy.gap().seconds, 3),
                "throughput": round(figures.mean_throughput, 2),
                "in_flight_mean": round(figures.mean_in_flight, 2),
                "refused_share": round(figures.refused_share, 4),
                "latency_p50": None if figures.latency_p50 is None else round(figures.latency_p50, 3),
                "latency_p95": None if figures.latency_p95 is None else round(figures.latency_p95, 3),
            }
            for name, value in values.items():
                if value is not None:
                    self._stats.set_value(f"llmcrawler/throttle/host/{key}/{name}", value)


class AdaptiveThrottle:
    """Stands in for Scrapy's AutoThrottle. It adapts to latency and refusals within what the settings allow:

    - CONCURRENT_REQUESTS_PER_DOMAIN (AUTOTHROTTLE_TARGET_CONCURRENCY where it is set and lower) is the most in flight,
    - DOWNLOAD_DELAY is the least mean gap, AUTOTHROTTLE_MAX_DELAY the greatest, AUTOTHROTTLE_START_DELAY the first.

    AUTOTHROTTLE_ENABLED=False fixes concurrency and gap where the settings have them. What a host asks for
    (Retry-After, robots.txt) and the circuit breaker hold all the same.
    """

    def __init__(self, crawler: Crawler, rules: ThrottleRules, refused_names: Container[str] = ()) -> None:
        check_downloader(crawler)
        self.crawler = crawler
        self._rules = rules
        self._refused_names = refused_names
        self._policies = HostPolicies(monotonic)
        self._taken_at: dict[str, float] = {}  # by site, when it was taken over from another worker
        politeness = PolitenessSettings.of(crawler.settings)
        self._user_agent = politeness.robots_agent
        self._quiet_ticks = 0
        self._ticks: AsyncioLoopingCall | LoopingCall | None = None
        logs_all = rules.is_adaptive and politeness.autothrottle_debug
        self._report = ThrottleReport(stats_of(crawler), logs_all=logs_all)
        connect_handlers(
            crawler,
            self,
            *("spider_opened", "response_downloaded", "robots_parsed", "spider_closed"),
            _take_over=site_taken,
            _robots_failed=robots_unreachable,
            _take_slot=slot_made,
            _request_started=request_started,
            _download_failed=download_failed,
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler, rules_of(crawler), crawl_of(crawler).hosts.refused_names)

    def policies(self) -> dict[str, HostPolicy]:
        """Return the policies by host and port, without those that were idle for longest."""
        return self._policies.by_host

    def spider_opened(self) -> None:
        self._ticks = create_looping_call(self._tick)
        self._ticks.start(_TICK_SECONDS, now=False)

    def spider_closed(self) -> None:
        if self._ticks is not None and self._ticks.running:
            self._ticks.stop()
        self._report.write(self._policies.by_host, 2 * _HOSTS_IN_STATS)  # the busiest of the other hosts, too

    def response_downloaded(self, response: Response, request: Request) -> None:
        key: str | None = request.meta.get(PoliteDownloader.DOWNLOAD_SLOT)
        policy = self._policies.by_host.get(key or "")
        if key is None or policy is None:
            return
        slot = self._downloader.slots.get(key)
        elapsed, at_start, at_end = _since_start(request, slot)
        latency = request.meta.get(LATENCY)
        if response.status in OVERLOAD_STATUSES:
            header, date = ((response.headers.get(name) or b"").decode("latin-1") for name in ("Retry-After", "Date"))
            wait = retry_after_seconds(header, http_date(date) or datetime.now(UTC))
            decision = policy.refused(str(response.status), wait, elapsed, max(at_start, at_end))
        elif response.status in _GATEWAY_STATUSES and not request.meta.get("proxy"):
            decision = policy.failed(f"http {response.status}", elapsed)
        elif response.status >= 500:
            policy.server_error(latency)
            decision = None
        else:
            is_page = request.callback is not NO_CALLBACK and not request.meta.get("autothrottle_dont_adjust_delay")
            decision = policy.answered(latency if is_page else None, at_start, at_end)
        self._apply(key, policy, slot, decision)

    def _download_failed(self, request: Request, exception: Exception) -> None:
        key: str | None = request.meta.get(PoliteDownloader.DOWNLOAD_SLOT)
        policy = self._policies.by_host.get(key or "")
        # With a proxy it says nothing of the host.
        if key is None or policy is None or not isinstance(exception, _HOST_FAILURES) or request.meta.get("proxy"):
            return
        if urlparse_cached(request).hostname in self._refused_names:
            return  # the resolver refused it
        slot = self._downloader.slots.get(key)
        elapsed, _, _ = _since_start(request, slot)
        kind, message = failure_kind(exception)
        self._apply(key, policy, slot, policy.failed(f"{kind} ({message.rstrip('.')[:200]})", elapsed))

    def robots_parsed(self, robotparser: RobotParser, request: Request) -> None:
        key = urlparse_cached(request).netloc
        policy, slot = self._policies.take(key, self._rules), self._downloader.slots.get(key)
        decision = policy.robots_came(max(0.0, robotparser.crawl_delay(self._user_agent) or 0.0))
        self._apply(key, policy, slot, decision)
        if decision is not None and isinstance(slot, PoliteSlot):
            slot.draw_gap()  # the one that runs was drawn before this was known

    def _robots_failed(self, key: str, reason: str) -> None:
        policy = self._policies.take(key, self._rules)
        self._apply(key, policy, self._downloader.slots.get(key), policy.robots_failed(reason))

    def _take_over(self, site: str, kept: KeptSite) -> None:
        """Go on at the hosts of a site as the worker before would have. When it asked last is not known."""
        for host, state in (kept.throttle or {}).items():
            self._policies.restore(host, state, kept.age_seconds)
        if not kept.before:
            return
        self._taken_at[site] = monotonic()
        for key, slot in self._downloader.slots.items():
            if site_of(key) == site and isinstance(slot, PoliteSlot):
                self._take_slot(key, slot)

    def _take_slot(self, key: str, slot: PoliteSlot) -> None:
        rules = self._rules
        # DOWNLOAD_SLOTS may give a host limits of its own.
        most = min(slot.concurrency, rules.max_concurrency) if rules.is_adaptive else slot.concurrency
        rules = replace(rules, max_concurrency=most, min_gap_seconds=slot.delay, jitter=slot.jitter)
        self._apply(key, self._policies.take(key, rules), slot, None)
        slot.draw_gap()
        slot.lastseen = max(slot.lastseen, self._taken_at.get(site_of(key), 0.0))

    def _request_started(self, key: str, slot: PoliteSlot) -> None:
        policy = self._policies.by_host.get(key)
        if policy is not None:
            policy.meter.started()
            _set(slot, policy)

    def _apply(self, key: str, policy: HostPolicy, slot: Any, decision: ThrottleDecision | None) -> None:
        if slot is not None:
            _set(slot, policy)
        if policy.cooldown_seconds > 0 and key not in self._downloader.given_up:
            self._downloader.rest(key, policy.cools_down_until)
        if decision is not None:
            self._report.decided(key, decision)

    def _tick(self) -> None:
        self._report.forget(self._policies.forget_idle(self._downloader.slots))
        self._report.write(self._policies.by_host)
        to_give_up = {
            key: (policy.robots.is_open, reason)
            for key, policy in self._policies.by_host.items()
            if key not in self._downloader.given_up and (reason := policy.reason_to_give_up()) is not None
        }
        if not to_give_up:
            return
        scheduler = self.crawler.engine.scheduler if self.crawler.engine is not None else None
        # Pages may be held in the pipelines until the crawl is quiet, so they are not waited for; but their links come
        # within a tick.
        # Not isinstance: every scheduler is an instance of each of Scrapy's base class, by its metaclass.
        waits_only_for = getattr(scheduler, "waits_only_for", self._downloader.waits_only_for)
        is_last = waits_only_for(to_give_up.keys() | self._downloader.given_up.keys())
        self._quiet_ticks = self._quiet_ticks + 1 if is_last else 0
        if self._quiet_ticks >= 2:
            for key, (lacks_robots, reason) in to_give_up.items():
                level = logging.INFO if lacks_robots else logging.WARNING  # there was a warning already
                logger.log(level, "%s is given up, nothing else is left to do: %s", key, reason)
                kind = RefusalKind.ROBOTS_UNREACHABLE if lacks_robots else RefusalKind.HOST_DOWN
                self._downloader.give_up(key, kind, reason)

    @property
    def _downloader(self) -> PoliteDownloader:
        return downloader_of(self.crawler)


def policies_of(crawler: Crawler) -> dict[str, HostPolicy]:
    """Return the policies of a crawl's hosts; none where it has no AdaptiveThrottle."""
    throttle = crawler.get_extension(AdaptiveThrottle)
    return {} if throttle is None else throttle.policies()


def _set(slot: PoliteSlot, policy: HostPolicy) -> None:
    gap = policy.gap()
    slot.concurrency, slot.delay, slot.jitter = policy.concurrency, gap.seconds, gap.jitter


def _since_start(request: Request, slot: Any) -> tuple[float | None, int, int]:
    """Return the seconds since a request started, and how many were in flight to its host then, and are now."""
    context = context_of(request)
    elapsed = None if context.started is None else monotonic() - context.started
    return elapsed, context.in_flight, 1 if slot is None else max(len(slot.transferring), 1)


def rules_of(crawler: Crawler) -> ThrottleRules:
    """Read the limits that the settings have. Raises ConfigError where they allow no request."""
    politeness = PolitenessSettings.of(crawler.settings)
    most: float = politeness.concurrent_requests_per_domain
    # Scrapy's default of 1 is nobody's choice.
    if (crawler.settings.getpriority("AUTOTHROTTLE_TARGET_CONCURRENCY") or 0) > 0:
        most = min(most, politeness.autothrottle_target_concurrency)
    if most <= 0:
        raise ConfigError(f"AUTOTHROTTLE_TARGET_CONCURRENCY={most:g} must be greater than 0")
    return ThrottleRules(
        max_concurrency=most,
        min_gap_seconds=politeness.download_delay,
        start_gap_seconds=politeness.autothrottle_start_delay,
        max_gap_seconds=politeness.autothrottle_max_delay,
        jitter=politeness.download_delay_jitter,
        is_adaptive=politeness.autothrottle_enabled,
        breaker_failures=politeness.throttle_breaker_failures,
        breaker_cooldown_seconds=politeness.throttle_breaker_rest_seconds,
        breaker_probes=politeness.throttle_breaker_probes,
    )
