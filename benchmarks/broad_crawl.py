"""A crawl of many hosts beside what politeness allows: pages a second, CPU and memory, gaps as the hosts see them.

    python -m benchmarks.broad_crawl [--hosts 64] [--pages 15] [--gap 2] [--latency 0.05] [--list] [--proxy]
                                           [--arguments "..."] [--root CHECKOUT]

One process serves all hosts: by addresses of 127.0.0.0/8, or with --proxy by names of which it is the proxy. It notes
when each request of a host starts and how many are in flight. The crawl starts at the root of each host and follows
links; with --list it gets all urls as a list, those of one host after the other.

A host allows one start each gap, so the crawl can take no less than the gaps of the busiest host: `share` is those over
the time from the server's first request to its last one. CPU and memory are those of the whole process, as the kernel
counted them. --root crawls with another checkout of the project. Needs benchmarks/requirements.txt.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import shlex
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from aiohttp import web

from benchmarks.throughput import ROOT, SCRAPY, BadRun, run

_WORDS = "harbour lantern meadow copper river window garden winter paper signal mountain thread quiet station".split()


class ManyHosts:
    """The pages of all hosts, and what each host saw of the crawl."""

    def __init__(self, pages: int, latency_seconds: float) -> None:
        self._pages = pages
        self._latency_seconds = latency_seconds
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.in_flight: Counter[str] = Counter()
        self.most_in_flight: Counter[str] = Counter()
        self.fetched: Counter[str] = Counter()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        host, path = request.host, request.path
        if path == "/__figures__":
            return web.json_response(self.figures())
        self.starts[host].append(time.monotonic())
        self.in_flight[host] += 1
        self.most_in_flight[host] = max(self.most_in_flight[host], self.in_flight[host])
        try:
            await asyncio.sleep(self._latency_seconds)
        finally:
            self.in_flight[host] -= 1
        if path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private/\n")
        number = 0 if path == "/" else int(path[2:]) if path[1:2] == "p" and path[2:].isdigit() else -1
        if not 0 <= number < self._pages:
            return web.Response(status=404, text="there is no such page")
        self.fetched[host + path] += 1
        return web.Response(text=_page(host, number, self._pages), content_type="text/html")

    def figures(self) -> dict[str, Any]:
        every = [start for starts in self.starts.values() for start in starts]
        gaps = sorted(after - before for one in self.starts.values() for before, after in itertools.pairwise(one))
        return {
            "hosts": len(self.starts),
            "requests": len(every),
            "pages": len(self.fetched),
            "twice": sum(count > 1 for count in self.fetched.values()),
            "span_seconds": max(every) - min(every),
            "last_host_seconds": max(starts[0] for starts in self.starts.values()) - min(every),
            "longest_host_seconds": max(starts[-1] - starts[0] for starts in self.starts.values()),
            "most_of_a_host": max(map(len, self.starts.values())),
            "least_gap": gaps[0] if gaps else None,
            "mean_gap": sum(gaps) / len(gaps) if gaps else None,
            "most_in_flight": max(self.most_in_flight.values()),
        }


def _page(host: str, number: int, pages: int) -> str:
    text = "".join(
        f"<p>The {_WORDS[(number + part) % 14]} of {host} has the {_WORDS[(number * 3 + part * 5) % 14]} number "
        f"{number * 17 + part}, which nobody had seen from the {_WORDS[(number * 7 + part) % 14]} before that day.</p>"
        for part in range(8)
    )
    if number == 0:
        main = "".join(f'<li><a href="/p{one}">The {_WORDS[one % 14]} {one}</a></li>' for one in range(1, pages))
        main = f"<h1>{host}</h1>{text}<ul class=index>{main}</ul>"
    else:
        main = f"<article><h1>The {_WORDS[number % 14]} {number}</h1><div class=text>{text}</div></article>"
    nav = "<nav><a href='/'>Home</a> <a href='/p1'>First</a></nav>"
    return (
        f"<!doctype html><html lang=en><head><title>{host}: {number}</title></head><body>{nav}"
        f"<main>{main}</main><footer>All rights with the harbour of {host}</footer></body></html>"
    )


def serve(pages: int, latency_seconds: float, port: Connection) -> None:
    async def listen() -> None:
        site = ManyHosts(pages, latency_seconds)

        async def answer(request: web.BaseRequest) -> web.Response:
            # Every address of 127.0.0.0/8 is this machine's, but one can listen to them all only with 0.0.0.0.
            if not (request.remote or "").startswith("127."):
                return web.Response(status=403)
            return await site.answer(request)

        server = web.ServerRunner(web.Server(answer))
        await server.setup()
        await web.TCPSite(server, "0.0.0.0", 0, backlog=4096).start()
        port.send(server.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(listen())


def host_names(count: int, port: int, *, by_name: bool) -> list[str]:
    if by_name:
        return [f"h{number}.example" for number in range(count)]
    return [f"127.{1 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}:{port}" for number in range(count)]


def crawl(options: argparse.Namespace, port: int, folder: Path) -> str:
    hosts = host_names(options.hosts, port, by_name=options.proxy)
    pages = options.hosts * options.pages
    listed, feed = folder / "urls.txt", folder / "feed.jsonl"
    numbers = range(options.pages if options.list else 1)
    listed.write_text("".join(f"http://{host}/{f'p{one}' if one else ''}\n" for host in hosts for one in numbers))
    spider = ["extract"] if options.list else ["explore", "-a", f"max_pages={pages}"]
    settings = {
        "DOWNLOAD_DELAY": options.gap,
        "AUTOTHROTTLE_START_DELAY": options.gap,
        "LLM_PROVIDER": "none",
        "LOG_LEVEL": "INFO",
        **({"PROXIES": f"http://127.0.0.1:{port}", "PROXY_CHECK_NAMES": False} if options.proxy else {}),
    }
    command = [*SCRAPY, "crawl", *spider, "-a", f"urls={listed}", "-O", str(feed)]
    command += [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    used = run([*command, *shlex.split(options.arguments)], options.root, folder / "log")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/__figures__") as answer:
        seen = json.load(answer)
    lines = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    good = sum(line.get("kind", "page") == "page" and line.get("status") == 200 for line in lines)
    if (good, seen["pages"], seen["twice"]) != (pages, pages, 0):
        raise BadRun(f"of {pages} pages {good} have a line; the hosts saw {seen['pages']}, {seen['twice']} twice")
    cpu = used.user_seconds + used.system_seconds
    bound = (seen["most_of_a_host"] - 1) * options.gap
    return (
        f"{options.hosts} hosts, {options.pages} pages each, gap {options.gap:g} s: {used.wall_seconds:.1f} s "
        f"({seen['span_seconds']:.1f} s of requests), {pages / used.wall_seconds:.1f} pages/s\n"
        f"  politeness allows {bound:.1f} s ({seen['most_of_a_host']} requests of a host): "
        f"share {bound / seen['span_seconds']:.3f}\n"
        f"  the last host began after {seen['last_host_seconds']:.1f} s, the longest took "
        f"{seen['longest_host_seconds']:.1f} s\n"
        f"  CPU {cpu:.1f} s, {1000 * cpu / pages:.2f} ms a page; peak {used.peak_bytes / 1e6:.0f} MB\n"
        f"  as hosts saw it: gaps of {seen['least_gap']:.3f} s and more, {seen['mean_gap']:.3f} s on average; "
        f"at most {seen['most_in_flight']} in flight; {seen['requests'] - seen['pages']} requests for other files"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--pages", type=int, default=15, help="of each host")
    parser.add_argument("--gap", type=float, default=2.0, help="DOWNLOAD_DELAY, in seconds")
    parser.add_argument("--latency", type=float, default=0.05, help="of each answer, in seconds")
    parser.add_argument("--list", action="store_true", help="all urls are given, and no links followed")
    parser.add_argument("--proxy", action="store_true", help="hosts have names, and are reached through a proxy")
    parser.add_argument("--arguments", default="", help="more of them for the crawl, such as '-s RIGHTS_POLICY=off'")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout that crawls")
    options = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(options.pages, options.latency, there), daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            print(crawl(options, here.recv(), Path(folder)))
    except BadRun as fault:
        sys.exit(str(fault))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
