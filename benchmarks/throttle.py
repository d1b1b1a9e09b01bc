"""Our throttle beside fixed settings and Scrapy's own AutoThrottle, on a server of this script with limits.

    python -m benchmarks.throttle [--busy-above 8] [--degrade-above 0] [--per-second 0] [--latency 0.2]
                                        [--pages 500] [--concurrency 32] [--fixed 4,6,8,10,12,16] [--seconds]

All crawls have DOWNLOAD_DELAY=0 and may have --concurrency in flight (the fixed ones what --fixed says). The figures
are the server's own: `in flight` is the mean over the second half of the starts. --seconds prints the starts in each
second of ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tests.servers.limited_site import LimitedSite, limited_site

ROOT = Path(__file__).resolve().parents[1]

SCRAPY = [sys.executable, "-m", "scrapy"]
RETRIES = ["-s", "RETRY_TIMES=5", "-s", "DOWNLOAD_DELAY=0", "-s", "LOG_LEVEL=INFO"]


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    pages: int
    requests: int
    refused: int
    seconds: float
    most_in_flight: int
    settled: float
    starts: list[float]

    @property
    def rate(self) -> float:
        return self.pages / self.seconds if self.seconds else 0.0


def ours(concurrency: int, *, adaptive: bool) -> list[str]:
    most = [f"CONCURRENT_REQUESTS_PER_DOMAIN={concurrency}", f"CONCURRENT_REQUESTS={max(32, concurrency)}"]
    settings = [*most, f"AUTOTHROTTLE_ENABLED={adaptive}", "LLM_PROVIDER=none", "LLM_CACHE=False"]
    arguments = [part for setting in settings for part in ("-s", setting)]
    return [
        *SCRAPY,
        "crawl",
        "explore",
        "-a",
        "url={url}",
        "-a",
        "max_pages=100000",
        "-O",
        "{out}",
        *arguments,
        *RETRIES,
    ]


def stock(concurrency: int, target: float) -> list[str]:
    settings = [
        f"CONCURRENT_REQUESTS_PER_DOMAIN={concurrency}",
        f"CONCURRENT_REQUESTS={max(32, concurrency)}",
        "AUTOTHROTTLE_ENABLED=True",
        "AUTOTHROTTLE_START_DELAY=0.2",
        f"AUTOTHROTTLE_TARGET_CONCURRENCY={target}",
        "ROBOTSTXT_OBEY=True",
    ]
    spider = str(ROOT / "benchmarks/plain_spiders.py")
    arguments = [part for setting in settings for part in ("-s", setting)]
    return [*SCRAPY, "runspider", spider, "-a", "url={url}", "-O", "{out}", *arguments, *RETRIES]


def measure(name: str, command: list[str], site: LimitedSite, folder: Path) -> Row:
    out, log = folder / "out.jsonl", folder / "log"
    with site.in_thread(), log.open("w", encoding="utf-8") as stderr:
        filled = [part.format(url=site.url("/"), out=out) for part in command]
        # The plain spider runs outside the repository: its scrapy.cfg would give it our settings.
        cwd = folder if "runspider" in command else ROOT
        done = subprocess.run(filled, cwd=cwd, stderr=stderr, check=False)
        starts, levels = list(site.measures.starts), list(site.levels)
        statuses = Counter(site.measures.statuses)
    if done.returncode:
        sys.exit(f"{name}: exit status {done.returncode}\n{log.read_text(encoding='utf-8')[-2000:]}")
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    good = {line["url"] for line in lines if line.get("status") == 200 and line.get("kind", "page") == "page"}
    half = levels[len(levels) // 2 :]
    refused = statuses["429"] + statuses["503"]
    return Row(name, len(good), len(starts), refused, starts[-1] - starts[0], max(levels), fmean(half), starts)


def table(rows: list[Row]) -> str:
    best = max((row.rate for row in rows if row.name.startswith("fixed")), default=0.0)
    names = ("pages", "requests", "refused", "s", "pages/s", "of best", "in flight", "most")
    lines = [" " * 22 + "".join(f"{name:>10}" for name in names)]
    for row in rows:
        share = f"{row.rate / best:.0%}" if best else ""
        lines.append(
            f"{row.name:22}{row.pages:10}{row.requests:10}{row.refused / row.requests:10.1%}{row.seconds:10.1f}"
            f"{row.rate:10.1f}{share:>10}{row.settled:10.1f}{row.most_in_flight:10}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy-above", type=int, default=0)
    parser.add_argument("--degrade-above", type=int, default=0)
    parser.add_argument("--per-second", type=float, default=0.0)
    parser.add_argument("--burst", type=float, default=10.0)
    parser.add_argument("--retry-after", default="1")
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--fixed", default="4,6,8,10,12,16")
    parser.add_argument("--only", default="ours,fixed,scrapy")
    parser.add_argument("--seconds", action="store_true")
    options = parser.parse_args()

    commands = {}
    if "ours" in options.only:
        commands["ours"] = ours(options.concurrency, adaptive=True)
    if "fixed" in options.only:
        commands |= {f"fixed {level}": ours(int(level), adaptive=False) for level in options.fixed.split(",")}
    if "scrapy" in options.only:
        targets = (1, 8, options.concurrency)
        commands |= {f"Scrapy's, target {target}": stock(options.concurrency, target) for target in targets}
    rows = []
    for name, command in commands.items():
        site = limited_site(
            options.pages,
            latency_seconds=options.latency,
            busy_above=options.busy_above,
            degrade_above=options.degrade_above,
            per_second=options.per_second,
            burst=options.burst,
            retry_after=options.retry_after or None,
        )
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(name, command, site, Path(folder)))
        if options.seconds and name == "ours":
            first = rows[-1].starts[0]
            per_second = Counter(int(start - first) for start in rows[-1].starts)
            print("starts in each second:", *(per_second[second] for second in range(max(per_second) + 1)))
    print(table(rows))


if __name__ == "__main__":
    main()
