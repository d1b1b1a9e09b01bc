"""What it takes to look at a job with a million urls, and to bring a tenth of its pages back.

    python -m benchmarks.status_speed [--urls 1000000] [--done 3000 1000000]

For each number of pages that are done: seconds, and how far the process grew (MB), a process for each figure.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llmcrawler
from llmcrawler.core.politeness.rights import SIGNALS, USES
from llmcrawler.core.storage import open_job_file
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue

HOSTS = 50
LINE_BYTES = (300, 1500, 1500, 6000)
KINDS = ("http_404", "timeout", "http_503", "dns")
TYPES = ("product", "article", "listing", "other")
STAGES = ("fetch", "content", "classify", "record")
WORK: dict[str, Callable[[Path], Any]] = {
    "status": llmcrawler.status_summary,
    "DataFrame": llmcrawler.read_status,
    "requeue": lambda folder: requeue(folder, RequeueChoice(dead=True)),
}


def urls(count: int, done: int) -> Iterator[tuple[Any, ...]]:
    for n in range(1, count + 1):
        url = f"https://host{n % HOSTS}.example/catalogue/section-{n % 97}/some-page-{n}.html"
        yield n, url, n % HOSTS + 1, n.bit_length(), 0 if n > done else 2 + (n % 10 == 0)


def pages(done: int, start: float) -> Iterator[tuple[Any, ...]]:
    for n in range(1, done + 1):
        error = ("fetch", random.choice(KINDS), "so it is") if n % 10 == 0 else (None, None, None)
        line = random.randbytes(random.choice(LINE_BYTES))
        yield n, n, line, 200, None if error[0] else random.choice(TYPES), *error, start + n


def stages(done: int, start: float) -> Iterator[tuple[Any, ...]]:
    for n in range(1, done + 1):
        for stage in STAGES[: 1 if n % 10 == 0 else None]:
            yield n, stage, "failed" if n % 10 == 0 else "success", None, 1, start + n, 0.1


def make(folder: Path, count: int, done: int) -> None:
    connection: sqlite3.Connection = open_job_file(folder / JOB_FILE)
    start = time.time() - done
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO hosts VALUES (?, ?)", ((n + 1, f"host{n}.example") for n in range(HOSTS)))
    connection.executemany("INSERT INTO urls (id, url, host, rank, state) VALUES (?, ?, ?, ?, ?)", urls(count, done))
    connection.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", pages(done, start))
    connection.executemany("INSERT INTO stages VALUES (?, ?, ?, ?, ?, ?, ?)", stages(done, start))
    write_said(connection, done)
    connection.execute("COMMIT")
    connection.close()


def write_said(connection: sqlite3.Connection, done: int) -> None:
    """Of nine in ten pages something is said of their use, in a thousand ways."""
    for n in range(1000):
        said = random.sample([f"signals/{name}" for name in SIGNALS], random.randrange(1, 6))
        marks = json.dumps(["verdicts/forbidden", f"uses/{random.choice(USES)}: no", *said])
        connection.execute("INSERT OR IGNORE INTO mark_sets VALUES (?, ?)", (n, marks))
    sets = [number for (number,) in connection.execute("SELECT id FROM mark_sets")]
    rows = ((n, random.choice(sets)) for n in range(1, done + 1) if n % 10)
    connection.executemany("INSERT INTO marks VALUES (?, ?)", rows)


def measure(name: str, folder: Path) -> None:
    before, start = peak_kb(), time.monotonic()
    WORK[name](folder)
    print(f"  {name:<10} {time.monotonic() - start:6.1f} s  +{(peak_kb() - before) / 1024:.0f} MB", flush=True)


def peak_kb() -> int:
    """Of this process (Linux); getrusage also knows its parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--done", type=int, nargs="*", default=[3_000, 1_000_000])
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], Path(options.measure[1]))
        return
    for done in options.done:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), options.urls, done)
            size = (Path(folder) / JOB_FILE).stat().st_size / 1e6
            print(f"{options.urls:,} urls, {done:,} of them done, {size:,.0f} MB on disk", flush=True)
            for name in WORK:
                command = [sys.executable, "-m", "benchmarks.status_speed", "--measure", name, folder]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
