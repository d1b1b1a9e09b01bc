"""What a campaign of many sites takes, beside a crawl after the other of a sample of them.

    python -m benchmarks.campaign [--sites 200] [--most 500] [--singles 12] [--kills 0] [--ray ADDRESS]

The sites are those of tests/servers/campaign_sites.py: 20 to MOST pages of each, 5% dead, 5% slow, 3% answering 429.
With KILLS the command and all that it has started get a kill -9 so many times, and it is started again.
Of the processor: user and system time of the command and all that it starts. Memory is what the processes have to
themselves and their share of the rest (PSS), looked at twice a second.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from random import random
from typing import Any

from tests.servers.campaign_sites import FINE, manners

ROOT = Path(__file__).parents[1]
SHARES = (0.04, 0.1, 0.2, 0.4, 1.0)  # of the most pages, by turns: 20, 50, 100, 200 and 500 of 500
KILL_SECONDS = 15  # between kills, at least; and at most twice as many
SETTINGS = {"LLM_PROVIDER": "none", "LLM_CACHE": "False"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=200)
    parser.add_argument("--most", type=int, default=500)
    parser.add_argument("--singles", type=int, default=12)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ray", help="the address of a cluster; the processor's time is then that of the driver alone")
    parser.add_argument("-s", dest="settings", action="append", default=[])
    options = parser.parse_args()
    settings = [f"-s{one}" for one in (*(f"{name}={value}" for name, value in SETTINGS.items()), *options.settings)]
    with tempfile.TemporaryDirectory() as folder, server(options.sites, options.most) as urls:
        out = options.out or Path(folder) / "out"
        rows = [
            f"{url},{max(20, round(options.most * SHARES[number % len(SHARES)]))}" for number, url in enumerate(urls)
        ]
        Path(folder, "sites.csv").write_text("\n".join(["url,max_pages", *rows, ""]), encoding="utf-8")
        command = ["campaign", str(Path(folder, "sites.csv")), "-o", str(out), *settings]
        command += ["--ray", options.ray] if options.ray else []
        memory = Memory(out)
        killed = [measured(command, memory, kill_after=KILL_SECONDS * (1 + random())) for _ in range(options.kills)]
        last = measured(command, memory)
        figures = last[0] + sum(one[0] for one in killed), last[1] + sum(one[1] for one in killed)
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
        print_campaign(manifest, out, figures, memory)
        limits = {row.split(",")[0]: int(row.split(",")[1]) for row in rows}
        found = {site["url"]: site["pages"] + site["errors"] for site in manifest["sites"] if site["state"] == "done"}
        short = [limits[url] - lines for url, lines in found.items() if lines < limits[url]]
        print(f"of {len(found)} sites that are done {len(short)} have fewer lines than asked for, {sum(short)} in all")
        if not options.singles:
            return
        fine = [row for row, manner in zip(rows, manners(options.sites), strict=True) if manner == FINE]
        print_singles(fine[:: max(1, len(fine) // options.singles)][: options.singles], Path(folder), settings)


def print_campaign(manifest: dict[str, Any], out: Path, figures: tuple[float, float], memory: Memory) -> None:
    seconds, cpu = figures
    pages = manifest["totals"]["pages"]
    lines = Counter(
        json.loads(line)["url"]
        for site in manifest["sites"]
        if site["file"]
        for line in (out / site["file"]).open("rb")
    )
    print(f"{len(manifest['sites'])} sites in {len(manifest['bundles'])} bundles: {manifest['states']}")
    print(f"urls {len(lines):,}, with more than one line {sum(count > 1 for count in lines.values())}")
    print(f"campaign: {pages:,} pages in {seconds:.0f} s, {cpu:.0f} s of the processor:", rates(pages, seconds, cpu))
    print(
        f"memory: at most {memory.most / 1e6:.0f} MB, {memory.crawls} crawls with {memory.sites} sites then:", end=" "
    )
    print(f"{memory.most / 1e6 / max(1, memory.sites):.1f} MB a site; driver and forker {memory.base / 1e6:.0f} MB")


def print_singles(rows: list[str], folder: Path, settings: list[str]) -> None:
    pages, seconds, cpu, most = 0, 0.0, 0.0, 0.0
    for number, row in enumerate(rows):
        url, limit = row.split(",")
        feed = folder / f"{number}.jsonl"
        memory = Memory(folder)
        command = ["crawl", "explore", f"-aurl={url}", f"-amax_pages={limit}", "-O", str(feed)]
        took = measured([*command, f"-sJOBDIR={folder / str(number)}", "-sPROGRESS=log", *settings], memory)
        items = map(json.loads, feed.open("rb"))
        pages += sum(item["kind"] == "page" and item["error"] is None for item in items)
        seconds, cpu, most = seconds + took[0], cpu + took[1], max(most, memory.most)
    print(f"{len(rows)} single crawls: {pages:,} pages in {seconds:.0f} s, {cpu:.0f} s of the processor:", end=" ")
    print(rates(pages, seconds, cpu), f"at most {most / 1e6:.0f} MB")


def rates(pages: int, seconds: float, cpu: float) -> str:
    return f"{cpu / pages * 1000:.1f} ms a page, {pages / cpu:.0f} pages/s of a core, {pages / seconds:.1f} pages/s;"


def measured(arguments: list[str], memory: Memory, *, kill_after: float = 0) -> tuple[float, float]:
    """Seconds by the clock and of the processor, of `scrapy` with these arguments; of what is killed, the latter of the
    command alone.
    """
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    memory.is_over = False
    watching = threading.Thread(target=memory.watch, args=(process.pid,))
    watching.start()
    if kill_after:
        time.sleep(kill_after)
        for pid in _family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(process.pid, 0)
    memory.is_over = True
    watching.join()
    if status and not kill_after:
        raise SystemExit(f"exit status {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime


class Memory:
    """The most memory that a process and those that it started had together, and how many sites were crawled then."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.most = self.base = 0.0
        self.crawls = self.sites = 0
        self.is_over = False

    def watch(self, pid: int) -> None:
        while not self.is_over:
            time.sleep(0.5)
            family = _family(pid)
            shares = {one: _share_bytes(one) for one in family}
            if sum(shares.values()) > self.most:
                self.most = sum(shares.values())
                crawls = [one for one in family if one != pid and family[one] != pid]
                self.base = sum(size for one, size in shares.items() if one not in crawls)
                self.crawls, self.sites = len(crawls), sum(map(self._sites_of, crawls))

    def _sites_of(self, pid: int) -> int:
        """By the JOBDIR that the crawl has open."""
        with suppress(OSError):
            for one in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    if (target := one.readlink()).name == "crawl.lock" and target.is_relative_to(self.out.resolve()):
                        return len((target.parent / "sites.txt").read_text(encoding="utf-8").split())
        return 0


def _family(pid: int) -> dict[int, int]:
    """A process and all that come from it, with their parents."""
    found, todo = {pid: 0}, [pid]
    while todo:
        parent = todo.pop()
        with suppress(OSError):
            for one in map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()):
                found[one] = parent
                todo.append(one)
    return found


def _share_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


@contextmanager
def server(count: int, pages: int):
    """The start urls of the sites, which are in a process of their own."""
    code = f"""if True:
        from threading import Event
        from tests.servers.campaign_sites import CampaignSites, manners
        with CampaignSites(manners({count}), 0.05, {pages}).in_thread() as sites:
            print(sites.port, flush=True)
            Event().wait()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    try:
        port = int(process.stdout.readline())
        yield [f"http://127.1.{number // 250}.{number % 250 + 1}:{port}/" for number in range(count)]
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    main()
