"""What the policy makes of model servers, in simulated time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

import pytest

from llmcrawler.core.politeness.throttling import ThrottleRules
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
from tests.nightly import rest_by_night

FAST = ThrottleRules(max_concurrency=32, min_gap_seconds=0, start_gap_seconds=0)


def runs_against_the_best(
    server: Callable[[int], Server], limit: int, pages: int, stalls: tuple[float, float] = (0, 0)
) -> list[Run]:
    levels = (limit - 1, limit, limit + 1)
    return [share_of_best(partial(server, seed), FAST, levels, seed, pages=pages, stalls=stalls) for seed in range(5)]


# -- the start --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency", [0.0, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_start_doubles_its_pace_three_times_a_second_at_most(latency: float, seed: int) -> None:
    run = crawl(lambda _now, _in_flight: Answer(latency + 0.001), FAST, 1.1, seed)
    for seconds, most in ((0.15, 1), (0.35, 3), (0.6, 8), (1.0, 25)):
        assert sum(start <= seconds for start in run.starts) <= most


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
    assert len(run.healthy) >= 120  # 33.6 s by Little's law, times 1.1, and 5 s


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retry_after", [1.0, 6.0])
def test_a_fixed_capacity_is_found_with_hardly_a_refusal(retry_after: float) -> None:
    run = crawl(fixed_capacity(8, 0.2, retry_after), FAST, 120)
    assert run.refused_share < 0.01
    assert run.throughput(since=20) > 0.85 * 8 / 0.2
    assert run.throughput() > 0.8 * 8 / 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "latency", "jitter"),
    rest_by_night([(3, 0.2, 0.1), (20, 1.2, 0.3), (5, 0.6, 0.3), (8, 0.2, 0.5), (12, 0.2, 0.2), (20, 0.6, 0.05)], 2),
)
def test_a_crawl_is_nearly_as_fast_as_with_the_best_fixed_setting(limit: int, latency: float, jitter: float) -> None:
    runs = runs_against_the_best(
        lambda seed: jittery(late_refusals(limit, latency), random.Random(seed), jitter), limit, pages=500
    )
    assert median(run.share for run in runs) >= 0.8
    assert min(run.share for run in runs) >= 0.7
    assert max(run.refused_share for run in runs) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "spread"), rest_by_night([(5, 0.3), (20, 0.6), (8, 0.3), (8, 0.6)], 2))
def test_noise_does_not_slow_a_host_with_a_limit_down(limit: int, spread: float) -> None:
    runs = runs_against_the_best(
        lambda seed: noisy(late_refusals(limit, 0.2), random.Random(seed), spread), limit, pages=1500
    )
    assert median(run.share for run in runs) >= 0.8
    assert max(run.refused_share for run in runs) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "latency", "mood_seconds"), rest_by_night([(8, 0.2, 0.5), (20, 0.6, 2), (8, 0.2, 2), (3, 0.2, 4)], 2)
)
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


@pytest.mark.slow
@pytest.mark.parametrize("share", rest_by_night([0.07, 0.03, 0.15]))
@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_refusals_at_random_do_not_bring_the_crawl_to_a_stand(share: float, retry_after: float | None) -> None:
    pages = 1000
    for seed in range(5):
        rng = random.Random(seed)
        server = refusing_at_random(lambda _now, _in_flight: Answer(0.2), rng, share, retry_after)
        run = crawl(server, replace(FAST, max_concurrency=16), seed=seed, pages=pages)
        rests = share / (1 - share) * pages * (retry_after or 0.5)
        assert run.healthy[-1] < 2 * (pages * 0.2 / 16 + rests) + 100


def test_nothing_starts_before_retry_after_is_over() -> None:
    run = crawl(fixed_capacity(8, 0.2, 6.0), FAST, 60)
    first = run.refused[0]
    assert min(start for start in run.starts if start > first) >= first + 6.0


# -- latency ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "latency", "jitter"),
    rest_by_night([(3, 0.8, 0.1), (16, 0.3, 0.1), (4, 0.3, 0.05), (6, 0.2, 0.0), (10, 0.1, 0.02), (16, 0.8, 0.05)], 2),
)
def test_a_host_that_slows_down_is_settled_near_what_it_can_work_on(limit: int, latency: float, jitter: float) -> None:
    for seed in range(4):
        run = crawl(jittery(degrading(limit, latency), random.Random(seed), jitter), FAST, seed=seed, pages=1000)
        half = run.starts[-1] / 2
        assert 0.75 * limit <= run.settled(since=half) <= 1.25 * limit
        assert run.throughput(since=half) > 0.9 * limit / (latency + jitter / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "spread"), rest_by_night([(4, 0.3), (16, 0.6), (6, 0.3), (6, 0.6)], 2))
def test_noise_does_not_hide_that_a_host_slows_down(limit: int, spread: float) -> None:
    runs = [
        crawl(noisy(degrading(limit, 0.2), random.Random(seed), spread), FAST, seed=seed, pages=3000)
        for seed in range(5)
    ]
    settled = [run.settled(since=run.starts[-1] / 2) / limit for run in runs]
    assert 0.75 <= median(settled) <= 1.25
    assert max(settled) < 2.5


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.3, 0.5, 0.8])
def test_noise_alone_does_not_slow_the_crawl_down(spread: float) -> None:
    runs = runs_against_the_best(
        lambda seed: noisy(lambda _now, _in_flight: Answer(0.2), random.Random(seed), spread), 32, pages=3000
    )
    assert median(run.share for run in runs) > 0.8
    assert min(run.share for run in runs) > 0.6


@pytest.mark.slow
def test_latency_that_is_not_our_load_is_told_by_a_trial() -> None:
    run = crawl(bursty(0.2, 20, 5, 3), FAST, 200)
    assert {"latency", "latency-not-ours"} <= run.reasons()
    assert run.throughput(since=20) > 0.8 * 32 / (0.2 * 0.8 + 0.6 * 0.2)


# -- the breaker ------------------------------------------------------------------------------------------------------


def test_a_host_that_is_down_rests_and_is_probed_until_it_is_back() -> None:
    run = crawl(lambda _now, _in_flight: Answer(0.2), ThrottleRules(breaker_cooldown_seconds=5), 120, down=(20, 60))
    while_down = [start for start in run.starts if 20 <= start < 60]
    assert len(while_down) < 20
    assert "recovered" in run.reasons()
    assert run.throughput(since=90) > 4
