"""Decides how hard a host may be worked: a `HostPolicy` for each host, by which extensions/throttle.py drives slots."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from llmcrawler.core.politeness.throttle_ceiling import Ceiling
from llmcrawler.core.politeness.throttle_latency import STEADY, LatencyWatch, LoadTrial, RoundResult


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Return the wait that the header asks for, None without one. `now` is the server's own time where it is known."""
    text = (header or "").strip()
    try:
        seconds = float(text)  # fractions stand in no standard, but servers send them
    except ValueError:
        date = http_date(text)
        return None if date is None else max(0.0, (date - now).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def http_date(header: str | None) -> datetime | None:
    """Return an HTTP date (or another that mail knows) as an aware time; one without a zone is taken for UTC."""
    try:
        date = parsedate_to_datetime((header or "").strip())
    except (ValueError, IndexError, OverflowError):
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


# A floor asked for by robots.txt: gaps are this much longer, as clocks and networks jitter too.
_FLOOR_MARGIN, _FLOOR_JITTER = 1.02, 0.1


@dataclass(frozen=True, slots=True)
class StartGap:
    """The mean of the gaps between starts; each is this times 1 +- `jitter`."""

    seconds: float
    jitter: float

    @property
    def least_seconds(self) -> float:
        return self.seconds * (1 - self.jitter)

    def over(self, floor_seconds: float) -> StartGap:
        """Return this gap, or one of which no start comes sooner than the floor."""
        least = floor_seconds * _FLOOR_MARGIN
        if self.least_seconds >= least:
            return self
        most = max(self.seconds * (1 + self.jitter), least * (1 + min(self.jitter, _FLOOR_JITTER)))
        return StartGap((least + most) / 2, (most - least) / (most + least))


# The cooldown doubles: at 64 times the first one it is long enough for a server that is down, and soon over when it is
# back.
_MAX_DOUBLINGS = 6
# A host that keeps requests waiting without an answer is down sooner than one that refuses them at once.
_MAX_HUNG_SECONDS = 55.0


@dataclass(slots=True)
class HostBreaker:
    """Opens after `failures_to_open` in a row, or when those in a row have taken a minute; from then on each failure is
    a probe (M. Nygard, Release It!).
    """

    failures_to_open: int
    first_cooldown_seconds: float
    failures: int = 0
    failed_probes: int = 0
    hung_seconds: float = 0.0
    reason: str = ""
    has_ever_answered: bool = False

    @property
    def is_open(self) -> bool:
        return self.failures >= self.failures_to_open or self.hung_seconds >= _MAX_HUNG_SECONDS

    @property
    def cooldown_seconds(self) -> float:
        """Return how long the server is left alone after the last failure; 0 while the breaker is closed."""
        return self.first_cooldown_seconds * 2.0 ** min(self.failed_probes, _MAX_DOUBLINGS) if self.is_open else 0.0

    def failed(self, reason: str, seconds: float = 0.0) -> None:
        self.failed_probes += self.is_open
        self.failures += 1
        self.hung_seconds += seconds
        self.reason = reason

    def answered(self) -> bool:
        """Note a real answer. Tell whether it closes the breaker."""
        closes = self.is_open
        self.failures = self.failed_probes = 0
        self.hung_seconds = 0.0
        self.has_ever_answered = True
        return closes


_LATENCIES = 200
_RATE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HostFigures:
    """`throughput` is answers a second over the last half minute; latencies, in seconds, are those of the last 200
    healthy answers, None before the first; `mean_in_flight` is Little's law: throughput times mean latency.
    """

    requests: int
    refused_share: float
    throughput: float
    mean_throughput: float
    latency_p50: float | None
    latency_p95: float | None
    mean_in_flight: float


class HostMeter:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latencies: deque[float] = deque(maxlen=_LATENCIES)
        self._answered_at: deque[float] = deque(maxlen=10_000)
        self.requests = self._answers = self._refused = 0
        self.first_start: float | None = None
        self._last_answer = 0.0

    def started(self) -> None:
        self.requests += 1
        if self.first_start is None:
            self.first_start = self._clock()

    def answered(self, latency_seconds: float | None, *, refused: bool = False) -> None:
        self._answers += 1
        self._refused += refused
        self._last_answer = self._clock()
        self._answered_at.append(self._last_answer)
        if latency_seconds is not None and not refused:
            self._latencies.append(latency_seconds)

    def figures(self) -> HostFigures:
        now = self._clock()
        while self._answered_at and self._answered_at[0] < now - _RATE_SECONDS:
            self._answered_at.popleft()
        since = now if self.first_start is None else self.first_start
        throughput = len(self._answered_at) / max(min(_RATE_SECONDS, now - since), 1e-9)
        ordered = sorted(self._latencies)
        return HostFigures(
            requests=self.requests,
            refused_share=self._refused / max(self._answers, 1),
            throughput=throughput,
            mean_throughput=self._answers / max(self._last_answer - since, 1e-9),
            latency_p50=_quantile(ordered, 0.5),
            latency_p95=_quantile(ordered, 0.95),
            mean_in_flight=throughput * sum(ordered) / max(len(ordered), 1),
        )


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@dataclass(frozen=True, slots=True)
class ThrottleRules:
    """The user's limits for one host, used as they are where not `is_adaptive`. `max_concurrency` may be under 1: a
    share of the time. Gaps are start to start, each `min_gap_seconds` (and more) times 1 +- `jitter`.
    """

    max_concurrency: float = 5.0
    min_gap_seconds: float = 0.2
    start_gap_seconds: float = 0.2
    max_gap_seconds: float = 60.0
    jitter: float = 0.5
    is_adaptive: bool = True
    breaker_failures: int = 5
    breaker_cooldown_seconds: float = 5.0
    breaker_probes: int = 3
    max_cooldown_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class ThrottleDecision:
    """A change of what a host gets. `reason` groups decisions, `details` give the figures of this one."""

    reason: str
    details: str
    concurrency: float
    cooldown_seconds: float = 0.0


# A start: five requests a second, and at most twice as many each time that so many seconds are over.
_FIRST_GAP = StartGap(0.2, 0.05)
_DOUBLING_SECONDS = 0.3
# Starts come that much faster than the window lets them end, so that the window is what limits them.
_PACE_GAIN = 2.0
_CLOCK_JITTER = 0.1  # for a host that counts by the clock: a short gap is one too many a second
_FIRST_BACKOFF_SECONDS = 0.5
# After a trial of a latency that was not our load; twice as long after the next one.
_TRIAL_HOLD_SECONDS, _MAX_TRIAL_HOLD_SECONDS = 4.0, 30.0


class HostPolicy:
    """The state of one host. Events return the decision that they led to; what is in flight counts their own request.
    `clock` gives seconds and never goes back; `cools_down_until` is a time of it.
    """

    def __init__(self, rules: ThrottleRules, clock: Callable[[], float]) -> None:
        self.rules = rules
        self._clock = clock
        self.meter = HostMeter(clock)
        self.breaker = HostBreaker(rules.breaker_failures, rules.breaker_cooldown_seconds)
        self.robots = HostBreaker(1, rules.breaker_cooldown_seconds)  # open while the host's robots.txt cannot be had
        self.latency = LatencyWatch()
        self.ceiling = Ceiling(rules.max_concurrency, clock)
        self.window = min(1.0, rules.max_concurrency) if rules.is_adaptive else rules.max_concurrency
        self.floor_gap_seconds = 0.0
        self.cools_down_until = 0.0
        self._backed_off_at = self._changed_at = -1.0
        self._next_trial_at, self._trial_hold_seconds = 0.0, _TRIAL_HOLD_SECONDS
        self._episodes = 0  # of refusals, with no healthy answer between

    @property
    def concurrency(self) -> int:
        # A host that counts by the clock is held by the gap: to round down would be another pace.
        up = 1.0 if self.ceiling.is_rate and 2 <= self.window <= self.rules.max_concurrency - 1 else 1e-6
        return 1 if self.breaker.is_open else max(1, int(self.window + up))

    @property
    def cooldown_seconds(self) -> float:
        """Return how long the host is still left alone."""
        return max(0.0, self.cools_down_until - self._clock())

    def gap(self) -> StartGap:
        """Return the gap between two starts that holds now."""
        gap = self._adapted_gap() if self.rules.is_adaptive else StartGap(self.rules.min_gap_seconds, self.rules.jitter)
        return gap.over(self.floor_gap_seconds)

    def reason_to_give_up(self) -> str | None:
        """Return why not to wait for this host when nothing else is left to do; None while it is worth it."""
        breaker, robots, probes, reason = self.breaker, self.robots, self.rules.breaker_probes, None
        is_hopeless = breaker.failed_probes >= probes or breaker.hung_seconds >= 2 * _MAX_HUNG_SECONDS
        if breaker.is_open and (is_hopeless or not breaker.has_ever_answered):
            reason = f"the host failed {breaker.failures} times in a row, the last time with: {breaker.reason}"
        elif self.cooldown_seconds > self.rules.max_cooldown_seconds:
            reason = f"the host asks for a pause of {self.cooldown_seconds:.0f} s more"
        if not robots.is_open or (reason is None and robots.failed_probes < probes):
            return reason
        times = f"{robots.failures} times" if robots.failures > 1 else "once"
        return f"its robots.txt cannot be fetched, which forbids everything; it was requested {times}: {robots.reason}"

    def state(self) -> dict[str, float]:
        """Return what another process that goes on with the host is to know, for `take_over`."""
        known = {"window": float(int(self.window)) if self.window >= 1 else self.window, "level": self.ceiling.level}
        return {**known, "floor": self.floor_gap_seconds, "cooldown": round(self.cooldown_seconds, 1)}

    def take_over(self, state: Mapping[str, float], age_seconds: float) -> None:
        """Go on where another process was with the host so long ago."""
        self.floor_gap_seconds = state.get("floor", 0.0)
        self._cool_down(state.get("cooldown", 0.0) - age_seconds)
        if self.rules.is_adaptive and "level" in state:
            self.ceiling.begin_at(state["level"])
            self.window = min(state["window"], self.ceiling.level)

    def answered(self, latency_seconds: float | None, at_start: int, at_end: int) -> ThrottleDecision | None:
        """Note a healthy answer; a latency of None does not count. `at_start` and `at_end` were in flight then."""
        self.meter.answered(latency_seconds)
        closes = self.breaker.answered()
        is_old = self._is_old(latency_seconds)
        if not is_old:
            self._episodes = 0
        if closes:
            return self._decision("recovered", "the host responds again")
        if not self.rules.is_adaptive:
            return None
        self.ceiling.served(at_start, at_end, self.window)
        is_used = 2 * max(at_start, at_end) >= self.window
        if self.latency.trial is None and is_used and not is_old and not self.latency.is_slow(latency_seconds):
            self.window = min(self.ceiling.level, self.window + min(1.0, self.window))
        if latency_seconds is None or self._clock() - latency_seconds < self._changed_at:
            return None
        result = self.latency.add(latency_seconds, at_start, self.window)
        return None if result is None else self._weigh(result, is_used=is_used)

    def refused(
        self, reason: str, retry_after_seconds: float | None, latency_seconds: float | None, in_flight: int
    ) -> ThrottleDecision | None:
        """Note a 429 or 503 with so many in flight, at its start or end: hosts differ in when they count."""
        self.meter.answered(latency_seconds, refused=True)
        now = self._clock()
        if retry_after_seconds is not None:
            self.cools_down_until = max(self.cools_down_until, now + retry_after_seconds)
        if self._is_old(latency_seconds):
            self.ceiling.flight_refused(self.window)
            return None
        self._episodes += 1
        self.breaker.failed(reason)
        doublings = 0 if self.ceiling.is_noise else min(self._episodes - 1, 20)
        backoff = _FIRST_BACKOFF_SECONDS * 2.0**doublings
        asked = min(backoff, self.rules.max_gap_seconds) if retry_after_seconds is None else retry_after_seconds
        cooldown = max(asked, self.breaker.cooldown_seconds)
        self._cool_down(cooldown)
        self._backed_off_at = now
        # A host that refuses a single request again, with no answer between, says that it is too early: not how much.
        if self.rules.is_adaptive and (self._episodes == 1 or in_flight > 1):
            latency = self.latency.typical or 1.0
            least = min(1.0, latency / self.rules.max_gap_seconds)
            self.ceiling.refused(in_flight, self.window, latency, least, now + cooldown)
            if not self.ceiling.is_noise:
                self.latency.trial = None
                self._set_window(max(min(self.window, self.ceiling.level) / 2, least))
        header = "" if retry_after_seconds is None else f", Retry-After {retry_after_seconds:g} s"
        return self._decision("refused", f"{reason}{header} with {in_flight} in flight")

    def failed(self, reason: str, seconds: float | None) -> ThrottleDecision | None:
        """Note no answer at all, or a gateway's word that the host is not there, after so many seconds."""
        if self._is_old(seconds):
            return None
        self.breaker.failed(reason, seconds or 0.0)
        self._cool_down(self.breaker.cooldown_seconds)
        self._backed_off_at = self._clock()
        if self.rules.is_adaptive:
            self.latency.trial = None
            self._set_window(max(self.window / 2, min(1.0, self.ceiling.level)))
        return self._decision("failing", f"{reason}, {self.breaker.failures} in a row")

    def server_error(self, latency_seconds: float | None) -> None:
        """Note an error of the application on this page: the host is there, and in no better health than before."""
        self.meter.answered(latency_seconds)
        self.breaker.answered()

    def robots_failed(self, reason: str) -> ThrottleDecision:
        """Note that the host's robots.txt cannot be had. It is left alone, each time for longer."""
        self.robots.failed(reason)
        self._cool_down(self.robots.cooldown_seconds)
        return self._decision("robots-unreachable", f"its robots.txt cannot be fetched: {reason}")

    def robots_came(self, gap_seconds: float) -> ThrottleDecision | None:
        """Let no gap be shorter than robots.txt's Crawl-delay or Request-rate."""
        self.robots.answered()
        most = self.rules.max_gap_seconds
        if min(gap_seconds, most) == self.floor_gap_seconds:
            return None
        self.floor_gap_seconds = min(gap_seconds, most)
        capped = f" and gets {most:g} s (AUTOTHROTTLE_MAX_DELAY)" if gap_seconds > most else ""
        return self._decision("robots", f"robots.txt asks for a gap of {gap_seconds:g} s{capped}")

    def _adapted_gap(self) -> StartGap:
        rules, latency, start = self.rules, self.latency.typical, self.meter.first_start
        if start is None or latency is None:
            seconds = max(rules.min_gap_seconds, rules.start_gap_seconds, _FIRST_GAP.seconds)
            return StartGap(seconds, min(rules.jitter, _FIRST_GAP.jitter))
        first = _FIRST_GAP.seconds * 0.5 ** ((self._clock() - start) / _DOUBLING_SECONDS)
        by_clock = self.ceiling.is_rate
        pace = latency / (self.window * (1.0 if by_clock or self.window < 1 else _PACE_GAIN))
        seconds = max(rules.min_gap_seconds, first, min(pace, rules.max_gap_seconds))
        return StartGap(seconds, min(rules.jitter, _CLOCK_JITTER) if by_clock else rules.jitter)

    def _weigh(self, result: RoundResult, *, is_used: bool) -> ThrottleDecision | None:
        """Go down for latency at the end of a round, up after a hold in good health."""
        if self.latency.trial is not None:
            return self._go_on(self.latency.trial, result)
        if result.is_raised and self.window <= 1:
            self.latency.rebase(result.round)  # a single request makes no load: the host is that slow
        elif result.is_raised:
            if self._clock() < self._next_trial_at:
                return None
            trial = self.latency.trial = LoadTrial(self.window, max(result.knee, 1.0), result.round)
            self._set_window(max(1, min(math.ceil(trial.knee), int(result.round.in_flight - 0.5))))
            more = f"{result.ratio - 1:.0%} over the baseline"
            return self._decision("latency", f"latency {result.round.seconds:.2f} s, {more}")
        # A window that is not used need not grow.
        elif self.window >= self.ceiling.level and is_used and self.ceiling.is_due():
            if result.ratio < STEADY:
                self.ceiling.step_up()
                self._set_window(self.ceiling.level)
                return self._decision("healthy", "a step up after steady health")
            self.ceiling.wait()
        return None

    def _go_on(self, trial: LoadTrial, result: RoundResult) -> ThrottleDecision:
        told = f"latency {result.round.seconds:.2f} s"
        if not result.is_load:
            self.latency.trial = None
            self._next_trial_at = self._clock() + self._trial_hold_seconds
            self._trial_hold_seconds = min(2 * self._trial_hold_seconds, _MAX_TRIAL_HOLD_SECONDS)
            self._set_window(trial.window)
            return self._decision("latency-not-ours", f"{told} is not for what is in flight")
        if trial.fewer is None:
            self._set_window(trial.window_again(result.round))
            return self._decision("latency-again", f"{told} with fewer in flight")
        self.latency.trial = None
        self._trial_hold_seconds = _TRIAL_HOLD_SECONDS
        self.ceiling.slowed(trial.knee)
        self._set_window(self.ceiling.level)
        return self._decision("latency-ours", f"{told} with more in flight again")

    def _set_window(self, window: float) -> None:
        """Set the window, and leave answers to what was sent before out: they say nothing of it."""
        self.window = window
        self._changed_at = self._clock()
        self.latency.restart(self.window)

    def _is_old(self, seconds: float | None) -> bool:
        return self._clock() - (seconds or 0.0) < self._backed_off_at

    def _cool_down(self, seconds: float) -> None:
        self.cools_down_until = max(self.cools_down_until, self._clock() + seconds)

    def _decision(self, reason: str, details: str) -> ThrottleDecision:
        return ThrottleDecision(reason, details, self.window, self.cooldown_seconds)


MOST_IDLE = 1000  # 3 KB each; a host that comes back starts as carefully as a new one


@dataclass(slots=True)
class HostPolicies:
    """Policies by host and port, those used last at the end. robots.txt's gap of a host that is forgotten is kept."""

    clock: Callable[[], float]
    most_idle: int = MOST_IDLE
    by_host: dict[str, HostPolicy] = field(default_factory=dict)
    _earlier: dict[str, tuple[float, Mapping[str, float]]] = field(default_factory=dict)  # when known, and what

    def take(self, host: str, rules: ThrottleRules) -> HostPolicy:
        """Return the host's policy, or a new one under these rules."""
        policy = self.by_host.pop(host, None) or HostPolicy(rules, self.clock)
        if host in self._earlier:
            at, state = self._earlier.pop(host)
            policy.take_over(state, self.clock() - at)
        self.by_host[host] = policy
        return policy

    def restore(self, host: str, state: Mapping[str, float], age_seconds: float) -> None:
        """Let the host be treated as another process knew it so long ago."""
        self.by_host.pop(host, None)
        self._earlier[host] = self.clock() - age_seconds, state

    def forget_idle(self, in_use: Container[str]) -> list[str]:
        """Drop the hosts beyond `most_idle` that were not used for longest, but none that is in a cooldown."""
        if len(self.by_host) <= self.most_idle:
            return []
        idle = [host for host, policy in self.by_host.items() if host not in in_use and policy.cooldown_seconds <= 0]
        forgotten = idle[: max(0, len(idle) - self.most_idle)]
        for host in forgotten:
            policy = self.by_host.pop(host)
            if policy.floor_gap_seconds > 0:
                self._earlier[host] = self.clock(), {"floor": policy.floor_gap_seconds}
        return forgotten
