"""What a JOBDIR costs: pages a second of a crawl with one and of a crawl without, in runs that take turns.

    python -m benchmarks.jobdir_cost [--site SITE_DIR] [--pages 1000] [--runs 5] [--kilobytes 10-80]
                                           [--settings NAME=VALUE ...]

A local site without latency, no model, no delay, 16 requests in flight, AutoThrottle off: all that is left is work.
SITE_DIR is a stored site as for benchmarks/throughput.py; without it pages are made up, whose text is random.
Figures are medians, of the crawl alone (its start and end left out) and of the whole process. Bar: with a JOBDIR at
least 0.95 of the pages a second. Exit status 1 under the bar.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.throughput import ROOT, SCRAPY, SPEED, check, load_pages, run, serve
from tests.servers.many_pages import ManyPages

BAR = 0.95


@dataclass(frozen=True, slots=True)
class Figures:
    pages_per_second: float
    wall_seconds: float
    cpu_seconds: float
    peak_megabytes: float
    file_bytes: int


def crawl(url: str, pages: dict[str, bytes], folder: Path, settings: list[str], *, with_jobdir: bool) -> Figures:
    folder.mkdir()
    feed, log, jobdir = folder / "pages.jsonl", folder / "log", folder / "job"
    command = [*SCRAPY, "crawl", "explore", "-a", f"url={url}", "-a", "max_pages=1000000", "-O", str(feed), *SPEED]
    for setting in ["LLM_PROVIDER=none", "STATS_DUMP=True", *settings, *([f"JOBDIR={jobdir}"] if with_jobdir else [])]:
        command += ["-s", setting]
    done = run(command, ROOT, log)
    check(feed, pages)
    found = re.search(r"'elapsed_time_seconds': ([\d.]+)", log.read_text(encoding="utf-8"))
    assert found is not None
    return Figures(
        pages_per_second=len(pages) / float(found[1]),
        wall_seconds=done.wall_seconds,
        cpu_seconds=done.user_seconds + done.system_seconds,
        peak_megabytes=done.peak_bytes / 2**20,
        file_bytes=sum(file.stat().st_size for file in jobdir.glob("crawl.sqlite*")) if with_jobdir else 0,
    )


def row(name: str, runs: list[Figures], pages: int) -> str:
    speeds = " ".join(f"{one.pages_per_second:.0f}" for one in runs)
    return (
        f"{name:8} {median(one.pages_per_second for one in runs):8.1f} pages/s  ({speeds})"
        f"  wall {median(one.wall_seconds for one in runs):6.2f} s"
        f"  CPU {median(one.cpu_seconds for one in runs):6.2f} s"
        f"  peak {median(one.peak_megabytes for one in runs):6.1f} MB"
        f"  on disk {median(one.file_bytes for one in runs) / pages / 1000:.1f} kB a page"
    )


def measure(url: str, pages: dict[str, bytes], folder: Path, options: argparse.Namespace) -> float:
    results: dict[bool, list[Figures]] = {False: [], True: []}
    for number in range(options.runs):
        # The order changes too, as what comes second may find a machine that is warm, or tired.
        for with_jobdir in (False, True) if number % 2 == 0 else (True, False):
            name = folder / f"{number}-{with_jobdir}"
            results[with_jobdir].append(crawl(url, pages, name, options.settings, with_jobdir=with_jobdir))
    for with_jobdir, runs in results.items():
        print(row("JOBDIR" if with_jobdir else "without", runs, len(pages)))
    pairs = list(zip(results[True], results[False], strict=True))
    ratios = [kept.pages_per_second / free.pages_per_second for kept, free in pairs]
    print(f"with / without, run by run: {' '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"CPU, with / without: {median(kept.cpu_seconds / free.cpu_seconds for kept, free in pairs):.2f}")
    return median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, help="a folder with an index.jsonl")
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kilobytes", default="10-80", help="the sizes of pages, smallest and largest")
    parser.add_argument("--settings", nargs="*", default=[], help="more of them for both")
    options = parser.parse_args()
    if options.site is not None:
        pages = load_pages(options.site)
    else:
        smallest, largest = (int(part) * 1000 for part in options.kilobytes.split("-"))
        bodies = ManyPages(options.pages, body_bytes=(smallest, largest)).bodies
        pages = {path: body.encode() for path, body in bodies.items()}
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(pages, there), daemon=True)
    server.start()
    try:
        size = sum(map(len, pages.values())) / len(pages) / 1000
        print(f"{len(pages)} pages of {size:.0f} kB on average, {options.runs} runs each, medians", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            ratio = measure(f"http://127.0.0.1:{here.recv()}{next(iter(pages))}", pages, Path(folder), options)
    finally:
        server.terminate()
        server.join()
    print(f"with / without: {ratio:.2f} of the pages/s (bar: {BAR})")
    sys.exit(0 if ratio >= BAR else 1)


if __name__ == "__main__":
    main()
