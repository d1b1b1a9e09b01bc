"""Fuzz everything that reads bytes from outside, and keep what is found.

    python -m benchmarks.fuzz [--inputs 100000 | --minutes 60] [--only page,record] [--seed N] [--keep FOLDER]

Each input (tests/fuzzing/inputs.py) goes through its target (tests/fuzzing/targets.py) in a process of its own. An
input is kept, with what was wrong in a file beside it, when its target raised something, hung for --hang seconds, took
the process down, or needed more CPU time than it may: 0.05 s for what a crawl does on its event loop, else that and its
target's own rate per kilobyte (times --slack, for a machine slower than the one the rates were set on). Inputs in
FOLDER from earlier runs go first. The exit status is 1 when anything was found.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzzing.corpus import bodies
from tests.fuzzing.runner import Outcome, Runner
from tests.fuzzing.targets import TARGETS, Target

FLOOR_SECONDS = 0.05
ROUND_INPUTS = 500  # of one target, before the next has its turn


@dataclass
class Tally:
    """What came of the inputs of one target."""

    inputs: int = 0
    slowest_seconds: float = 0.0
    worst_share: float = 0.0  # of what the target may take
    faults: Counter[str] = field(default_factory=Counter)


def judged(target: Target, body: bytes, outcome: Outcome, slack: float) -> tuple[str, float]:
    """What is wrong ("" where nothing is), and the share of its time that the target took."""
    apart_seconds = 0.0 if outcome.holds_loop else target.seconds_per_kilobyte * len(body) / 1024
    allowed = slack * (FLOOR_SECONDS + apart_seconds)
    share = outcome.cpu_seconds / allowed
    if outcome.fault:
        return outcome.fault, share
    return (f"slow: {outcome.cpu_seconds:.2f} s for {len(body):,} bytes", share) if share > 1 else ("", share)


def keep(folder: Path, name: str, body: bytes, fault: str) -> None:
    place = folder / name / hashlib.sha256(body).hexdigest()[:16]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(body)
    place.with_suffix(".txt").write_text(fault, encoding="utf-8")


def earlier(folder: Path, name: str) -> list[bytes]:
    return [place.read_bytes() for place in sorted((folder / name).glob("*")) if not place.suffix]


def tries(number: int, count: int, target: Target, check: Callable[[bytes], None]) -> None:
    """Put `count` inputs through `check`, others for each `number`."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(body=target.inputs)
    def run(body: bytes) -> None:
        check(body)

    run()


def fuzz(names: Sequence[str], options: argparse.Namespace) -> dict[str, Tally]:
    tallies: dict[str, Tally] = defaultdict(Tally)
    ends = time.monotonic() + 60 * options.minutes if options.minutes else None
    with Runner(options.hang) as runner:

        def check(name: str, body: bytes) -> None:
            outcome = runner.run(name, body)
            fault, share = judged(TARGETS[name], body, outcome, options.slack)
            tally = tallies[name]
            tally.inputs += 1
            tally.slowest_seconds = max(tally.slowest_seconds, outcome.cpu_seconds)
            tally.worst_share = max(tally.worst_share, share)
            if fault:
                tally.faults[fault.strip().splitlines()[-1].split(":")[0][:60]] += 1
                keep(options.keep, name, body, fault)

        for name in names:
            runner.run(name, b"")  # what is loaded with the first call is not counted
            for body in [*bodies(name), *earlier(options.keep, name)]:
                check(name, body)
        number = options.seed
        while (
            (sum(one.inputs for one in tallies.values()) < options.inputs) if ends is None else time.monotonic() < ends
        ):
            for name in names:
                tries(number, ROUND_INPUTS, TARGETS[name], partial(check, name))
            number += 1
            print(f"{sum(one.inputs for one in tallies.values()):>9,} inputs", file=sys.stderr)
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--minutes", type=float, default=0.0, help="run so long, however many inputs that is")
    parser.add_argument("--only", default=",".join(TARGETS), help="which targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slack", type=float, default=1.0)
    parser.add_argument("--hang", type=float, default=20.0, help="seconds after which an input hangs")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - set(TARGETS):
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")

    tallies = fuzz(names, options)
    print(f"{'target':10} {'inputs':>8} {'slowest s':>10} {'of allowed':>10}  faults")
    for name, tally in tallies.items():
        faults = ", ".join(f"{count} x {fault}" for fault, count in tally.faults.most_common(5)) or "none"
        print(f"{name:10} {tally.inputs:8,} {tally.slowest_seconds:10.3f} {tally.worst_share:10.2f}  {faults}")
    sys.exit(1 if any(tally.faults for tally in tallies.values()) else 0)


if __name__ == "__main__":
    main()
