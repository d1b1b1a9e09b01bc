"""The policy of a host, and its parts, event by event."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime
from statistics import median

import pytest

from llmcrawler.core.politeness.throttle_ceiling import Ceiling
from llmcrawler.core.politeness.throttle_latency import LatencyWatch
from llmcrawler.core.politeness.throttling import (
    HostBreaker,
    HostMeter,
    HostPolicies,
    HostPolicy,
    StartGap,
    ThrottleRules,
    retry_after_seconds,
)
from tests.virtual_time import Clock

FAST = ThrottleRules(max_concurrency=32, min_gap_seconds=0, start_gap_seconds=0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_limit_in_flight_is_not_taken_for_one_on_the_rate(clock: Clock) -> None:
    ceiling = Ceiling(32, clock)
    for in_flight in (12, 10, 9):
        ceiling.served(in_flight - 1, in_flight - 1, in_flight)
        clock.now += 1.5
        ceiling.refused(in_flight, ceiling.level, 0.2, 0.1, clock.now + 1)
    assert (ceiling.level, ceiling.is_rate) == (8, False)
    for _ in range(3):
        ceiling.served(8, 8, 8.0)
        clock.now += 1.5
        ceiling.refused(8, ceiling.level, 0.2, 0.1, clock.now + 1)
    assert ceiling.is_rate
    assert ceiling.level < 1


def test_a_refusal_halves_the_window_once_however_many_were_in_flight(clock: Clock) -> None:
    policy = HostPolicy(FAST, clock)
    for _ in range(15):
        policy.meter.started()
        policy.answered(0.0, 32, 32)
    assert policy.concurrency == 16
    clock.now += 5
    decisions = [policy.refused("429", 2.0, 0.5, in_flight=16) for _ in range(10)]
    assert sum(decision is not None for decision in decisions) == 1
    assert 5 <= policy.concurrency <= 8
    assert policy.cooldown_seconds == 2.0


def test_without_a_word_from_the_host_the_rests_get_longer(clock: Clock) -> None:
    policy = HostPolicy(FAST, clock)
    rests = []
    for _ in range(4):
        policy.refused("503", None, 0.1, in_flight=1)
        rests.append(policy.cooldown_seconds)
        clock.now += policy.cooldown_seconds + 0.2
    assert rests == [0.5, 1.0, 2.0, 4.0]


def test_with_fixed_settings_a_host_that_asks_for_a_rest_gets_it() -> None:
    policy = HostPolicy(ThrottleRules(max_concurrency=7, is_adaptive=False), Clock())
    policy.refused("429", 3.0, 0.1, in_flight=7)
    assert (policy.concurrency, policy.gap()) == (7, StartGap(0.2, 0.5))
    assert policy.cooldown_seconds == 3.0


# -- latency ----------------------------------------------------------------------------------------------------------


def test_a_baseline_does_not_creep_up_with_the_load() -> None:
    watch = LatencyWatch()
    for _ in range(20):
        watch.add(0.2, 4, window=4)
    for _ in range(500):
        watch.add(0.23, 7, window=7)
    assert watch.baseline == pytest.approx(0.2)


def test_a_host_that_got_faster_has_a_new_baseline() -> None:
    watch = LatencyWatch()
    for seconds in [0.3] * 20 + [0.2] * 20:
        watch.add(seconds, 4, window=4)
    assert watch.baseline == pytest.approx(0.2)


def test_a_steady_host_is_judged_by_a_few_answers_and_a_noisy_one_by_many() -> None:
    def answers_to_tell(spread: float, seed: int) -> int:
        watch, rng = LatencyWatch(), random.Random(seed)
        for _ in range(300):
            watch.add(0.2 * rng.lognormvariate(0, spread), 4, window=4)
        for count in itertools.count(1):
            verdict = watch.add(0.3 * rng.lognormvariate(0, spread), 8, window=8)
            if verdict is not None and verdict.is_raised:
                return count
        raise AssertionError

    assert max(answers_to_tell(0.02, seed) for seed in range(9)) <= 20
    assert 30 <= median(answers_to_tell(0.5, seed) for seed in range(9)) <= 400


def test_the_quick_answers_that_come_first_after_a_change_do_not_count() -> None:
    watch = LatencyWatch()
    for _ in range(10):
        watch.add(0.2, 4, window=4)
    watch.restart(window=8)
    verdicts = [watch.add(0.05, 8, window=8) for _ in range(8)]
    verdicts += [watch.add(0.2, 8, window=8) for _ in range(8)]
    assert [verdict.ratio for verdict in verdicts if verdict is not None] == [pytest.approx(1.0)]


# -- robots.txt -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("min_gap", [0.0, 0.2, 0.9, 3.0])
def test_jitter_never_shortens_what_robots_txt_asks_for(jitter: float, min_gap: float) -> None:
    rules = ThrottleRules(min_gap_seconds=min_gap, jitter=jitter)
    for adaptive in (True, False):
        policy = HostPolicy(ThrottleRules(min_gap, min_gap, jitter=jitter, is_adaptive=adaptive), Clock())
        policy.robots_came(1.0)
        assert policy.gap().least_seconds >= 1.0
    assert HostPolicy(rules, Clock()).gap().seconds >= min_gap


def test_a_gap_is_cut_to_the_users_longest_and_ends_with_the_line_that_asked_for_it() -> None:
    policy = HostPolicy(ThrottleRules(max_gap_seconds=60), Clock())
    decision = policy.robots_came(90.0)
    assert decision is not None
    assert decision.details == "robots.txt asks for a gap of 90 s and gets 60 s (AUTOTHROTTLE_MAX_DELAY)"
    assert policy.floor_gap_seconds == 60
    assert policy.robots_came(90.0) is None  # it is known
    assert policy.robots_came(0.0) is not None
    assert policy.floor_gap_seconds == 0


def test_a_host_without_its_robots_txt_rests_for_longer_each_time_until_it_is_given_up() -> None:
    policy = HostPolicy(ThrottleRules(breaker_probes=2, breaker_cooldown_seconds=5), Clock())
    rests, reasons = [], []
    for _ in range(3):
        policy.robots_failed("500")
        rests.append(policy.cooldown_seconds)
        reasons.append(policy.reason_to_give_up())
    assert rests == [5, 10, 20]
    assert reasons[:2] == [None, None]
    assert reasons[2] == "its robots.txt cannot be fetched, which forbids everything; it was requested 3 times: 500"
    policy.robots_came(0.0)
    assert policy.reason_to_give_up() is None


def test_a_host_that_asks_for_a_long_rest_before_its_robots_txt_came_is_told_by_that() -> None:
    policy = HostPolicy(ThrottleRules(max_cooldown_seconds=600), Clock())
    policy.refused("503", 601.0, 0.1, in_flight=1)
    policy.robots_failed("503 Service Unavailable")
    reason = policy.reason_to_give_up()
    assert reason is not None
    assert reason.endswith("it was requested once: 503 Service Unavailable")


# -- the breaker ------------------------------------------------------------------------------------------------------


def test_failures_of_requests_that_were_in_flight_together_are_one(clock: Clock) -> None:
    policy = HostPolicy(ThrottleRules(), clock)
    clock.now += 1
    for _ in range(10):
        policy.failed("timeout", 0.5)
    assert policy.breaker.failures == 1


def test_there_is_hope_until_enough_probes_failed(clock: Clock) -> None:
    policy = HostPolicy(ThrottleRules(breaker_failures=2, breaker_probes=1, breaker_cooldown_seconds=5), clock)
    policy.answered(0.1, 1, 1)
    reasons = []
    for _ in range(3):
        clock.now += 1
        policy.failed("refused", 0.0)
        reasons.append(policy.reason_to_give_up())
    assert reasons[:2] == [None, None]
    assert reasons[2] == "the host failed 3 times in a row, the last time with: refused"
    assert policy.concurrency == 1
    assert policy.cooldown_seconds == 10


def test_answers_that_never_come_count_by_the_time_that_they_took(clock: Clock) -> None:
    policy = HostPolicy(ThrottleRules(breaker_probes=3), clock)
    policy.answered(0.1, 1, 1)
    states = []
    for _ in range(4):
        clock.now += 31
        policy.failed("timeout", 30.0)
        states.append((policy.breaker.is_open, policy.cooldown_seconds, policy.reason_to_give_up()))
    assert states[:2] == [(False, 0.0, None), (True, 5.0, None)]
    assert states[2:] == [
        (True, 10.0, None),
        (True, 20.0, "the host failed 4 times in a row, the last time with: timeout"),
    ]
    policy.answered(0.1, 1, 1)
    clock.now += 31
    policy.failed("timeout", 30.0)
    assert not policy.breaker.is_open


def test_a_host_that_never_answered_is_not_waited_for(clock: Clock) -> None:
    policy = HostPolicy(ThrottleRules(breaker_failures=2), clock)
    for _ in range(2):
        clock.now += 1
        policy.failed("dns", 0.0)
    assert policy.reason_to_give_up() is not None


def test_a_host_that_asks_for_more_than_the_users_limit_is_given_up() -> None:
    policy = HostPolicy(ThrottleRules(max_cooldown_seconds=600), Clock())
    policy.refused("429", 601.0, 0.1, in_flight=1)
    assert policy.reason_to_give_up() == "the host asks for a pause of 601 s more"


def test_an_answer_closes_the_breaker() -> None:
    breaker = HostBreaker(2, 5.0)
    breaker.failed("x")
    breaker.failed("x")
    assert (breaker.is_open, breaker.answered(), breaker.is_open) == (True, True, False)


# -- many hosts -------------------------------------------------------------------------------------------------------


def test_the_hosts_that_were_idle_for_longest_are_forgotten() -> None:
    hosts = HostPolicies(Clock(), most_idle=2)
    for key in "abcdef":
        hosts.take(key, FAST)
    hosts.take("a", FAST)
    assert hosts.forget_idle(in_use={"c"}) == ["b", "d", "e"]
    assert list(hosts.by_host) == ["c", "f", "a"]


def test_a_host_that_rests_is_not_forgotten(clock: Clock) -> None:
    hosts = HostPolicies(clock, most_idle=0)
    hosts.take("a", FAST).refused("429", 30.0, 0.1, in_flight=1)
    assert hosts.forget_idle(in_use=()) == []
    clock.now += 31
    assert hosts.forget_idle(in_use=()) == ["a"]


def test_what_robots_txt_asks_for_outlives_the_host_s_policy() -> None:
    hosts = HostPolicies(Clock(), most_idle=0)
    hosts.take("a", FAST).robots_came(1.5)
    assert hosts.forget_idle(in_use=()) == ["a"]
    assert hosts.take("a", FAST).gap().least_seconds >= 1.5


# -- Retry-After ------------------------------------------------------------------------------------------------------


NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("0", 0.0),
        ("6", 6.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Saturday, 21-Nov-26 12:00:30 GMT", 30.0),
        ("Sat Nov 21 12:00:30 2026", 30.0),
        ("Sat, 21 Nov 2026 13:00:30 +0100", 30.0),
        ("Fri, 20 Nov 2026 12:00:00 GMT", 0.0),
        ("Sat, 99 Nov 2026 12:00:30 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, NOW) == seconds


# -- figures ----------------------------------------------------------------------------------------------------------


def test_the_figures_of_a_host_obey_littles_law(clock: Clock) -> None:
    meter = HostMeter(clock)
    for n in range(100):
        meter.started()
        clock.now += 0.1
        meter.answered(0.5 if n % 10 else 2.5, refused=n == 99)
    figures = meter.figures()
    assert figures.requests == 100
    assert figures.throughput == pytest.approx(10)
    assert (figures.latency_p50, figures.latency_p95) == (0.5, 2.5)
    assert figures.mean_in_flight == pytest.approx(10 * 0.7, rel=0.01)
    assert figures.refused_share == 0.01
