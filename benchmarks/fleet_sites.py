"""Workers that share a crawl of many hosts, and what befalls them: what is lost, what comes twice, what it costs.

    python -m benchmarks.fleet_sites [--workers 4] [--hosts 16] [--pages 60] [--kills 1] [--stall 30] [--restart]
                                           [--delay 0.05] [--llm] [--lease 20] [--seed 1] [--scripts]

--kills kills as many workers at random (kill -9), each time another one is started; --stall stops Redis (SIGSTOP) for
so many seconds; --restart stops and starts it. Told are lines that are missing or doubled, commands (those in scripts,
too) and bytes a page of Redis, CPU a page of the workers, the least gap at a host, and calls of the model (--llm). What
a worker costs that finds nothing to do is taken off the CPU. --scripts tells which scripts the commands are of: it
reads all that Redis does, which costs bytes and CPU of its own. Exit status 1 where a page is lost.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from hashlib import sha1
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as RedisGone

from llmcrawler.fleet.connection import lua
from tests.e2e.crawling import ROOT, environment
from tests.e2e.test_fleet import LABELS, Fleet
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.many_hosts import ManyHosts
from tests.servers.many_pages import ManyPages
from tests.servers.redis_server import RedisServer


class ColdFleet(Fleet):
    """Its workers import what they need themselves, and their CPU counts as that of this process's children."""

    def start(self) -> subprocess.Popen[bytes]:
        with (self._folder / f"log{len(self.workers)}").open("wb") as log:
            worker = subprocess.Popen(self._command, cwd=ROOT, env=environment(), stdout=log, stderr=log)
        self.workers.append(worker)
        return worker


def cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def trouble(fleet: Fleet, hosts: ManyHosts, redis: RedisServer, options: argparse.Namespace) -> None:
    """Do to the fleet what was asked for, spread over the crawl."""
    random, total = Random(options.seed), len(hosts.all_pages)
    deeds = ["kill"] * options.kills + ["stall"] * bool(options.stall) + ["restart"] * options.restart
    random.shuffle(deeds)
    for number, deed in enumerate(deeds):
        goal = total * (number + 1) / (len(deeds) + 1) * 0.9
        while hosts.requested < goal and any(one.poll() is None for one in fleet.workers):
            time.sleep(0.02)
        alive = [one for one in fleet.workers if one.poll() is None]
        print(f"{deed:8} with {hosts.requested} requests, {len(alive)} workers", flush=True)
        if deed == "kill" and alive:
            victim = random.choice(alive)
            victim.kill()
            victim.wait()
            fleet.start()
        elif deed == "stall":
            assert redis.process is not None
            redis.process.send_signal(signal.SIGSTOP)
            time.sleep(options.stall)
            redis.process.send_signal(signal.SIGCONT)
        elif deed == "restart":
            redis.stop()
            time.sleep(3)
            redis.start()


def watch(redis: RedisServer, by_script: Counter[tuple[str, str]]) -> None:
    """Count what Redis does until it ends, by script and command."""
    names = [file.name.removesuffix(".lua") for file in files("llmcrawler.fleet").joinpath("lua").iterdir()]
    known = {sha1((lua("guard") + lua(name)).encode()).hexdigest(): name for name in names}
    with suppress(RedisGone), Redis(port=redis.port, socket_timeout=None).monitor() as monitor:
        script = "none"
        for said in monitor.listen():
            name, _, rest = said["command"].partition(" ")
            if said["client_type"] != "lua":
                script = known.get(rest[:40], "none")
            by_script[script, name.lower()] += 1


def listed(calls: Counter[str]) -> str:
    return ", ".join(f"{name} {count:.2f}" for name, count in calls.most_common())


