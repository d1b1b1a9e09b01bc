"""Long queues: what 300,000 urls cost a crawl, beside plain Scrapy, and what a million cost the frontier.

    python -m benchmarks.frontier_queue crawl [--pages 300] [--links 1000] [--runs 1]
    python -m benchmarks.frontier_queue frontier [--queued 1000000] [--hosts 1] [--rounds 20]

crawl: a local site whose every page has so many links that no other page has. Our crawl with a JOBDIR and a lean spider
of plain Scrapy with Scrapy's own (disk queues, a file of fingerprints) take turns; both end after so many pages.
Bars: at most 1.5 times its wall time; peak memory at most 60 MB over that of a crawl which queues 10,000 urls.

frontier: adds and leases of the SQLite frontier with 10,000 urls queued and with many, in turns. Bar: within 2 times.
Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import TypeVar

from aiohttp import web

from benchmarks.throughput import ROOT, SCRAPY, SPEED, Run, run, serve_answers
from llmcrawler.core.frontier.memory import MemoryFrontier
from llmcrawler.core.frontier.protocol import Frontier, UrlTask
from llmcrawler.core.frontier.sqlite import SqliteFrontier
from llmcrawler.core.storage import Database, open_job_file

T = TypeVar("T")
WALL_BAR, MEMORY_BAR_MEGABYTES, GROWTH_BAR = 1.5, 60.0, 2.0
FEW = 10_000
ADDED_AT_ONCE, LEASED_AT_ONCE, A_ROUND = 1000, 20, 1000


# -- Whole crawls ------------------------------------------------------------------------------------------------------


def serve(links: int, port: Connection) -> None:
    """Page n leads to the pages n * links + 1 and after."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow:\n")
        number = int(request.path.strip("/").rpartition("-")[2] or 0)
        first = number * links + 1
        items = "".join(f'<li><a href="/thing/no-{at}">Thing {at}</a></li>' for at in range(first, first + links))
        page = f"<html><title>Thing {number}</title><body><h1>Thing {number}</h1><ul>{items}</ul></body></html>"
        return web.Response(text=page, content_type="text/html")

    asyncio.run(serve_answers(answer, port))


@contextmanager
def site(links: int) -> Iterator[str]:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(links, there), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/"
    finally:
        server.terminate()
        server.join()


def ours(url: str, pages: int, folder: Path) -> Run:
    folder.mkdir()
    arguments = ["-a", f"url={url}", "-a", f"max_pages={pages}", "-O", str(folder / "pages.jsonl")]
    settings = ["-s", "LLM_PROVIDER=none", "-s", f"JOBDIR={folder / 'job'}"]
    done = run([*SCRAPY, "crawl", "explore", *arguments, *SPEED, *settings], ROOT, folder / "log")
    connection = sqlite3.connect(folder / "job" / "crawl.sqlite")
    (queued,) = connection.execute("SELECT count(*) FROM urls WHERE state = 0").fetchone()
    connection.close()
    print(f"  ours:  {text_of(done)}, {queued} queued, {size_of(folder / 'job')}")
    return done


def plain(url: str, pages: int, folder: Path) -> Run:
    folder.mkdir()
    spider = str(ROOT / "benchmarks/queue_spider.py")
    settings = ["-s", f"JOBDIR={folder / 'job'}", "-s", f"CLOSESPIDER_PAGECOUNT={pages}"]
    command = [*SCRAPY, "runspider", spider, "-a", f"url={url}", "-O", str(folder / "pages.jsonl"), *SPEED, *settings]
    done = run(command, folder, folder / "log")
    print(f"  plain: {text_of(done)}, {size_of(folder / 'job')}")
    return done


def text_of(done: Run) -> str:
    cpu = done.user_seconds + done.system_seconds
    return f"wall {done.wall_seconds:.1f} s, CPU {cpu:.1f} s, peak {done.peak_bytes / 2**20:.0f} MB"


def size_of(folder: Path) -> str:
    return f"{sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.0f} MB on disk"


