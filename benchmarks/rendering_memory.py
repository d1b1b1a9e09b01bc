"""Memory of crawler and browser together, over many rendered pages: RSS at the end against RSS after 100 pages.

python -m benchmarks.rendering_memory [--pages 500]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from tests.e2e.crawling import FAST, ROOT, environment
from tests.servers.app_site import AppSite

_EARLY = 100
_FLOOR = 1.3


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def rss_mib(pid: int) -> tuple[float, float]:
    """(the crawler's own, all of it with the browser's processes)"""
    sizes = []
    for one in tree(pid):
        try:
            sizes.append(int(Path(f"/proc/{one}/statm").read_text().split()[1]) * 4096 / 2**20)
        except OSError:
            sizes.append(0.0)
    return sizes[0], sum(sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=500)
    pages = parser.parse_args().pages
    with tempfile.TemporaryDirectory() as folder, AppSite().in_thread() as site:
        urls = Path(folder) / "urls.txt"
        urls.write_text("\n".join(site.url(f"/app/item/{number}") for number in range(1, pages + 1)))
        feed = Path(folder) / "feed.jsonl"
        arguments = ["-a", f"urls={urls}", "-a", "depth=0", "-a", "render=always", "-a", f"max_pages={pages}"]
        options = [part for name, value in FAST.items() for part in ("-s", f"{name}={value}")]
        started = time.monotonic()
        crawl = subprocess.Popen(
            ["scrapy", "crawl", "explore", *arguments, *options, "-o", str(feed)],
            cwd=ROOT,
            env=environment(),
            stderr=subprocess.DEVNULL,
        )
        samples: list[tuple[int, float, float]] = []
        while crawl.poll() is None:
            time.sleep(1)
            # Every page asks once for its item.
            done = sum(count for path, count in list(site.measures.hits.items()) if path.startswith("/app/api/items/"))
            samples.append((done, *rss_mib(crawl.pid)))
        print(f"{pages} pages in {time.monotonic() - started:.0f} s, exit status {crawl.returncode}")
        for done, own, whole in samples[:: max(1, len(samples) // 20)]:
            print(f"{done:5d} pages: crawler {own:6.0f} MiB, with the browser {whole:6.0f} MiB")
        early = _median([whole for done, _, whole in samples if _EARLY <= done <= 1.2 * _EARLY])
        late = _median([whole for done, _, whole in samples if 0.95 * pages <= done and whole > early / 2])
        print(f"after {_EARLY} pages {early:.0f} MiB, at the end {late:.0f} MiB: {late / early:.2f} (wanted: {_FLOOR})")


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