def main(options: argparse.Namespace) -> int:
    size = (options.body, options.body) if options.body else None
    hosts = ManyHosts(options.hosts, ManyPages(options.pages, latency_seconds=options.latency, body_bytes=size))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "redis").mkdir()
        with (
            hosts.in_thread(),
            RedisServer(folder / "redis") as redis,
            FakeLLM(label_by_url(LABELS, "homepage")).in_thread() as llm,
        ):
            settings: dict[str, Any] = {
                "REDIS_URL": redis.url,
                "CRAWL_ID": "fleet",
                "REDIS_LEASE_SECONDS": options.lease,
                "DOWNLOAD_DELAY": options.delay,
                "DOWNLOAD_DELAY_JITTER": 0,
                "LOG_LEVEL": "INFO",
                "PROGRESS": "off",
            }
            if options.llm:
                settings |= {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
            by_script: Counter[tuple[str, str]] = Counter()
            if options.scripts:
                threading.Thread(target=watch, args=(redis, by_script), daemon=True).start()
            before, began = cpu_seconds(), time.monotonic()
            with ColdFleet(folder, ",".join(hosts.urls), settings) as fleet:
                for _ in range(options.workers):
                    fleet.start()
                trouble(fleet, hosts, redis, options)
                statuses = [one.wait() for one in fleet.workers]
                seconds = time.monotonic() - began
                cpu = cpu_seconds() - before
                lines = fleet.pages()
                logs = [fleet.log(number) for number in range(len(fleet.workers))]
                with redis.client() as client:
                    said: Any = client.info("stats") | {"by": client.info("commandstats")}
                fleet.start().wait()
                start_cpu = cpu_seconds() - before - cpu
            if options.logs:
                Path(options.logs).mkdir(exist_ok=True)
                for number, log in enumerate(logs):
                    (Path(options.logs) / f"log{number}").write_text(log)
    wanted = hosts.all_pages
    missing, doubled = wanted - lines.keys(), {url: count for url, count in lines.items() if count > 1}
    pages = len(wanted)
    own_cpu = cpu - start_cpu * len(statuses)
    moments = [[moment for moment, _path in starts] for starts in hosts.starts.values()]
    gaps = sorted(min(after - before for before, after in pairwise(one)) for one in moments if len(one) > 1)
    moved = (
        sum(log.count("This worker took over") for log in logs),
        sum(log.count("worker gave up") for log in logs),
    )
    print(f"{pages} pages of {options.hosts} hosts, {len(statuses)} workers {statuses}, {seconds:.1f} s")
    print(
        f"missing {len(missing)}, doubled {sum(doubled.values()) - len(doubled)}, unknown {len(lines.keys() - wanted)}"
    )
    bytes_a_page = (said["total_net_input_bytes"] + said["total_net_output_bytes"]) / pages
    calls = Counter({name.removeprefix("cmdstat_"): row["calls"] / pages for name, row in said["by"].items()})
    print(f"Redis: {calls.total():.1f} commands and {bytes_a_page:.0f} bytes a page: {listed(calls)}")
    for script in sorted({script for script, _ in by_script}):
        own = Counter({name: count / pages for (one, name), count in by_script.items() if one == script})
        print(f"  {script:14} {own.total():5.2f}: {listed(own)}")
    print(f"CPU: {cpu:.1f} s, {1000 * own_cpu / pages:.1f} ms a page without the starts; requests {hosts.requested}")
    print(f"least gap {gaps[0]:.4f} s, median {gaps[len(gaps) // 2]:.4f} s; taken over {moved[0]}, given up {moved[1]}")
    print(f"calls of the model {len(llm.documents)}; tracebacks {sum(log.count('Traceback') for log in logs)}")
    return bool(missing)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--body", type=int, default=0, help="bytes of an item")
    parser.add_argument("--latency", type=float, default=0.02)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--stall", type=float, default=0)
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--lease", type=float, default=20)
    parser.add_argument("--llm", action="store_true")
    parser.add_argument("--logs", default="", help="a folder for the workers' logs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scripts", action="store_true")
    sys.exit(main(parser.parse_args()))
