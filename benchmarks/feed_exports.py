"""What the exporters cost: pages a second, bytes of the feed, and memory over that of fewer pages.

    python -m benchmarks.feed_exports [--pages 20000] [--chars 8000]

Each runs in a process of its own, interleaved, three times; medians. JSON Lines, Scrapy's own, is the measure.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from scrapy.exporters import JsonLinesItemExporter

from llmcrawler.core.storage.feeds.markdown_files import MarkdownFolder
from llmcrawler.exporters.page_formats import DocumentsExporter, MarkdownExporter, PagesCsvExporter, ParquetExporter
from llmcrawler.items import Page

EXPORTERS = {
    "jsonlines": JsonLinesItemExporter,
    "documents": DocumentsExporter,
    "folder": MarkdownExporter,
    "archive": MarkdownExporter,
    "parquet": ParquetExporter,
    "csv": PagesCsvExporter,
}
_RUNS = 3


def page(number: int, chars: int) -> Page:
    words = f"Page {number} tells of a lamp, its price and its makers. "
    return Page(
        url=f"https://shop.example/catalogue/lamp_{number}/",
        status=200,
        title=f"Lamp {number}",
        text=words * (chars // len(words)),
        record={"title": f"Lamp {number}", "price": number / 7, "tags": ["a", "b"], f"of_group_{number % 50}": "x"},
    )


def export(name: str, pages: int, chars: int, folder: Path) -> dict[str, float]:
    """In this process; `stall` is the longest time that one page took."""
    target = folder / name
    file = MarkdownFolder(target, overwrite=True) if name == "folder" else target.open("wb")
    exporter = EXPORTERS[name](file, encoding="utf-8")
    started, stall = time.perf_counter(), 0.0
    for number in range(pages):
        item = page(number, chars)
        before = time.perf_counter()
        exporter.export_item(item)
        stall = max(stall, time.perf_counter() - before) if number else stall
    before = time.perf_counter()
    exporter.finish_exporting()
    file.close()
    ended = time.perf_counter()
    size = sum(one.stat().st_size for one in target.glob("*")) if target.is_dir() else target.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": ended - started, "stall": stall, "end": ended - before, "mb": size / 2**20, "peak": peak}


def measured(name: str, pages: int, chars: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        parts = [sys.executable, "-m", __spec__.name, "--one", name, "--folder", folder]
        parts += ["--pages", str(pages), "--chars", str(chars)]
        return dict(json.loads(subprocess.run(parts, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--chars", type=int, default=8_000)
    parser.add_argument("--one", choices=EXPORTERS)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(export(options.one, options.pages, options.chars, options.folder)))
        return
    runs = [{name: measured(name, options.pages, options.chars) for name in EXPORTERS} for _run in range(_RUNS)]
    small = {name: measured(name, options.pages // 4, options.chars)["peak"] for name in EXPORTERS}
    print(f"{'':10} {'us a page':>10} {'ratio':>6} {'stall ms':>9} {'end s':>6} {'MB':>7} {'peak MB':>8} {'at 1/4':>7}")
    for name in EXPORTERS:
        middle = {key: median(run[name][key] for run in runs) for key in runs[0][name]}
        ratio = median(run[name]["seconds"] / run["jsonlines"]["seconds"] for run in runs)
        print(
            f"{name:10} {middle['seconds'] / options.pages * 1e6:10.0f} {ratio:6.2f} {middle['stall'] * 1e3:9.0f}"
            f" {middle['end']:6.2f} {middle['mb']:7.1f} {middle['peak']:8.0f} {small[name]:7.0f}"
        )


if __name__ == "__main__":
    main()
