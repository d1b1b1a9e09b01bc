"""Model servers and a crawl of them in simulated time, driven by a `HostPolicy` as the downloader is."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from llmcrawler.core.politeness.throttling import HostPolicy, ThrottleDecision, ThrottleRules


@dataclass(frozen=True)
class Answer:
    seconds: float
    status: int = 200
    retry_after: float | None = None
    late_limit: int = 0  # refused when more are in flight at its end


Event = tuple[float, int, int, "Answer"]  # ends at, order, in flight at its start, what comes
Found = tuple[Event, bool, float]  # whether it is refused at its end, and when the crawler saw that
Server = Callable[[float, int], Answer]  # (time, requests in flight with this one) -> its answer


def fixed_capacity(limit: int, latency: float, retry_after: float | None = 1.0) -> Server:
    """Refuses at once what is over its limit."""
    return lambda _now, in_flight: Answer(0.01, 429, retry_after) if in_flight > limit else Answer(latency)


def late_refusals(limit: int, latency: float, retry_after: float = 1.0) -> Server:
    """Works on all of them, and refuses those that end when more than its limit are in flight."""
    return lambda _now, _in_flight: Answer(latency, 200, retry_after, limit)


def changing(limit: int, latency: float, after: int, to: int) -> Server:
    """As `late_refusals`, with another limit once it has been asked so often."""
    asked = 0

    def answer(_now: float, _in_flight: int) -> Answer:
        nonlocal asked
        asked += 1
        return Answer(latency, 200, 1.0, limit if asked <= after else to)

    return answer


def slowed(server: Server, change: Callable[[float, float], float]) -> Server:
    """`change` gets the time and the seconds of an answer, and returns others."""

    def answer(now: float, in_flight: int) -> Answer:
        plain = server(now, in_flight)
        return replace(plain, seconds=change(now, plain.seconds))

    return answer


def jittery(server: Server, rng: random.Random, seconds: float) -> Server:
    """Some are slower, by up to so much."""
    return slowed(server, lambda _now, plain: plain + rng.uniform(0, seconds))


def degrading(limit: int, latency: float) -> Server:
    """Works on so many at a time; more of them wait for each other."""
    return lambda _now, in_flight: Answer(latency * max(1.0, in_flight / limit))


class TokenBucket:
    """So many a second on average, so many at once; refuses with 429 and no word on when to come back, or with one."""

    def __init__(self, rate: float, burst: float, latency: float, retry_after: float | None = None) -> None:
        self.rate, self.burst, self.latency, self.retry_after = rate, burst, latency, retry_after
        self.tokens, self.at = burst, 0.0

    def __call__(self, now: float, in_flight: int) -> Answer:
        self.tokens, self.at = min(self.burst, self.tokens + self.rate * (now - self.at)), now
        if self.tokens < 1:
            return Answer(0.01, 429, self.retry_after)
        self.tokens -= 1
        return Answer(self.latency)


def bursty(latency: float, quiet: float, busy: float, slower: float) -> Server:
    """Now and then busy with something else, whatever we do."""
    return lambda now, _in_flight: Answer(latency * (slower if now % (quiet + busy) > quiet else 1.0))


def noisy(server: Server, rng: random.Random, spread: float = 0.3) -> Server:
    return slowed(server, lambda _now, seconds: seconds * rng.lognormvariate(0, spread))


def refusing_at_random(server: Server, rng: random.Random, share: float, retry_after: float | None = None) -> Server:
    """As many of ten requests, however many are in flight."""
    return lambda now, in_flight: Answer(0.05, 429, retry_after) if rng.random() < share else server(now, in_flight)


def moody(server: Server, rng: random.Random, mean_seconds: float, most: float) -> Server:
    """For some seconds at a time everything takes longer, by up to `most` times: a machine with other work to do."""
    until, factor = 0.0, 1.0

    def change(now: float, seconds: float) -> float:
        nonlocal until, factor
        while now >= until:
            until += rng.expovariate(1 / mean_seconds)
            factor = 1 + most * rng.random() ** 2
        return seconds * factor

    return slowed(server, change)


@dataclass
class Run:
    starts: list[float] = field(default_factory=list)
    in_flight: list[int] = field(default_factory=list)  # at each start
    healthy: list[float] = field(default_factory=list)  # when
    refused: list[float] = field(default_factory=list)
    decisions: list[tuple[float, ThrottleDecision]] = field(default_factory=list)
    policy: HostPolicy | None = None
    share: float = 0.0

    @property
    def gaps(self) -> list[float]:
        return [after - before for before, after in zip(self.starts, self.starts[1:], strict=False)]

    def throughput(self, since: float = 0.0) -> float:
        return sum(at >= since for at in self.healthy) / (max(self.healthy) - since)

    def settled(self, since: float) -> float:
        """The mean number in flight at the starts since then."""
        levels = [level for at, level in zip(self.starts, self.in_flight, strict=True) if at >= since]
        return sum(levels) / len(levels)

    @property
    def refused_share(self) -> float:
        return len(self.refused) / max(1, len(self.refused) + len(self.healthy))

    def reasons(self) -> set[str]:
        return {decision.reason for _, decision in self.decisions}


def crawl(
    server: Server,
    rules: ThrottleRules,
    seconds: float = 1e6,
    seed: int = 1,
    *,
    down: tuple[float, float] = (0, 0),
    pages: int = 10**9,
    stalls: tuple[float, float] = (0, 0),
    page_seconds: float = 0.0,
) -> Run:
    """A crawl of so many pages, or for so long. The first two come one after the other (robots.txt, the first page),
    then there is always another url. From down[0] to down[1] the server answers nothing. Every stalls[0] seconds on
    average the crawler itself gets no time, for up to stalls[1] seconds. It works on each page for `page_seconds`, and
    looks for answers when it has done those that it found.
    """
    now, rng, order, run = [0.0], random.Random(seed), count(), Run()
    policy = run.policy = HostPolicy(rules, lambda: now[0])
    events: list[Event] = []
    ended: list[tuple[Event, bool]] = []  # what the crawler has not seen, and whether it is refused
    found: deque[Found] = deque()
    next_start = stall_at = busy_until = 0.0

    def in_flight() -> int:
        return len(events) + len(ended) + len(found)

    def has_room() -> bool:
        known = pages if len(run.healthy) >= 2 else len(run.healthy) + 1
        return in_flight() < min(policy.concurrency, known - len(run.healthy))

    while now[0] < seconds and len(run.healthy) < pages:
        while has_room() and now[0] >= max(next_start, policy.cools_down_until):
            policy.meter.started()
            run.starts.append(now[0])
            run.in_flight.append(len(events) + 1)
            is_down = down[0] <= now[0] < down[1]
            answer = Answer(0.01, 0) if is_down else server(now[0], len(events) + 1)
            heapq.heappush(events, (now[0] + answer.seconds, next(order), in_flight() + 1, answer))
            gap = policy.gap()
            next_start = now[0] + gap.seconds * (1 + rng.uniform(-gap.jitter, gap.jitter))
        waits = [now[0]] if ended or found else [event[0] for event in events[:1]]
        if has_room():
            waits.append(max(next_start, policy.cools_down_until))
        now[0] = max(now[0], busy_until, min(waits))
        if stalls[1] and now[0] >= stall_at:
            now[0] = max(now[0], stall_at + rng.uniform(0, stalls[1]))
            stall_at = now[0] + rng.expovariate(1 / stalls[0])
        ended.extend(_ended(events, now[0]))
        if not found:
            found.extend((*one, now[0]) for one in ended)
            ended.clear()
        while found and now[0] >= busy_until:
            decision = _finish(policy, run, now[0], found[0], in_flight())
            found.popleft()
            if decision is not None:
                run.decisions.append((now[0], decision))
            busy_until = now[0] + page_seconds
    return run


def _ended(events: list[Event], now: float) -> Iterator[tuple[Event, bool]]:
    while events and events[0][0] <= now:
        is_late = 0 < events[0][3].late_limit < len(events)
        yield heapq.heappop(events), is_late


def _finish(policy: HostPolicy, run: Run, now: float, found: Found, in_flight: int) -> ThrottleDecision | None:
    (ends_at, _, at_start, answer), is_late, seen_at = found
    started = ends_at - answer.seconds
    latency = seen_at - started
    if answer.status == 200 and not is_late:
        run.healthy.append(now)
        return policy.answered(latency, at_start, in_flight)
    if answer.status == 429 or is_late:
        run.refused.append(now)
        return policy.refused("429", answer.retry_after, now - started, max(at_start, in_flight))
    return policy.failed("refused", now - started)


def share_of_best(
    server: Callable[[], Server],
    rules: ThrottleRules,
    levels: Sequence[int],
    seed: int,
    *,
    pages: int,
    stalls: tuple[float, float] = (0, 0),
    page_seconds: float = 0.0,
) -> Run:
    """The crawl of so many pages, its `share` that of the rate of the best fixed number in flight."""
    fixed = [replace(rules, max_concurrency=level, is_adaptive=False) for level in levels]

    def crawled(these: ThrottleRules) -> Run:
        return crawl(server(), these, seed=seed, pages=pages, stalls=stalls, page_seconds=page_seconds)

    best = max(crawled(each).throughput() for each in fixed)
    run = crawled(rules)
    run.share = run.throughput() / best
    return run
