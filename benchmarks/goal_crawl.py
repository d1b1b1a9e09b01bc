"""How early the wanted pages come: crawls with a goal beside breadth-first ones, over link graphs, in this process.

    python -m benchmarks.goal_crawl [SITE_DIR ...] [--goal TYPE] [--at-once 5] [--judged-after 10] [--seeds 3]

SITE_DIR holds index.jsonl, one page a line: {"file", "url", "page_type"}; without one only the synthetic sites of
goal_sites.py are crawled. A number of pages is fetched at once, and a page's type is known so many fetches later.
Printed is how many of the wanted pages came within 1.2 times as many fetches as there are wanted pages, and how many
fetches it took to 94% of them.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from math import ceil
from pathlib import Path
from statistics import mean
from urllib.parse import urlsplit

from benchmarks.goal_sites import SITES, Graph, GraphPage
from llmcrawler.core.content import read_page
from llmcrawler.core.frontier.admission import Admission
from llmcrawler.core.frontier.focused_crawl import FocusedCrawl
from llmcrawler.core.frontier.link_scorer import LinkScorer
from llmcrawler.core.frontier.memory import MemoryFrontier
from llmcrawler.core.frontier.protocol import Lease
from llmcrawler.core.urls import Scope, TrapGuard, normalise

ORDERS = ("breadth-first", "by pattern", "goal")
_SHARE = 0.94  # 190 of 203
_ROOM = 240 / 203


@dataclass
class Crawl:
    """`at_once` pages are on their way, and as many are leased ahead, as in the scheduler."""

    graph: Graph
    order: str
    at_once: int
    judged_after: int

    def __post_init__(self) -> None:
        scope = Scope([self.graph.start])
        self.admission = Admission(scope, TrapGuard(date(2026, 1, 1)))
        self.frontier = MemoryFrontier()
        self.fetched: list[str] = []
        self.focused_crawl: FocusedCrawl | None = None
        if self.order == "goal":
            self.focused_crawl = FocusedCrawl(LinkScorer([self.graph.wanted]), max_records=None, clock=lambda: 0.0)
        self._unjudged: deque[tuple[int, str]] = deque()

    async def run(self) -> list[bool]:
        """For each fetch whether it was wanted."""
        await self.frontier.add(self.admission.given([self.graph.start]))
        flying: deque[Lease] = deque()
        while True:
            if len(flying) < self.at_once:
                flying.extend(await self._lease(2 * self.at_once - len(flying)))
            if flying:
                await self._fetch(flying.popleft())
            elif not self._judge(all_of_them=True):
                return [self._type_of(url) == self.graph.wanted for url in self.fetched]
            self._judge()

    async def _lease(self, limit: int) -> list[Lease]:
        if self.focused_crawl is None:
            return await self.frontier.lease(limit, {}, 10**6)
        await self.frontier.set_priorities(self.focused_crawl.scorer.changed_priorities())
        leases = await self.frontier.lease(limit, {}, 10**6, self.focused_crawl.reach())
        for lease in leases:
            self.focused_crawl.note_lease(lease.task)
        return leases

    async def _fetch(self, lease: Lease) -> None:
        self.fetched.append(lease.url)
        page = self.graph.pages.get(lease.url) or GraphPage("error")
        links = {link.url: link for link in page.links}
        focused_crawl = self.focused_crawl
        if focused_crawl is not None:
            goal = focused_crawl.scorer
            tasks = self.admission.admit(links, lease.task.depth + 1, lease.url, goal.grouping(links))
            focused_crawl.note_links(lease.url, tasks)
            await self.frontier.set_priorities(goal.changed_priorities())
        else:
            tasks = self.admission.admit(links, lease.task.depth + 1, lease.url)
        if self.order == "breadth-first":
            tasks = [replace(task, priority=0) for task in tasks]
        await self.frontier.add(tasks)
        self._unjudged.append((len(self.fetched), lease.url))

    def _judge(self, *, all_of_them: bool = False) -> bool:
        done = False
        while self._unjudged and (all_of_them or self._unjudged[0][0] + self.judged_after <= len(self.fetched)):
            done = True
            _at, url = self._unjudged.popleft()
            if self.focused_crawl is not None:
                self.focused_crawl.note_end(url, self._type_of(url), has_record=True)
        return done

    def _type_of(self, url: str) -> str:
        return self.graph.pages[url].page_type if url in self.graph.pages else "error"


def stored_site(folder: Path, wanted: str) -> Graph:
    """The pages of a stored site, under the urls that they had."""
    pages = {}
    first = None
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        url = normalise(row["url"])
        body = (folder / row["file"]).read_bytes()
        html = (gzip.decompress(body) if row["file"].endswith(".gz") else body).decode("utf-8", "replace")
        assert url is not None
        first = first or url
        pages[url] = GraphPage(row["page_type"], list(read_page(html, url).links))
    assert first is not None
    root = f"{urlsplit(first).scheme}://{urlsplit(first).netloc}/"
    return Graph(root if root in pages else first, wanted, pages)


def figures(wanted: list[bool], total: int) -> tuple[float, float]:
    """How many wanted pages came within 1.2 times as many fetches, and the fetches to 94% of them."""
    early = sum(wanted[: ceil(_ROOM * total)])
    needed, found = len(wanted), 0
    for at, hit in enumerate(wanted, start=1):
        found += hit
        if found >= _SHARE * total:
            needed = at
            break
    return early, needed


def graphs(options: argparse.Namespace) -> Iterator[tuple[str, list[Graph]]]:
    for folder in options.sites:
        yield folder.name, [stored_site(folder, options.goal)]
    for name, make in SITES.items():
        yield name, [make(seed) for seed in range(1, options.seeds + 1)]


async def compare(options: argparse.Namespace) -> None:
    print(f"{'site':16} {'wanted':>7} {'pages':>6}  " + "  ".join(f"{order:>22}" for order in ORDERS))
    for name, versions in graphs(options):
        total = mean(sum(page.page_type == one.wanted for page in one.pages.values()) for one in versions)
        cells = []
        for order in ORDERS:
            started = time.process_time()
            results = []
            for graph in versions:
                there = sum(page.page_type == graph.wanted for page in graph.pages.values())
                crawl = Crawl(graph, order, options.at_once, options.judged_after)
                results.append(figures(await crawl.run(), there))
            fetched = sum(len(graph.pages) for graph in versions)
            cost = (time.process_time() - started) / fetched * 1e3
            early, needed = (mean(column) for column in zip(*results, strict=True))
            cells.append(f"{early:5.0f}, {needed:5.0f}, {cost:4.2f} ms")
        pages = mean(len(graph.pages) for graph in versions)
        print(f"{name:16} {total:7.0f} {pages:6.0f}  " + "  ".join(f"{cell:>22}" for cell in cells))
    print(f"in each cell: wanted pages within {_ROOM:.2f} x wanted fetches; fetches to {_SHARE:.0%}; CPU a page")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sites", nargs="*", type=Path)
    parser.add_argument("--goal", default="product")
    parser.add_argument("--at-once", type=int, default=5)
    parser.add_argument("--judged-after", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    asyncio.run(compare(parser.parse_args()))


if __name__ == "__main__":
    main()
