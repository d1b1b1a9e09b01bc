"""The throttling policy over a grid of model servers in simulated time, against the best fixed setting on each.

    python -m benchmarks.throttle_grid [--kinds late,early,...] [--limits 3,5,8,12,16,24]
        [--latencies 0.05,0.2,0.6,1] [--jitters 0,0.5,1] [--pages 500,2000] [--seeds 3]
        [--page-seconds 0.02] [--stalls 0,0] [--points]

A line for each kind of server, limit and number of pages: the worst and the median crawl over latencies, jitters (of
the latency) and seeds, as a share of the best fixed setting's mean throughput; the share refused, median and most; and
what it settled at over the second half, as a share of the limit. --points has a line for each latency and jitter too.
The crawler works on each page for --page-seconds, as ours does, so it sees latency of its own; with --stalls 0.3,0.15
its machine has no time for it every 0.3 s on average, for up to 0.15 s.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from itertools import product
from statistics import median

from llmcrawler.core.politeness.throttling import ThrottleRules
from tests.core.politeness.throttle_simulation import (
    Answer,
    Server,
    TokenBucket,
    changing,
    degrading,
    fixed_capacity,
    jittery,
    late_refusals,
    moody,
    refusing_at_random,
    share_of_best,
)

MOST = 32
RULES = ThrottleRules(max_concurrency=MOST, min_gap_seconds=0)


@dataclass(frozen=True, slots=True)
class Point:
    kind: str
    pages: int
    limit: int
    latency: float
    jitter: float
    seed: int
    page_seconds: float
    stalls: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Figures:
    share: float
    refused: float
    settled: float


KINDS: dict[str, Callable[[Point, random.Random], Server]] = {
    "late": lambda at, _rng: late_refusals(at.limit, at.latency),
    "early": lambda at, _rng: fixed_capacity(at.limit, at.latency),
    "silent": lambda at, _rng: fixed_capacity(at.limit, at.latency, None),  # no Retry-After
    "degrade": lambda at, _rng: degrading(at.limit, at.latency),
    "bucket": lambda at, _rng: TokenBucket(at.limit, 2 * at.limit, at.latency, 1.0),
    "falling": lambda at, _rng: changing(at.limit, at.latency, at.pages // 3, max(2, at.limit // 2)),
    "rising": lambda at, _rng: changing(max(2, at.limit // 2), at.latency, at.pages // 3, at.limit),
    "moody": lambda at, rng: moody(late_refusals(at.limit, at.latency), rng, 2.0, 1.0),
    "random": lambda at, rng: refusing_at_random(late_refusals(at.limit, at.latency), rng, 0.02, 1.0),
    "faulty": lambda at, rng: refusing_at_random(late_refusals(at.limit, at.latency), rng, 0.01),
    "free": lambda at, _rng: lambda _now, _in_flight: Answer(at.latency),
}


def levels(at: Point) -> Iterable[int]:
    match at.kind:
        case "free":
            return [MOST]
        case "bucket":
            return [1, 2, 3, 4, 6, 8, 12, 16]
        case "falling" | "rising":
            return sorted({max(2, at.limit // 2), at.limit * 3 // 4, at.limit})
        case "degrade":
            return [at.limit, 2 * at.limit]
        case _:
            return [at.limit, at.limit + 1]


def measure(at: Point) -> Figures:
    def server() -> Server:
        rng = random.Random(at.seed)
        return jittery(KINDS[at.kind](at, rng), rng, at.jitter * at.latency)

    settings = [level for level in levels(at) if level <= MOST]
    run = share_of_best(
        server, RULES, settings, at.seed, pages=at.pages, stalls=at.stalls, page_seconds=at.page_seconds
    )
    return Figures(run.share, run.refused_share, run.settled(run.starts[-1] / 2) / at.limit)


def line(name: str, found: Sequence[Figures]) -> str:
    shares, refused, settled = zip(*map(astuple, found), strict=True)
    return (
        f"{name:38} worst {min(shares):4.0%} median {median(shares):4.0%}   refused {median(refused):5.1%}"
        f" most {max(refused):5.1%}   settled {median(settled):4.0%} ({min(settled):.0%} to {max(settled):.0%})"
    )


def integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def fractions(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--limits", default="3,5,8,12,16,24")
    parser.add_argument("--latencies", default="0.05,0.2,0.6,1")
    parser.add_argument("--jitters", default="0,0.5,1")
    parser.add_argument("--pages", default="500,2000")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--page-seconds", type=float, default=0.02)
    parser.add_argument("--stalls", default="0,0")
    parser.add_argument("--points", action="store_true")
    options = parser.parse_args()

    spots = list(product(fractions(options.latencies), fractions(options.jitters)))
    every, longest = fractions(options.stalls)
    stalls = (every, longest)
    groups = product(options.kinds.split(","), integers(options.pages), integers(options.limits))
    everything: dict[str, list[Figures]] = {}
    with ProcessPoolExecutor() as pool:
        for kind, pages, limit in groups:
            points = [
                Point(kind, pages, limit, latency, jitter, seed, options.page_seconds, stalls)
                for latency, jitter in spots
                for seed in range(options.seeds)
            ]
            found = list(pool.map(measure, points))
            name = f"{kind} {limit}, {pages} pages"
            print(line(name, found), flush=True)
            for n, (latency, jitter) in enumerate(spots if options.points else []):
                some = found[n * options.seeds : (n + 1) * options.seeds]
                print(line(f"  latency {latency:g}, jitter {jitter:g}", some), flush=True)
            everything.setdefault(f"{kind}, {pages} pages", []).extend(found)
    print()
    for name, found in everything.items():
        print(line(name, found))


if __name__ == "__main__":
    main()
