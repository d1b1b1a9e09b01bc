"""What 188 hostile pages do to a crawl of 200 honest ones: lines, errors, exit status, time, holds of the loop, memory.

    python -m benchmarks.hostile_site [--ways alone,beside,within] [--only REGEX] [--jobdir] [--redis] [--browser]
                                            [--latency 0.05] [--delay 0.05] [--runs 1] [--products 93] [--keep FOLDER]

alone: the honest shop. beside: the shop on one host, the shop with all that is hostile on another, and hosts with
hostile robots.txts. within: honest and hostile pages on one host. --jobdir kills the crawl (-9) in its middle and has
the same command go on; --redis keeps the crawl there; --browser renders every page. --only: the hostile rows whose name
has a match.

The project's default settings, but for: DOWNLOAD_DELAY=--delay (of 0.2) and JOBDIR, REDIS_URL as asked, to be quick;
DOWNLOAD_TIMEOUT=5 (30) and RETRY_TIMES=1 (5), as each of the bodies without end costs a timeout a try; max_pages
--max-pages (500), as the traps have more to give, and deny=/void/, the 100,000 links of one page; LLM_* for the fake
model, which knows the truth; the extension LoopWatch with LOOP_WATCH_MS=20.

The time of honest pages is from the opening of the spider to the last honest line; "within" shares one host's delay
with the hostile pages, so that time is theirs, too. Exit status 1 when a url is missing or doubled, when a crawl does
not end with 0, or when honest records are wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from tests.e2e.crawling import ROOT, environment
from tests.e2e.killing import lines_of
from tests.e2e.loop_watch import LOOP_WATCH
from tests.e2e.watching import Holds, Memory, holds_of
from tests.servers.fake_llm import FakeLLM
from tests.servers.hostile_pages import PAGES
from tests.servers.hostile_robots import ROBOTS
from tests.servers.hostile_site import HONEST, HOSTILE, HOSTILE_HOME, TWINS, HonestShop, HostileSite
from tests.servers.record_sites.scoring import Scores
from tests.servers.redis_server import RedisServer
from tests.servers.teacher import answer_from_truth, path_of

WAYS = ("alone", "beside", "within")
MIN_RECORDS = 0.93
_INTERNAL = re.compile(r"'llmcrawler/internal_errors': (\d+)")


@dataclass
class Outcome:
    """What came of one crawl, however many runs it had."""

    statuses: list[int] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    honest_seconds: float | None = None
    memory: Memory = field(default_factory=Memory)
    faults: list[str] = field(default_factory=list)
    never_asked_for: int = 0

    @property
    def holds(self) -> Holds:
        return holds_of("\n".join(self.logs))

    @property
    def counts(self) -> Counter[str]:
        return Counter(line["url"] for line in self.lines)


class Bench:
    """The servers, and crawls of them. The hostile site has a process of its own."""

    def __init__(self, options: argparse.Namespace, served: Served, llm: FakeLLM, folder: Path) -> None:
        self.options = options
        self.served = served
        self.site = served.site
        self.llm = llm
        self.folder = folder

    def crawl(self, way: str, number: int) -> Outcome:
        folder = self.folder / f"{way}-{number}"
        folder.mkdir(parents=True)
        outcome = Outcome()
        before = self.served.visits()
        with contextlib.ExitStack() as stack:
            settings = self._settings(folder)
            if self.options.redis:
                (folder / "redis").mkdir()
                redis = stack.enter_context(RedisServer(folder / "redis"))
                settings |= {"REDIS_URL": redis.url, "CRAWL_ID": "hostile"}
            if self.options.jobdir:
                settings["JOBDIR"] = folder / "job"
            command = self._command(self._starts(way), settings, folder)
            began = time.monotonic()
            if self.options.jobdir:
                self._run(command, folder, outcome, kill_at_lines=len(self.site.shop.pages) // 2)
            self._run(command, folder, outcome)
            outcome.seconds = time.monotonic() - began
        self._judge(way, outcome, folder, self.served.visits() - before)
        return outcome

    def _starts(self, way: str) -> list[str]:
        hostile = self.site.url(HOSTILE_HOME, HOSTILE)
        return {
            "alone": [self.site.url()],
            "beside": [self.site.url(), self.site.url("/", HOSTILE), hostile, *self.site.robots_urls],
            "within": [self.site.url("/", HOSTILE), hostile],
        }[way]

    def _settings(self, folder: Path) -> dict[str, object]:
        return {
            "DOWNLOAD_DELAY": self.options.delay,
            "DOWNLOAD_TIMEOUT": 5,
            "RETRY_TIMES": 1,
            "LLM_PROVIDER": "openai",
            "LLM_BASE_URL": self.llm.base_url,
            "LLM_API_KEY": "none",
            "LLM_CACHE": folder / "cache",
            **LOOP_WATCH,
            "LOOP_WATCH_MS": 20,
            "EXTENSIONS": json.dumps({**json.loads(LOOP_WATCH["EXTENSIONS"]), "tests.e2e.extensions.LineTimes": 1}),
        }

    def _command(self, starts: list[str], settings: Mapping[str, object], folder: Path) -> list[str]:
        parts = [sys.executable, "-m", "scrapy", "crawl", "explore", "-a", f"url={','.join(starts)}"]
        parts += ["-a", f"max_pages={self.options.max_pages}", "-a", "deny=/void/"]
        if self.options.browser:
            parts += ["-a", "render=always"]
        for name, value in settings.items():
            parts += ["-s", f"{name}={value}"]
        feed = "pages-%(worker)s.jsonl" if self.options.redis else "pages.jsonl"
        return [*parts, "-o", str(folder / feed)]

    def _run(self, command: list[str], folder: Path, outcome: Outcome, kill_at_lines: int | None = None) -> None:
        times, log = folder / "times", folder / f"log{len(outcome.logs)}"
        environ = {**environment(), "LINE_TIMES": str(times)}
        deadline = time.monotonic() + self.options.limit
        with log.open("wb") as out:
            process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=out, stderr=out)
            with outcome.memory.watching(process.pid):
                while process.poll() is None:
                    time.sleep(0.1)
                    if kill_at_lines is not None and times.exists() and len(_rows(times)) > kill_at_lines:
                        process.kill()
                    elif time.monotonic() > deadline:
                        outcome.faults.append(f"did not end in {self.options.limit:g} s")
                        process.kill()
                        process.wait()
        outcome.statuses.append(process.returncode)
        outcome.logs.append(log.read_text(encoding="utf-8", errors="replace"))

    def _judge(self, way: str, outcome: Outcome, folder: Path, visits: Counter[str]) -> None:
        for feed in folder.glob("pages*.jsonl"):
            outcome.lines += [row for row in lines_of(feed) if row["kind"] == "page"]
        host = HOSTILE if way == "within" else HONEST
        honest = {self.site.url(path, host) for path in self.site.shop.pages}
        moments = _rows(folder / "times")
        if moments and not self.options.jobdir:
            last = max((at for at, url in moments if url in honest), default=None)
            outcome.honest_seconds = None if last is None else last - moments[0][0]
        expected = set(honest)
        if way != "alone":
            expected |= {self.site.url(path, HOSTILE) for path in self.site.hostile_paths}
        if way == "beside":
            expected |= {self.site.url(path, HOSTILE) for path in self.site.shop.pages} | set(self.site.robots_urls)
        counts = outcome.counts
        if len(outcome.lines) >= self.options.max_pages:  # the traps took the places of others
            outcome.never_asked_for = len(expected - visits.keys() - counts.keys())
            expected &= visits.keys()
        for what, urls in (
            ("without a line", sorted(expected - counts.keys())),
            ("with several lines", sorted(url for url, number in counts.items() if number > 1)),
            ("honest with an error", sorted({x["url"] for x in outcome.lines if x["url"] in honest and x["error"]})),
        ):
            if urls:
                outcome.faults.append(f"{len(urls)} {what}: {' '.join(urls[:12])}")
        if outcome.statuses[-1] != 0:
            outcome.faults.append(f"exit status {outcome.statuses[-1]}")
        scores = self._scores(outcome, host)
        if scores.macro < MIN_RECORDS:
            outcome.faults.append(f"records of honest pages: {scores.macro:.2f} ({scores})")

    def _scores(self, outcome: Outcome, host: str) -> Scores:
        records = {path_of(line["url"]): line["record"] for line in outcome.lines if f"//{host}:" in line["url"]}
        scores = Scores()
        for one in self.site.shop.products:
            scores.add(one, records.get(one.path), self.site.url(one.path, host))
        return scores


def _rows(times: Path) -> list[tuple[float, str]]:
    if not times.exists():
        return []
    rows = [row.split(" ", 1) for row in times.read_text(encoding="utf-8").splitlines()]
    return [(float(row[0]), row[1]) for row in rows if len(row) == 2]


# -- the report --------------------------------------------------------------------------------------------------------


def report(way: str, outcome: Outcome, alone: Outcome | None) -> str:
    holds, memory = outcome.holds, outcome.memory
    hosts = {host: [x for x in outcome.lines if f"//{host}:" in x["url"]] for host in (HONEST, HOSTILE)}
    errors = Counter(f"{line['error']['stage']}/{line['error']['kind']}" for line in outcome.lines if line["error"])
    internal = sum(int(number) for log in outcome.logs for number in _INTERNAL.findall(log))
    tracebacks = sum(log.count("Traceback (most recent call last)") for log in outcome.logs)
    rows = [
        f"== {way}: exit statuses {outcome.statuses}, {outcome.seconds:.1f} s",
        (
            f"   lines {len(outcome.lines)} ({', '.join(f'{len(x)} of {host}' for host, x in hosts.items() if x)}), "
            f"errors {dict(errors.most_common())}"
        ),
        f"   never asked for, as max_pages was reached: {outcome.never_asked_for}",
        f"   internal errors {internal}, tracebacks in the log {tracebacks}",
        f"   honest pages: {_honest(way, outcome, alone)}",
        f"   loop: greatest hold {holds.max_seconds * 1000:.0f} ms, over 20 ms: {holds.stats.get('holds', 0):.0f}",
        *(f"     {held:6} ms (CPU {cpu}) {place}" for place, (held, cpu) in list(holds.greatest.items())[:25]),
        f"   peak memory: {memory.own_bytes / 2**20:.0f} MB"
        + (f", {(memory.own_bytes - alone.memory.own_bytes) / 2**20:+.0f} MB beside alone" if alone else "")
        + "".join(f", {name} {size / 2**20:.0f} MB" for name, size in memory.children.items()),
        *(f"   FAULT {fault}" for fault in outcome.faults),
    ]
    return "\n".join(rows)


def _honest(way: str, outcome: Outcome, alone: Outcome | None) -> str:
    host = HOSTILE if way == "within" else HONEST
    waits = [x["latency_seconds"] for x in outcome.lines if f"//{host}:" in x["url"] and "/hostile" not in x["url"]]
    latency = median(wait for wait in waits if wait is not None) if any(waits) else 0.0
    text = f"median latency {latency * 1000:.0f} ms"
    if outcome.honest_seconds is not None:
        text += f", last line after {outcome.honest_seconds:.1f} s"
        if alone is not None and alone.honest_seconds:
            text += f", {outcome.honest_seconds / alone.honest_seconds:.2f} of the time alone"
    return text


# -- servers -----------------------------------------------------------------------------------------------------------


def _make_site(options: argparse.Namespace) -> HostileSite:
    wanted = re.compile(options.only)

    def chosen(table: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row for name, row in table.items() if wanted.search(name)}

    shop = HonestShop(options.products, has_forms=not options.no_forms)
    return HostileSite(
        shop, pages=chosen(PAGES), twins=chosen(TWINS), robots=chosen(ROBOTS), latency_seconds=options.latency
    )


@dataclass(frozen=True, slots=True)
class Served:
    """The site as this process knows it, and a line to the one that serves it."""

    site: HostileSite
    line: Connection

    def visits(self) -> Counter[str]:
        self.line.send("visits")
        return Counter(self.line.recv())


def _serve(options: argparse.Namespace, line: Connection) -> None:
    site = _make_site(options)
    with site.in_thread():
        line.send(site.port)
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            while line.recv():
                line.send(dict(site.visits))


@contextlib.contextmanager
def serving(options: argparse.Namespace) -> Iterator[Served]:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(options, there), daemon=True)
    server.start()
    site = _make_site(options)
    site.port = here.recv()
    try:
        yield Served(site, here)
    finally:
        server.terminate()
        server.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--only", default="", help="a regular expression: the hostile rows to serve, by name")
    parser.add_argument("--jobdir", action="store_true")
    parser.add_argument("--redis", action="store_true")
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--products", type=int, default=93, help="93 of them make 200 pages")
    parser.add_argument("--no-forms", action="store_true")
    parser.add_argument("--max-pages", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a crawl is killed")
    parser.add_argument("--keep", type=Path, help="a folder for logs and feeds")
    options = parser.parse_args()
    failed = False
    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        served = stack.enter_context(serving(options))
        site = served.site
        llm = stack.enter_context(FakeLLM(answer_from_truth(site.truth)).in_thread())
        bench = Bench(options, served, llm, folder / str(os.getpid()))
        print(f"{len(site.shop.pages)} honest pages, {len(site.hostile_paths)} hostile, {len(site.robots_urls)} robots")
        for number in range(options.runs):
            alone = None
            for way in options.ways.split(","):
                outcome = bench.crawl(way, number)
                print(report(way, outcome, alone), flush=True)
                alone = outcome if way == "alone" else alone
                failed |= bool(outcome.faults)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
