"""The policy against model servers, in simulated time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from statistics import median

import pytest

from llmcrawler.politeness.throttling import (
    HostBreaker,
    HostPolicies,
    HostPolicy,
    StartGap,
    ThrottleRules,
    retry_after_seconds,
)
from llmcrawler.politeness.throttling.ceiling import Ceiling
from llmcrawler.politeness.throttling.latency import LatencyWatch
from llmcrawler.politeness.throttling.meter import HostMeter
from tests.core.politeness.throttle_simulation import (
    Answer,
    Run,
    Server,
    TokenBucket,
    bursty,
    changing,
    crawl,
    degrading,
    fixed_capacity,
    jittery,
    late_refusals,
    moody,
    noisy,
    refusing_at_random,
    share_of_best,
)

FAST = ThrottleRules(max_concurrency=32, min_gap_seconds=0, start_gap_seconds=0)


def runs_against_the_best(
    server: Callable[[int], Server], limit: int, pages: int, stalls: tuple[float, float] = (0, 0)
) -> list[Run]:
    levels = (limit - 1, limit, limit + 1)
    return [share_of_best(partial(server, seed), FAST, levels, seed, pages=pages, stalls=stalls) for seed in range(5)]


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


# -- the start --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency", [0.0, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_second_has_three_starts_at_most(latency: float, seed: int) -> None:
    run = crawl(lambda _now, _in_flight: Answer(latency + 0.001), FAST, 1.1, seed)
    assert sum(start <= 1.0 for start in run.starts) <= 3


def test_a_start_ramps_from_one_to_the_limit_and_never_over_it() -> None:
    run = crawl(lambda _now, _in_flight: Answer(0.2), FAST, 20)
    assert run.in_flight[0] == 1
    assert max(run.in_flight) == 32
    assert run.throughput(since=5) > 0.9 * 32 / 0.2


def test_no_two_gaps_are_alike() -> None:
    gaps = [round(gap, 5) for gap in crawl(lambda _now, _in_flight: Answer(0.05), ThrottleRules(), 10).gaps[:20]]
    assert len(set(gaps)) == 20


def test_the_users_mean_gap_is_kept_by_a_fast_host() -> None:
    run = crawl(lambda _now, _in_flight: Answer(0.01), ThrottleRules(min_gap_seconds=0.2), 200)
    gaps = run.gaps
    assert 0.195 < sum(gaps) / len(gaps) < 0.21
    assert min(gaps) >= 0.1


def test_a_slow_host_is_worked_at_the_full_concurrency() -> None:
    run = crawl(lambda _now, _in_flight: Answer(1.4), ThrottleRules(), 42)
    assert max(run.in_flight) == 5
    assert len(run.healthy) >= 120  # DESIGN's bound of 33.6 s, times 1.1, and 5 s


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retry_after", [1.0, 6.0])
def test_a_fixed_capacity_is_found_with_hardly_a_refusal(retry_after: float) -> None:
    run = crawl(fixed_capacity(8, 0.2, retry_after), FAST, 120)
    assert run.refused_share < 0.01
    assert run.throughput(since=20) > 0.85 * 8 / 0.2
    assert run.throughput() > 0.8 * 8 / 0.2


@pytest.mark.parametrize(
    ("limit", "latency", "jitter"),
    [(3, 0.2, 0.1), (5, 0.6, 0.3), (8, 0.2, 0.05), (8, 0.2, 0.5), (12, 0.2, 0.2), (20, 0.6, 0.05), (20, 1.2, 0.3)],
)
def test_a_crawl_is_nearly_as_fast_as_with_the_best_fixed_setting(limit: int, latency: float, jitter: float) -> None:
    runs = runs_against_the_best(
        lambda seed: jittery(late_refusals(limit, latency), random.Random(seed), jitter), limit, pages=500
    )
    assert median(run.share for run in runs) >= 0.8
    assert min(run.share for run in runs) >= 0.7
    assert max(run.refused_share for run in runs) < 0.02


@pytest.mark.parametrize(("limit", "spread"), [(5, 0.3), (8, 0.3), (8, 0.6), (20, 0.6)])
def test_noise_does_not_slow_a_host_with_a_limit_down(limit: int, spread: float) -> None:
    runs = runs_against_the_best(
        lambda seed: noisy(late_refusals(limit, 0.2), random.Random(seed), spread), limit, pages=1500
    )
    assert median(run.share for run in runs) >= 0.8
    assert max(run.refused_share for run in runs) < 0.01


@pytest.mark.parametrize(("limit", "latency", "mood_seconds"), [(8, 0.2, 0.5), (8, 0.2, 2), (3, 0.2, 4), (20, 0.6, 2)])
def test_slow_seconds_now_and_then_do_not_hold_the_crawl_back(limit: int, latency: float, mood_seconds: float) -> None:
    runs = runs_against_the_best(
        lambda seed: moody(late_refusals(limit, latency), random.Random(seed), mood_seconds, 1.0), limit, pages=500
    )
    assert median(run.share for run in runs) >= 0.7
    assert max(run.refused_share for run in runs) < 0.02


@pytest.mark.parametrize(("limit", "latency"), [(3, 0.2), (5, 0.6), (8, 0.2)])
def test_a_crawler_that_has_to_wait_for_its_machine_does_not_blame_the_host(limit: int, latency: float) -> None:
    runs = runs_against_the_best(lambda _seed: late_refusals(limit, latency), limit, pages=500, stalls=(0.3, 0.15))
    assert median(run.share for run in runs) >= 0.75
    assert max(run.refused_share for run in runs) < 0.02


@pytest.mark.parametrize(
    ("rate", "burst", "latency", "retry_after", "share"),
    [
        (5, 10, 0.05, None, 0.9),
        (5, 10, 0.05, 6, 0.7),
        (20, 20, 0.2, 1, 0.9),
        (1, 5, 0.2, None, 0.9),
        (30, 60, 0.1, 1, 0.9),
        (3, 3, 1.0, 1, 0.9),
        (10, 1, 0.1, 1, 0.45),  # a short gap is refused at once, whatever the mean
    ],
)
def test_a_rate_limit_is_found_with_few_refusals(
    rate: float, burst: float, latency: float, retry_after: float | None, share: float
) -> None:
    for seed in range(3):
        run = crawl(TokenBucket(rate, burst, latency, retry_after), FAST, seed=seed, pages=500)
        assert run.throughput() > share * rate
        assert run.refused_share < 0.03


@pytest.mark.parametrize(
    ("limit", "to", "latency", "share"), [(8, 4, 0.2, 0.75), (16, 8, 0.2, 0.6), (2, 5, 0.2, 1.1), (5, 2, 0.6, 1.0)]
)
def test_a_limit_that_changes_is_followed(limit: int, to: int, latency: float, share: float) -> None:
    pages, levels = 500, range(min(limit, to), max(limit, to) + 1, 2)
    for seed in range(3):
        run = share_of_best(
            lambda: changing(limit, latency, pages // 3, to), FAST, levels, seed, pages=pages, page_seconds=0.02
        )
        assert run.share >= share
        assert run.refused_share < 0.03


@pytest.mark.parametrize("share", [0.03, 0.07, 0.15])
@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_refusals_at_random_do_not_bring_the_crawl_to_a_stand(share: float, retry_after: float | None) -> None:
    pages = 1000
    for seed in range(5):
        rng = random.Random(seed)
        server = refusing_at_random(lambda _now, _in_flight: Answer(0.2), rng, share, retry_after)
        run = crawl(server, replace(FAST, max_concurrency=16), seed=seed, pages=pages)
        rests = share / (1 - share) * pages * (retry_after or 0.5)
        assert run.healthy[-1] < 2 * (pages * 0.2 / 16 + rests) + 100


def test_a_limit_in_flight_is_not_taken_for_one_on_the_rate() -> None:
    clock = Clock()
    ceiling = Ceiling(32, clock)
    for in_flight in (12, 10, 9):
        ceiling.served(in_flight - 1, in_flight - 1, in_flight)
        clock.seconds += 1.5
        ceiling.refused(in_flight, ceiling.level, 0.2, 0.1, clock.seconds + 1)
    assert (ceiling.level, ceiling.is_rate) == (8, False)
    for _ in range(3):
        ceiling.served(8, 8, 8.0)
        clock.seconds += 1.5
        ceiling.refused(8, ceiling.level, 0.2, 0.1, clock.seconds + 1)
    assert ceiling.is_rate
    assert ceiling.level < 1


def test_nothing_starts_before_retry_after_is_over() -> None:
    run = crawl(fixed_capacity(8, 0.2, 6.0), FAST, 60)
    first = run.refused[0]
    assert min(start for start in run.starts if start > first) >= first + 6.0


def test_a_refusal_halves_the_window_once_however_many_were_in_flight() -> None:
    clock = Clock()
    policy = HostPolicy(FAST, clock)
    for _ in range(15):
        policy.started()
        policy.answered(0.0, 32, 32)
    assert policy.concurrency == 16
    clock.seconds += 5
    decisions = [policy.refused("429", 2.0, 0.5, in_flight=16) for _ in range(10)]
    assert sum(decision is not None for decision in decisions) == 1
    assert 5 <= policy.concurrency <= 8
    assert policy.cooldown_seconds == 2.0


def test_without_a_word_from_the_host_the_rests_get_longer() -> None:
    clock = Clock()
    policy = HostPolicy(FAST, clock)
    rests = []
    for _ in range(4):
        policy.refused("503", None, 0.1, in_flight=1)
        rests.append(policy.cooldown_seconds)
        clock.seconds += policy.cooldown_seconds + 0.2
    assert rests == [0.5, 1.0, 2.0, 4.0]


def test_with_fixed_settings_a_host_that_asks_for_a_rest_gets_it() -> None:
    policy = HostPolicy(ThrottleRules(max_concurrency=7, is_adaptive=False), Clock())
    policy.refused("429", 3.0, 0.1, in_flight=7)
    assert (policy.concurrency, policy.gap()) == (7, StartGap(0.2, 0.5))
    assert policy.cooldown_seconds == 3.0


# -- latency ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "latency", "jitter"),
    [(3, 0.8, 0.1), (4, 0.3, 0.05), (6, 0.2, 0.0), (6, 0.2, 0.05), (10, 0.1, 0.02), (16, 0.3, 0.1), (16, 0.8, 0.05)],
)
def test_a_host_that_slows_down_is_settled_near_what_it_can_work_on(limit: int, latency: float, jitter: float) -> None:
    for seed in range(4):
        run = crawl(jittery(degrading(limit, latency), random.Random(seed), jitter), FAST, seed=seed, pages=1000)
        half = run.starts[-1] / 2
        assert 0.75 * limit <= run.settled(since=half) <= 1.25 * limit
        assert run.throughput(since=half) > 0.9 * limit / (latency + jitter / 2)


@pytest.mark.parametrize(("limit", "spread"), [(4, 0.3), (6, 0.3), (6, 0.6), (16, 0.6)])
def test_noise_does_not_hide_that_a_host_slows_down(limit: int, spread: float) -> None:
    runs = [
        crawl(noisy(degrading(limit, 0.2), random.Random(seed), spread), FAST, seed=seed, pages=3000)
        for seed in range(5)
    ]
    settled = [run.settled(since=run.starts[-1] / 2) / limit for run in runs]
    assert 0.75 <= median(settled) <= 1.25
    assert max(settled) < 2.5


@pytest.mark.parametrize("spread", [0.3, 0.5, 0.8])
def test_noise_alone_does_not_slow_the_crawl_down(spread: float) -> None:
    runs = runs_against_the_best(
        lambda seed: noisy(lambda _now, _in_flight: Answer(0.2), random.Random(seed), spread), 32, pages=3000
    )
    assert median(run.share for run in runs) > 0.8
    assert min(run.share for run in runs) > 0.6


def test_latency_that_is_not_our_load_is_told_by_a_trial() -> None:
    run = crawl(bursty(0.2, 20, 5, 3), FAST, 200)
    assert {"latency", "latency-not-ours"} <= run.reasons()
    assert run.throughput(since=20) > 0.8 * 32 / (0.2 * 0.8 + 0.6 * 0.2)


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
        policy.set_floor(1.0)
        assert policy.gap().least_seconds >= 1.0
    assert HostPolicy(rules, Clock()).gap().seconds >= min_gap


# -- the breaker ------------------------------------------------------------------------------------------------------


def test_a_host_that_is_down_rests_and_is_probed_until_it_is_back() -> None:
    run = crawl(lambda _now, _in_flight: Answer(0.2), ThrottleRules(breaker_cooldown_seconds=5), 120, down=(20, 60))
    while_down = [start for start in run.starts if 20 <= start < 60]
    assert len(while_down) < 20
    assert "recovered" in run.reasons()
    assert run.throughput(since=90) > 4


def test_failures_of_requests_that_were_in_flight_together_are_one() -> None:
    clock = Clock()
    policy = HostPolicy(ThrottleRules(), clock)
    clock.seconds += 1
    for _ in range(10):
        policy.failed("timeout", 0.5)
    assert policy.breaker.failures == 1


def test_there_is_hope_until_enough_probes_failed() -> None:
    clock = Clock()
    policy = HostPolicy(ThrottleRules(breaker_failures=2, breaker_probes=1, breaker_cooldown_seconds=5), clock)
    policy.answered(0.1, 1, 1)
    reasons = []
    for _ in range(3):
        clock.seconds += 1
        policy.failed("refused", 0.0)
        reasons.append(policy.reason_to_give_up())
    assert reasons[:2] == [None, None]
    assert reasons[2] == "the host failed 3 times in a row, the last time with: refused"
    assert policy.concurrency == 1
    assert policy.cooldown_seconds == 10


def test_a_host_that_never_answered_is_not_waited_for() -> None:
    clock = Clock()
    policy = HostPolicy(ThrottleRules(breaker_failures=2), clock)
    for _ in range(2):
        clock.seconds += 1
        policy.failed("dns", 0.0)
    assert policy.reason_to_give_up() is not None


def test_a_host_that_asks_for_more_than_the_users_limit_is_given_up() -> None:
    policy = HostPolicy(ThrottleRules(max_cooldown_seconds=600), Clock())
    policy.refused("429", 601.0, 0.1, in_flight=1)
    assert policy.reason_to_give_up() == "the host asks to be left alone for 601 s more"


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


def test_a_host_that_rests_is_not_forgotten() -> None:
    clock = Clock()
    hosts = HostPolicies(clock, most_idle=0)
    hosts.take("a", FAST).refused("429", 30.0, 0.1, in_flight=1)
    assert hosts.forget_idle(in_use=()) == []
    clock.seconds += 31
    assert hosts.forget_idle(in_use=()) == ["a"]


def test_what_robots_txt_asks_for_outlives_the_host_s_policy() -> None:
    hosts = HostPolicies(Clock(), most_idle=0)
    hosts.take("a", FAST).set_floor(1.5)
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


def test_the_figures_of_a_host_obey_littles_law() -> None:
    clock = Clock()
    meter = HostMeter(clock)
    for n in range(100):
        meter.started()
        clock.seconds += 0.1
        meter.answered(0.5 if n % 10 else 2.5, refused=n == 99)
    figures = meter.figures()
    assert figures.requests == 100
    assert figures.throughput == pytest.approx(10)
    assert (figures.latency_p50, figures.latency_p95) == (0.5, 2.5)
    assert figures.mean_in_flight == pytest.approx(10 * 0.7, rel=0.01)
    assert figures.refused_share == 0.01
