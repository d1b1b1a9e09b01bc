"""What `llmcrawler serve` takes for clients that poll while jobs run: latencies of its answers, and its memory.

    python -m benchmarks.server_load [--clients 50] [--jobs 8] [--running 2] [--pages 60] [--pause 0.2]

Each client asks for a job's progress, for the list of jobs and for a slice of a job's pages in turn, with a pause
before each. Prints for each kind of request its number and the p50, p95 and longest seconds; the errors; the server's
processor seconds for each request, and its most memory (MB), without those of the crawls.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx2

from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite

KINDS = ("progress", "list", "pages")


async def poll(client: httpx2.AsyncClient, number: int, jobs: list[str], ended: asyncio.Event, pause: float) -> Any:
    """Ask until all jobs have ended; return the seconds of each request by its kind, and the odd answers."""
    seconds: dict[str, list[float]] = defaultdict(list)
    odd, turn = [], number
    while not ended.is_set():
        await asyncio.sleep(pause)
        job, kind = jobs[turn % len(jobs)], KINDS[turn % len(KINDS)]
        path = {"progress": f"/{job}", "list": "?limit=20", "pages": f"/{job}/pages?limit=20"}[kind]
        start = time.perf_counter()
        answer = await client.get(f"/v1/jobs{path}")
        seconds[kind].append(time.perf_counter() - start)
        if answer.status_code != 200:
            odd.append(answer.status_code)
        turn += 1
    return seconds, odd


async def wait_for_all(client: httpx2.AsyncClient, ended: asyncio.Event) -> None:
    try:
        while True:
            jobs = (await client.get("/v1/jobs", params={"limit": 100})).json()["jobs"]
            if all(job["state"] in ("finished", "failed", "stopped") for job in jobs):
                print({job["state"] for job in jobs}, f"{len(jobs)} jobs")
                return
            await asyncio.sleep(0.5)
    finally:
        ended.set()


async def load(url: str, token: str, site: str, options: argparse.Namespace) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    limits = httpx2.Limits(max_connections=options.clients)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:
        body = {"arguments": {"url": site}, "budget": {"max_pages": options.pages}}
        jobs = [(await client.post("/v1/jobs", json=body)).json()["id"] for _ in range(options.jobs)]
        ended = asyncio.Event()
        waiting = asyncio.create_task(wait_for_all(client, ended))
        polls = [poll(client, number, jobs, ended, options.pause) for number in range(options.clients)]
        for seconds, odd in await asyncio.gather(*polls):
            for kind, values in seconds.items():
                found[kind] += values
            found["errors"] += odd
        await waiting
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("clients", 50), ("jobs", 8), ("running", 2), ("pages", 60), ("pause", 0.2)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, MockSite(ManyPages(options.pages).routes()).in_thread() as site:
        command = [sys.executable, "-c", "from llmcrawler.commands.console import main; main()", "serve", "--port", "0"]
        given = ["--jobs", folder, "--allow-private", "--running", str(options.running)]
        server = subprocess.Popen(
            [*command, *given, "-s", "LLM_PROVIDER=none"],
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        assert server.stderr is not None
        url = server.stderr.readline().partition(" ")[0]
        start = time.perf_counter()
        found = asyncio.run(load(url, (Path(folder) / "token").read_text().strip(), site.url("/"), options))
        wall = time.perf_counter() - start
        status = Path(f"/proc/{server.pid}/status").read_text()
        ticks = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        used = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        server.send_signal(signal.SIGINT)
        server.wait()
    count = sum(len(found[kind]) for kind in KINDS)
    for kind in KINDS:
        values = sorted(found[kind])
        p50, p95 = (values[int(len(values) * share)] for share in (0.5, 0.95))
        print(f"{kind:<9} {len(values):>6} requests, p50 {p50:.4f} s, p95 {p95:.4f} s, longest {values[-1]:.4f} s")
    memory = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024
    print(f"{len(found['errors'])} errors, {wall:.1f} s; server: {1000 * used / count:.2f} ms of CPU a request,")
    print(f"{memory:.0f} MB; load average of the machine {os.getloadavg()[0]:.1f}; {vars(options)}")


if __name__ == "__main__":
    main()
