"""A queue of a million urls in Redis: bytes a url, what adding costs, how long a lease takes while it is worked on.

    python -m benchmarks.redis_queue [--urls 1000000] [--seen 0] [--hosts 8] [--workers 4] [--leases 2000]
                                           [--redis-url URL]

--seen: so many more urls are known, as if they were fetched before; that is quicker to set up than a queue of so many,
and tells what they alone cost. Urls are those of a large shop, 20 links a page, with the page as referer. Without
--redis-url a Redis of its own is started, in a folder that is removed. Latencies are those of the worker's call, with
`--workers` at a time leasing 12, adding 20 links a page and acknowledging; Redis' own share is its slowlog's business.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.fleet.connection import RedisConnection, lua
from llmcrawler.fleet.redis_frontier import RedisFrontier
from tests.servers.redis_server import RedisServer

LINKS = 20


def tasks(start: int, stop: int, hosts: int) -> Iterator[UrlTask]:
    for number in range(start, stop):
        host = f"shop{number % hosts}.example.com"
        page = number // (LINKS * hosts)
        url = f"https://{host}/en-gb/catalogue/category-{page % 97}/a-product-with-a-name-{number}_{number}/"
        referer = f"https://{host}/en-gb/catalogue/category-{page % 97}/?page={page}"
        yield UrlTask(url, host, 3, referer, number.bit_length())


async def fill(frontier: RedisFrontier, options: argparse.Namespace) -> None:
    before = (await frontier.connection.client.info("memory"))["used_memory"]
    started = time.perf_counter()
    for start in range(0, options.urls, 10_000):
        await frontier.add(tasks(start, start + 10_000, options.hosts))
    seconds = time.perf_counter() - started
    used = (await frontier.connection.client.info("memory"))["used_memory"] - before
    seen = await size_of_seen(frontier)
    print(f"{options.urls:,} urls in {options.hosts} hosts: {used / options.urls:.0f} bytes a url, {used / 1e6:.0f} MB")
    print(f"  of them {seen / options.urls:.1f} bytes to tell urls apart")
    print(f"added in {seconds:.0f} s, {options.urls / seconds:,.0f} urls/s")


# seed, how many
_SEE = (
    lua("common")
    + """
math.randomseed(ARGV[1])
local function number() return math.random(0, 2^25 - 1) end
for _ = 1, ARGV[2] do is_new(number() % 2^14, string.format('%.0f', number() * 2^25 + number())) end
"""
)


async def see(frontier: RedisFrontier, count: int) -> None:
    at_once = 20_000
    for start in range(0, count, at_once):
        await frontier.connection.evaluate(_SEE, start, at_once)
    size = await size_of_seen(frontier)
    print(f"{count:,} urls that were seen before: {size / count:.1f} bytes each, {size / 1e6:.0f} MB")


async def size_of_seen(frontier: RedisFrontier) -> float:
    client, total, sampled, count = frontier.connection.client, 0, 0, 0
    async for name in client.scan_iter(match=f"{frontier.connection.prefix.replace('{', '[{]')}:seen*", count=1000):
        count += 1
        if count % 16 == 1:
            total += await client.memory_usage(name)
            sampled += 1
    return total / sampled * count


async def work(
    frontier: RedisFrontier, number: int, options: argparse.Namespace, times: dict[str, list[float]]
) -> None:
    await frontier.open()
    await frontier.connection.run("beat", frontier.connection.worker, "{}", 3600, 1, 0)
    added = options.urls + 10_000_000 * (number + 1)
    for _ in range(options.leases // options.workers):
        leases = await timed(times["lease"], frontier.lease(12, {}, 12))
        await timed(times["add"], frontier.add(tasks(added, added + LINKS, options.hosts)))
        added += LINKS
        for lease in leases:
            await timed(times["ack"], frontier.ack(lease.url))


async def timed(times, work):
    started = time.perf_counter()
    result = await work
    times.append(time.perf_counter() - started)
    return result


async def main(url: str, options: argparse.Namespace) -> None:
    workers = [
        RedisFrontier(RedisConnection(url, "benchmark", f"w{number}"), max_leases=5)
        for number in range(options.workers + 1)
    ]
    await workers[0].open()
    if options.seen:
        await see(workers[0], options.seen)
    await fill(workers[0], options)
    times: dict[str, list[float]] = {"lease": [], "add": [], "ack": []}
    await asyncio.gather(*(work(one, number, options, times) for number, one in enumerate(workers[1:])))
    for name, values in times.items():
        ordered = sorted(values)
        p50, p99 = statistics.median(ordered), ordered[int(0.99 * len(ordered))]
        print(f"{name:6} {len(ordered):7,} calls: p50 {p50 * 1000:.2f} ms, p99 {p99 * 1000:.2f} ms")
    for one in workers:
        await one.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--seen", type=int, default=0)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--leases", type=int, default=2000)
    parser.add_argument("--redis-url")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if given.redis_url:
        asyncio.run(main(given.redis_url, given))
    else:
        with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder)) as server:
            asyncio.run(main(server.url, given))
