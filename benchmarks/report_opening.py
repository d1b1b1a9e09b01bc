"""How long a report takes to make, to open and to filter, with a real browser.

    python -m benchmarks.report_opening [--pages 10000] [--runs 5] [--feed FILE] [--job]

Opening ends when the charts are drawn and the list of pages can be filtered. With --job the report is made of a job
with product pages of 20 kB each, all stored: it has records, and pages to look at.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from llmcrawler import __version__
from llmcrawler.core.reporting.html import make_report
from tests.core.reporting.stored_jobs import make_stored_job, product, product_html
from tests.e2e.browsing import BROWSER, looking_at

_TYPES = ("product", "article", "listing", "forum_thread", "profile", "documentation", "faq", "event", "other")
# Milliseconds since the navigation began, when the second frame after the load event is on the screen.
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
_FILTER = """(text) => {
    const started = performance.now();
    const input = document.querySelector('#pages [name=text]');
    input.value = text;
    input.dispatchEvent(new Event('input', {bubbles: true}));
    document.body.offsetHeight;
    return performance.now() - started;
}"""


def make_feed(path: Path, count: int) -> None:
    random = Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(json.dumps(_line(random, number)) + "\n")


def _line(random: Random, number: int) -> dict[str, Any]:
    kind = random.randrange(40)
    failed = random.random() < 0.03
    title = " ".join(f"word{random.randrange(2000)}" for _ in range(8))
    return {
        "kind": "page",
        "url": f"https://www.shop.example/section-{kind % 12}/folder-{kind}/{title.replace(' ', '-')}-{number}/",
        "status": 503 if failed else 200,
        "depth": random.randrange(9),
        "title": title,
        "page_type": None if failed else _TYPES[kind % len(_TYPES)],
        "template": None if failed else f"t{kind}",
        "decided_by": "template",
        "confidence": 0.9,
        "record": {"title": title, "price": "10.00"},
        "text": "text of the page " * 200,
        "fetched_at": f"2026-11-21T{10 + number // 3600 % 10}:{number // 60 % 60:02}:{number % 60:02}+00:00",
        "latency_seconds": round(random.uniform(0.1, 0.9), 3),
        "error": {"stage": "fetch", "kind": "http_503", "message": "503", "attempts": 6} if failed else None,
    }


def make_shop(folder: Path, count: int) -> None:
    """Make a job of product pages, each with a text of its own."""
    random = Random(1)
    words = [f"word{number}" for number in range(5_000)]

    def pages() -> Iterator[tuple[dict[str, Any], str]]:
        for number in range(count):
            more = "".join(f"<p class=c{place % 9}>{' '.join(random.choices(words, k=30))}</p>" for place in range(80))
            yield product(number, text=more[:4_000], latency_seconds=0.2), product_html(number, more=more)

    make_stored_job(folder, pages())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--feed", type=Path)
    parser.add_argument("--job", action="store_true")
    options = parser.parse_args()
    if BROWSER is None:
        sys.exit("no browser: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        feed, report = options.feed or Path(folder, "feed.jsonl"), Path(folder, "report.html")
        if options.job:
            feed = Path(folder, "job")
            make_shop(feed, options.pages)
        elif options.feed is None:
            make_feed(feed, options.pages)
        started = time.monotonic()
        content, count = make_report(feed, 20_000, __version__, time.time())
        report.write_bytes(content)
        made = time.monotonic() - started
        print(f"{count}: made in {made:.2f} s, {report.stat().st_size / 1e6:.1f} MB")
        opened, filtered = [], []
        for _ in range(options.runs):
            with looking_at(report) as (page, complaints):
                opened.append(page.evaluate(_DRAWN))
                filtered.append(page.evaluate(_FILTER, "word12 word7"))
                assert not complaints, complaints
        median, worst = statistics.median(opened) / 1000, max(opened) / 1000
        print(f"opened in {median:.2f} s (median of {options.runs}; worst {worst:.2f} s)")
        print(f"filtered in {statistics.median(filtered):.0f} ms (worst {max(filtered):.0f} ms)")


if __name__ == "__main__":
    main()
