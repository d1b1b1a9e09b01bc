"""Pages a second of one worker and of two, without a politeness bound: 8 hosts, no delay, nginx.

    python -m benchmarks.fleet_throughput [--runs 3] [--pages 300] [--hosts 8] [--workers 1,2] [--memory]

Each host (127.0.0.1, 127.0.0.2, ...) has as many pages, of 20 to 60 kB. A run's speed is its requests over the time
from the first to the last one, as nginx logged them: starting a worker does not count. Runs are interleaved. For what
binds, the CPU seconds of all workers, of Redis and of nginx are told, over the time of the run: the machine's cores are
the most that they can add up to. --memory adds a crawl without Redis. Needs nginx (Debian: nginx-light).
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.crawling import ROOT, command, environment
from tests.servers.many_pages import ManyPages
from tests.servers.redis_server import RedisServer

NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  log_format moments '$msec'; access_log {folder}/access.log moments buffer=64k flush=1s;
  default_type text/html; charset utf-8; sendfile on;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ {listen} root {folder}/site; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Run:
    pages_a_second: float
    seconds: float
    worker_cpu: float
    redis_cpu: float
    nginx_cpu: float


def write_site(folder: Path, pages: int) -> None:
    for path, body in ManyPages(pages, body_bytes=(20_000, 60_000)).bodies.items():
        file = folder / "site" / path.strip("/") / "index.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body, encoding="utf-8")
    (folder / "site" / "robots.txt").write_text("User-agent: *\nDisallow:\n")


def cpu_seconds(pid: int) -> float:
    """Of a process and its children that live."""
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    total = 0.0
    for one in (pid, *map(int, children)):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def crawl(folder: Path, urls: str, workers: int, redis: RedisServer | None, number: int) -> Run:
    log = folder / "access.log"
    settings: dict[str, object] = {"CONCURRENT_REQUESTS": 64, "CONCURRENT_REQUESTS_PER_DOMAIN": 8, "PROGRESS": "off"}
    if redis is not None:
        settings |= {"REDIS_URL": redis.url, "CRAWL_ID": f"run{number}"}
    feed = folder / f"{number}-%(worker)s.jsonl"
    parts = command({"url": urls, "max_pages": 1_000_000}, settings, feed)
    assert nginx is not None
    servers = [nginx.pid, *([redis.process.pid] if redis is not None and redis.process is not None else [])]
    before, own = [cpu_seconds(pid) for pid in servers], resource.getrusage(resource.RUSAGE_CHILDREN)
    log.write_bytes(b"")
    started = [
        subprocess.Popen(parts, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(workers)
    ]
    if any(worker.wait() for worker in started):
        sys.exit("a crawl failed")
    after, now = [cpu_seconds(pid) for pid in servers], resource.getrusage(resource.RUSAGE_CHILDREN)
    time.sleep(1.2)  # nginx writes its log every second
    moments = [float(line) for line in log.read_text().split()]
    span = max(moments) - min(moments)
    spent = [end - begin for begin, end in zip(before, after, strict=True)]
    workers_cpu = now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime
    return Run(len(moments) / span, span, workers_cpu, spent[1] if len(spent) > 1 else 0.0, spent[0])


def main(options: argparse.Namespace) -> None:
    global nginx  # noqa: PLW0603 - one for the whole script
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)  # nginx reads as another user
    write_site(folder, options.pages)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    hosts = [f"127.0.0.{number + 1}:{port}" for number in range(options.hosts)]
    listen = " ".join(f"listen {host};" for host in hosts)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, listen=listen))
    urls = ",".join(f"http://{host}/" for host in hosts)
    (folder / "redis").mkdir()
    nginx = subprocess.Popen([shutil.which("nginx") or "nginx", "-c", str(folder / "nginx.conf")])
    try:
        with RedisServer(folder / "redis") as redis:
            kinds: list[tuple[str, int, RedisServer | None]] = [("memory", 1, None)] if options.memory else []
            kinds += [(f"{count} in Redis", count, redis) for count in map(int, options.workers.split(","))]
            results: dict[str, list[Run]] = {name: [] for name, _, _ in kinds}
            for at in range(options.runs):
                for name, count, server in kinds:
                    run = crawl(folder, urls, count, server, at * 10 + count)
                    results[name].append(run)
                    print(f"{name:12} {run.pages_a_second:7.1f} pages/s in {run.seconds:.1f} s", flush=True)
            report(results)
    finally:
        nginx.terminate()
        nginx.wait()
        shutil.rmtree(folder)


def report(results: dict[str, list[Run]]) -> None:
    first = None
    for name, runs in results.items():
        speed = statistics.median(run.pages_a_second for run in runs)
        first = first or speed
        parts = {"workers": "worker_cpu", "Redis": "redis_cpu", "nginx": "nginx_cpu"}
        shares = (
            f"{what} {statistics.median(getattr(run, field) / run.seconds for run in runs):.2f}"
            for what, field in parts.items()
        )
        print(
            f"{name:12} median {speed:7.1f} pages/s, {speed / first:.2f} of the first; cores used: {', '.join(shares)}"
        )


nginx: subprocess.Popen[bytes] | None = None

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--memory", action="store_true")
    main(parser.parse_args())
