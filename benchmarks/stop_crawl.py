"""Crawls that are asked to stop at random moments: how long each takes to end, and whether a page is lost.

    python -m benchmarks.stop_crawl [--stops 10] [--signal TERM] [--within 60] [--seed 1] [--jobdir] COMMAND ...

COMMAND is a crawl without a feed, such as `scrapy crawl explore -a url=http://127.0.0.1:8000/ -s LLM_PROVIDER=none`.
It is started anew for each stop (with --jobdir, in one JOBDIR that the last run ends) and gets the signal as `timeout`
sends it, to its whole process group, at a moment within --within seconds of its start. Exit status 1 when a page that
came has no line or two of them, when a stop took longer than --limit seconds, or when an exit status was not 3.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.killing import lines_of

_CRAWLED = re.compile(r"Crawled \(200\) <GET (\S+?)>")


def stop_once(command: list[str], feed: Path, log: Path, seconds: float, number: int) -> tuple[float, int]:
    """Return the seconds that the crawl took to end after the signal (0: it had ended before), and its exit status."""
    feed.unlink(missing_ok=True)
    with log.open("w") as out:
        crawl = subprocess.Popen(
            [*command, "-o", str(feed), "-s", "LOG_LEVEL=DEBUG"], stdout=out, stderr=out, start_new_session=True
        )
        try:
            return 0.0, crawl.wait(seconds)
        except subprocess.TimeoutExpired:
            asked = time.monotonic()
            os.kill(crawl.pid, number)
            os.killpg(crawl.pid, number)
            status = crawl.wait()
            return time.monotonic() - asked, status


def report(feed: Path, log: Path) -> tuple[int, Counter[str], Counter[str], Counter[str]]:
    """Return the number of lines; the urls that came and have none; those with two; and the errors by kind."""
    crawled = set(_CRAWLED.findall(log.read_text(encoding="utf-8", errors="replace")))
    lines = [line for line in lines_of(feed) if line["kind"] != "template"] if feed.exists() else []
    found = Counter(line["url"] for line in lines)
    others = {line.get("final_url") for line in lines}
    lists = {url for url in crawled if url.endswith((".xml", ".xml.gz", "/robots.txt"))}
    missing = Counter(crawled - set(found) - others - lists)
    errors = Counter(f"{line['error']['stage']}/{line['error']['kind']}" for line in lines if line.get("error"))
    return len(lines), missing, Counter({url: count for url, count in found.items() if count > 1}), errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--signal", choices=("TERM", "INT"), default="TERM")
    parser.add_argument("--within", type=float, default=60.0, help="seconds after its start that a crawl is stopped")
    parser.add_argument("--limit", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobdir", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for the logs and feeds")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    random, number, is_well, took = Random(options.seed), getattr(signal, f"SIG{options.signal}"), True, []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        command = options.command + (["-s", f"JOBDIR={folder / 'job'}"] if options.jobdir else [])
        for stop in range(options.stops):
            feed, log = folder / f"{stop}.jsonl", folder / f"{stop}.log"
            moment = random.uniform(0.0, options.within)
            seconds, status = stop_once(command, feed, log, moment, number)
            lines, missing, twice, errors = report(feed, log)
            missing = Counter() if options.jobdir else missing  # these are in the queue
            is_well &= not missing and not twice and seconds <= options.limit
            began = "Spider opened" in log.read_text(encoding="utf-8", errors="replace")
            is_well &= status in (ExitStatus.FINISHED, ExitStatus.INTERRUPTED) or not began
            took.append(seconds)
            print(
                f"stop {stop + 1:2} after {moment:5.1f} s: {seconds:5.2f} s, status {status}, {lines} lines, "
                f"missing {list(missing)}, twice {list(twice)}, errors {dict(errors)}",
                flush=True,
            )
        if options.jobdir:
            feed, log = folder / "last.jsonl", folder / "last.log"
            _, status = stop_once(command, feed, log, 3600.0, number)
            lines, missing, twice, errors = report(feed, log)
            is_well &= not missing and not twice and status == ExitStatus.FINISHED
            print(f"run to its end: status {status}, {lines} lines, twice {list(twice)}, errors {dict(errors)}")
    print(f"stops took {min(took):.1f} to {max(took):.1f} s")
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
