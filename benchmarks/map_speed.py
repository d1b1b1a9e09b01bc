"""How long a map of a large site takes, politely as by default: wall and CPU seconds, with and without a JOBDIR.

    python -m benchmarks.map_speed [--count 30000] [--files 3] [--runs 3]

The floor: 30,000 urls in under 20 s of wall time on two cores. The longest time that the event loop was held is seen
as the longest gap between two looks at the clock in the crawl's process (see `LoopWatch`).
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.utils.asyncio import create_looping_call

from tests.e2e.crawling import ROOT, environment
from tests.servers.listed_site import listed_routes
from tests.servers.mock_site import MockSite

_TICK_SECONDS = 0.01


class LoopWatch:
    """An extension that notes for how long the event loop did nothing else."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._last = 0.0
        self._longest = 0.0
        crawler.signals.connect(self._opened, signals.engine_started)
        crawler.signals.connect(self._closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LoopWatch:
        return cls(crawler)

    def _opened(self) -> None:
        self._last = time.perf_counter()
        self._calls = create_looping_call(self._tick)
        self._calls.start(_TICK_SECONDS)

    def _tick(self) -> None:
        now = time.perf_counter()
        self._longest = max(self._longest, now - self._last - _TICK_SECONDS)
        self._last = now

    def _closed(self) -> None:
        self._calls.stop()
        assert self._crawler.stats is not None
        print(f"loop held {self._longest:.3f}", flush=True)


def run(url: str, folder: Path, jobdir: bool) -> dict[str, Any]:
    feed = folder / "map.jsonl"
    parts = [sys.executable, "-m", "scrapy", "crawl", "map", "-a", f"url={url}", "-O", str(feed)]
    parts += ["-s", 'EXTENSIONS={"benchmarks.map_speed.LoopWatch": 1}', "-s", "LOG_LEVEL=WARNING"]
    parts += ["-s", f"JOBDIR={folder / 'job'}"] if jobdir else []
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(parts, cwd=ROOT, env=environment(), check=True, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    assert max(Counter(line["url"] for line in lines).values()) == 1
    held = next(line.split()[-1] for line in done.stdout.splitlines() if line.startswith("loop held"))
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"urls": len(lines), "wall": wall, "cpu": cpu, "held": float(held)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--files", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    figures: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    with MockSite(listed_routes(options.count, options.files)).in_thread() as site:
        for _run in range(options.runs):
            for jobdir, results in figures.items():
                with tempfile.TemporaryDirectory() as folder:
                    results.append(run(site.url(), Path(folder), jobdir))
    for jobdir, results in figures.items():
        medians = {name: statistics.median(result[name] for result in results) for name in results[0]}
        print(
            f"{'with JOBDIR' if jobdir else 'in memory':12} {medians['urls']:,} urls, {medians['wall']:.1f} s wall, "
            f"{medians['cpu']:.1f} s CPU, loop held for {medians['held'] * 1000:.0f} ms at most"
        )


if __name__ == "__main__":
    main()
