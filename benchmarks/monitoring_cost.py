"""What it costs to be watched: CPU seconds of a crawl with metrics, traces or JSON logs, over those of one
without.

    python -m benchmarks.monitoring_cost [--pages 800] [--runs 3]

The site and the settings of jobdir_cost.py; runs take turns. Spans go to the in-memory exporter of the tests.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.throughput import ROOT, SCRAPY, SPEED, check, run, serve
from tests.servers.many_pages import ManyPages

WAYS = {
    "off": (),
    "metrics": ("METRICS_TEXTFILE={folder}/crawl.prom",),
    "traces": ("TRACES=tests.e2e.spans_in_file.SpansInFile",),
    "json log": ("LOG_FORMAT=json",),
}


def cpu_seconds(url: str, pages: dict[str, bytes], folder: Path, settings: tuple[str, ...]) -> float:
    folder.mkdir()
    feed, log = folder / "pages.jsonl", folder / "log"
    command = [*SCRAPY, "crawl", "explore", "-a", f"url={url}", "-a", "max_pages=1000000", "-O", str(feed), *SPEED]
    for setting in ("LLM_PROVIDER=none", *settings):
        command += ["-s", setting.format(folder=folder)]
    done = run(command, ROOT, log)
    check(feed, pages)
    return float(done.user_seconds + done.system_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=800)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    pages = {path: body.encode() for path, body in ManyPages(options.pages, body_bytes=(10_000, 80_000)).bodies.items()}
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(pages, there), daemon=True)
    server.start()
    results: dict[str, list[float]] = {name: [] for name in WAYS}
    try:
        url = f"http://127.0.0.1:{here.recv()}/"
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SPANS_FILE"] = str(Path(folder) / "spans.jsonl")
            for number in range(options.runs):
                for name, settings in WAYS.items():
                    results[name].append(cpu_seconds(url, pages, Path(folder) / f"{name}-{number}", settings))
    finally:
        server.terminate()
        server.join()
    for name, runs in results.items():
        ratio = median(one / off for one, off in zip(runs, results["off"], strict=True))
        print(f"{name:9} CPU {median(runs):6.2f} s for {len(pages)} pages, {ratio:.2f} of that without")


if __name__ == "__main__":
    main()
