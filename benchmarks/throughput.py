"""Whole crawls of a stored site, ours beside two plain Scrapy spiders: wall time, CPU time, peak memory.

    python -m benchmarks.throughput SITE_DIR [--runs 3] [--only plain,markdown] [--llm-base-url URL]
                                          [--jobdir] [--arguments "..."] [--command "..."]

SITE_DIR holds index.jsonl, one page a line: {"url": ..., "file": ...}; a file may be gzipped. It is served by a
process of this script, from memory and without latency. Each spider crawls it with no delay and 16 requests in flight;
the runs are interleaved (A B C A B C), the figures are medians over them, of the whole process with its start. A run
that does not bring every page of the index exactly once is an error.

--command replaces our crawl: it runs in the repository's root, and {url}, {out} and {cache} stand for the start url,
the feed's file and a cache file of this run alone. Needs benchmarks/requirements.txt.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import multiprocessing
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

ROOT = Path(__file__).resolve().parents[1]
SCRAPY = [sys.executable, "-m", "scrapy"]
SPEED = [
    *("-s", "DOWNLOAD_DELAY=0"),
    *("-s", "CONCURRENT_REQUESTS=16"),
    *("-s", "CONCURRENT_REQUESTS_PER_DOMAIN=16"),
    *("-s", "AUTOTHROTTLE_ENABLED=False"),
    *("-s", "LOG_LEVEL=INFO"),
]


@dataclass(frozen=True, slots=True)
class Run:
    wall_seconds: float
    user_seconds: float
    system_seconds: float
    peak_bytes: int


class BadRun(Exception):
    """A crawl failed, or did not bring what the site has."""


# -- The site ----------------------------------------------------------------------------------------------------------


def load_pages(site_dir: Path) -> dict[str, bytes]:
    """Path and query -> body, in the index's order, with absolute links to the site's own hosts made relative."""
    rows = [json.loads(line) for line in (site_dir / "index.jsonl").read_text(encoding="utf-8").splitlines()]
    hosts = {urlsplit(row["url"]).netloc for row in rows}
    pages = {}
    for row in rows:
        body = (site_dir / row["file"]).read_bytes()
        if row["file"].endswith(".gz"):
            body = gzip.decompress(body)
        for host in hosts:
            body = body.replace(b"http://" + host.encode(), b"").replace(b"https://" + host.encode(), b"")
        pages[key_of(row["url"])] = body
    return pages


def key_of(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def serve(pages: dict[str, bytes], port: Connection) -> None:
    async def answer(request: web.Request) -> web.Response:
        body = pages.get(request.path_qs)
        if body is None:
            return web.Response(status=404, text="not found")
        return web.Response(body=body, content_type="text/html", charset="utf-8")

    asyncio.run(serve_answers(answer, port))


async def serve_answers(answer: Callable[[web.Request], Awaitable[web.Response]], port: Connection) -> None:
    """Answer every GET on a port of 127.0.0.1, which is sent, until the process is ended."""
    app = web.Application()
    app.router.add_get("/{tail:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port.send(runner.addresses[0][1])
    await asyncio.Event().wait()


# -- The crawls --------------------------------------------------------------------------------------------------------


def ours(url: str, out: Path, options: argparse.Namespace) -> list[str]:
    # Its own answer cache for each run: with a warm one later runs would not ask the model at all.
    cache = out.with_suffix(".cache")
    if options.command:
        return shlex.split(options.command.format(url=url, out=out, cache=cache))
    llm = ["-s", "LLM_PROVIDER=none"]
    if options.llm_base_url:
        # No key goes out: the server is a fake one.
        llm = ["-s", "LLM_PROVIDER=openai", "-s", f"LLM_BASE_URL={options.llm_base_url}", "-s", "LLM_API_KEY=none"]
    crawl = ["crawl", "explore", "-a", f"url={url}", "-a", "max_pages=1000000", "-O", str(out)]
    job = ["-s", f"JOBDIR={out.with_suffix('.job')}"] if options.jobdir else []
    return [*SCRAPY, *crawl, *SPEED, *llm, *job, "-s", f"LLM_CACHE={cache}", *shlex.split(options.arguments)]


def plain(url: str, out: Path, *, markdown: bool) -> list[str]:
    spider = str(ROOT / "benchmarks/plain_spiders.py")
    switch = ["-a", "markdown=1"] if markdown else []
    return [*SCRAPY, "runspider", spider, "-a", f"url={url}", *switch, "-O", str(out), *SPEED]


def run(command: Sequence[str], cwd: Path, log: Path) -> Run:
    """The figures of a process and its children, as the kernel counted them. Raises BadRun on an exit status."""
    environ = {name: value for name, value in os.environ.items() if name != "SCRAPY_SETTINGS_MODULE"}
    with log.open("wb") as stderr:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=cwd, env=environ, stdout=stderr, stderr=stderr)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait for it once more
    if process.returncode != 0:
        raise BadRun(f"exit status {process.returncode}: {shlex.join(command)}\n{log.read_text()[-2000:]}")
    return Run(wall, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024)


def check(out: Path, pages: dict[str, bytes]) -> None:
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    got = Counter(
        key_of(line["url"]) for line in lines if line.get("kind", "page") == "page" and line.get("status") == 200
    )
    missing, twice = pages.keys() - got.keys(), [key for key, count in got.items() if count > 1]
    if missing or twice or got.keys() - pages.keys():
        extra = got.keys() - pages.keys()
        raise BadRun(
            f"{len(missing)} pages missing, {len(twice)} twice, {len(extra)} unknown: {[*missing, *twice][:5]}"
        )


def measure(
    names: Sequence[str], url: str, pages: dict[str, bytes], options: argparse.Namespace
) -> dict[str, list[Run]]:
    results: dict[str, list[Run]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.runs):
            for name in names:
                out = Path(folder) / f"{name}-{number}.jsonl"
                command = ours(url, out, options) if name == "ours" else plain(url, out, markdown=name == "markdown")
                # The plain spiders run outside the repository: its scrapy.cfg would give them our settings.
                cwd = ROOT if name == "ours" else Path(folder)
                results[name].append(run(command, cwd, out.with_suffix(".log")))
                check(out, pages)
    return results


# -- The table ---------------------------------------------------------------------------------------------------------


def table(results: dict[str, list[Run]], page_count: int) -> str:
    lines = [f"{'':10} {'wall s':>8} {'(all runs)':24} {'user s':>7} {'sys s':>6} {'ms/page':>8} {'peak MB':>8}"]
    medians = {name: statistics.median(one.wall_seconds for one in runs) for name, runs in results.items()}
    for name, runs in results.items():
        user = statistics.median(one.user_seconds for one in runs)
        system = statistics.median(one.system_seconds for one in runs)
        peak = statistics.median(one.peak_bytes for one in runs) / 1e6
        walls = " ".join(f"{one.wall_seconds:.2f}" for one in runs)
        per_page = (user + system) * 1000 / page_count
        lines.append(f"{name:10} {medians[name]:8.2f} {walls:24} {user:7.2f} {system:6.2f} {per_page:8.2f} {peak:8.1f}")
    if "ours" in medians:
        lines += [
            f"ours / {name}: {medians['ours'] / medians[name]:.2f} of the wall time"
            for name in medians
            if name != "ours"
        ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site_dir", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="ours,plain,markdown", help="which of ours, plain, markdown")
    parser.add_argument("--llm-base-url", help="an OpenAI-compatible fake; without it, LLM_PROVIDER=none")
    parser.add_argument("--jobdir", action="store_true", help="our crawl keeps a JOBDIR, a new one in each run")
    parser.add_argument("--arguments", default="", help="more of them for our crawl, such as '-a page_types=FILE'")
    parser.add_argument("--command", help="in place of our crawl")
    options = parser.parse_args()

    names = options.only.split(",")
    if unknown := set(names) - {"ours", "plain", "markdown"}:
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}")
    pages = load_pages(options.site_dir)
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(pages, there), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{here.recv()}{next(iter(pages)) if '/' not in pages else '/'}"
        print(f"{len(pages)} pages, {options.runs} runs each, medians")
        print(table(measure(names, url, pages, options), len(pages)))
    except BadRun as fault:
        sys.exit(str(fault))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