def compare_crawls(options: argparse.Namespace) -> bool:
    walls, few, many = [], [], []
    with tempfile.TemporaryDirectory() as name, site(options.links) as url, site(FEW // options.pages) as sparse:
        folder = Path(name)
        for number in range(options.runs):
            print(f"{options.pages} pages of {options.links} links")
            mine = ours(url, options.pages, folder / f"ours-{number}")
            other = plain(url, options.pages, folder / f"plain-{number}")
            print(
                f"{options.pages} pages of {FEW // options.pages} links, and {FEW // options.links} of {options.links}"
            )
            thin = ours(sparse, options.pages, folder / f"thin-{number}")
            short = ours(url, FEW // options.links, folder / f"short-{number}")
            walls.append(mine.wall_seconds / other.wall_seconds)
            many.append(mine.peak_bytes / 2**20)
            few.append(min(thin.peak_bytes, short.peak_bytes) / 2**20)
    growth = median(many) - median(few)
    print(f"wall time, ours / plain: {median(walls):.2f} (bar: {WALL_BAR})")
    print(f"peak memory over that at {FEW} queued: {growth:.0f} MB (bar: {MEMORY_BAR_MEGABYTES:.0f})")
    return median(walls) <= WALL_BAR and growth <= MEMORY_BAR_MEGABYTES


# -- The frontier alone ------------------------------------------------------------------------------------------------


@dataclass
class Timed:
    """A frontier, and the seconds that each kind of work took in each round."""

    name: str
    frontier: Frontier
    hosts: int
    added: int = 0
    adding: list[float] = field(default_factory=list)
    leasing: list[float] = field(default_factory=list)
    acking: list[float] = field(default_factory=list)

    def tasks(self, count: int) -> list[UrlTask]:
        start, self.added = self.added, self.added + count
        return [
            UrlTask(
                f"http://host-{number % self.hosts}.example/thing/no-{number}",
                f"host-{number % self.hosts}.example",
                depth=2,
                referer=f"http://host-{number // 1000 % self.hosts}.example/thing/no-{number // 1000}",
                priority=(number % 1_000_003).bit_length(),
            )
            for number in range(start, start + count)
        ]

    async def fill(self, count: int) -> float:
        started = time.perf_counter()
        while self.added < count:
            await self.frontier.add(self.tasks(ADDED_AT_ONCE))
        return time.perf_counter() - started

    async def round(self) -> None:
        """As many urls come in as go out, so the queue keeps its length."""
        tasks = self.tasks(A_ROUND)
        self.adding.append((await timed(self.frontier.add(tasks)))[0])
        leases = []
        leasing = 0.0
        for _ in range(A_ROUND // LEASED_AT_ONCE):
            seconds, some = await timed(self.frontier.lease(LEASED_AT_ONCE, {}, LEASED_AT_ONCE))
            leasing += seconds
            leases += some
        assert len(leases) == A_ROUND
        self.leasing.append(leasing)
        acking = 0.0
        for start in range(0, A_ROUND, LEASED_AT_ONCE):
            some = leases[start : start + LEASED_AT_ONCE]
            acking += (await timed(asyncio.gather(*(self.frontier.ack(lease.url) for lease in some))))[0]
        self.acking.append(acking)

    def microseconds(self) -> dict[str, float]:
        """Of one url. Means: what is put off until later, such as a checkpoint, has to be paid too."""
        works = {"add": self.adding, "lease": self.leasing, "ack": self.acking}
        return {work: sum(seconds) / len(seconds) / A_ROUND * 1e6 for work, seconds in works.items()}


async def timed(work: Awaitable[T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = await work
    return time.perf_counter() - started, result


@asynccontextmanager
async def sqlite_frontier(path: Path) -> AsyncIterator[SqliteFrontier]:
    database = Database(open_job_file(path), path)
    frontier = SqliteFrontier(database, max_leases=5)
    await frontier.open()
    try:
        yield frontier
    finally:
        await database.close()


async def compare_lengths(options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as name:
        few_path, many_path = Path(name) / "few.sqlite", Path(name) / "many.sqlite"
        async with sqlite_frontier(few_path) as few_frontier, sqlite_frontier(many_path) as many_frontier:
            few, many = Timed("sqlite", few_frontier, options.hosts), Timed("sqlite", many_frontier, options.hosts)
            await few.fill(FEW)
            seconds = await many.fill(options.queued)
            print(f"{options.queued} urls of {options.hosts} hosts, queued in {seconds:.1f} s")
            await rounds(few, many, options.rounds)
        print(f"on disk: {many_path.stat().st_size / many.added:.0f} bytes a url")
    small, large = (Timed("memory", MemoryFrontier(), options.hosts) for _ in range(2))
    await small.fill(FEW)
    await large.fill(options.queued)
    await rounds(small, large, options.rounds)
    growths = {work: value / few.microseconds()[work] for work, value in many.microseconds().items()}
    print(
        f"sqlite, times the figure at {FEW}: " + ", ".join(f"{work} {growth:.2f}" for work, growth in growths.items())
    )
    return all(growth <= GROWTH_BAR for growth in growths.values())


async def rounds(few: Timed, many: Timed, count: int) -> None:
    for _ in range(count):
        await few.round()
        await many.round()
    for one, queued in ((few, FEW), (many, many.added - count * A_ROUND)):
        figures = ", ".join(f"{work} {value:.1f}" for work, value in one.microseconds().items())
        print(f"  {one.name} with {queued:9} queued, µs a url: {figures}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    crawl = parts.add_parser("crawl")
    crawl.add_argument("--pages", type=int, default=300)
    crawl.add_argument("--links", type=int, default=1000)
    crawl.add_argument("--runs", type=int, default=1)
    frontier = parts.add_parser("frontier")
    frontier.add_argument("--queued", type=int, default=1_000_000)
    frontier.add_argument("--hosts", type=int, default=1)
    frontier.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    is_well = compare_crawls(options) if options.part == "crawl" else asyncio.run(compare_lengths(options))
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
