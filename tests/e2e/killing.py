"""A crawl with a JOBDIR that is started, ended from outside at a chosen moment, and started again."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmcrawler.core.storage.job_file import JOB_FILE, holds_job, read_job_file
from tests.e2e import warm
from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, command, environment
from tests.servers.many_pages import ManyPages

IN_FLIGHT = 5


@dataclass
class JobCrawl:
    """`feeds`: options of the command that name them. What stands in the plural has one entry a run. With `pages`,
    `stored_at_ends` has the paths whose bodies were in the job's file then, and how often each had been asked for.
    """

    folder: Path
    url: str
    settings: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    feeds: Iterable[str | Path] = ()
    spider: str = "explore"
    logs: list[str] = field(default_factory=list)
    pending_at_ends: list[list[str]] = field(default_factory=list)
    pages: ManyPages | None = None
    stored_at_ends: list[Counter[str]] = field(default_factory=list)

    @property
    def jobdir(self) -> Path:
        return self.folder / "job"

    def command(self) -> list[str]:
        settings = {"JOBDIR": self.jobdir, "CONCURRENT_REQUESTS_PER_DOMAIN": IN_FLIGHT, **self.settings}
        parts = command({"url": self.url, "max_pages": 10_000, **self.arguments}, settings, None, self.spider)
        return [*parts, *map(str, self.feeds)]

    def run(self, limit: Callable[[], None] | None = None) -> int:
        """To its end; the exit status. `limit` is called in the process before the crawl is."""
        if limit is None:
            done = warm.run(self.command()[3:], environment(), TIMEOUT_SECONDS)
        else:
            done = subprocess.run(
                self.command(),
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
                preexec_fn=limit,
            )
        (self.folder / "log").write_text(done.stdout + done.stderr)
        self._note_end()
        return done.returncode

    @contextmanager
    def running(self) -> Iterator[warm.Process]:
        """The crawl in a process, for a test to do things to. It is waited for, so it has to come to its end."""
        with (self.folder / "log").open("w") as log:
            process = warm.start(self.command(), environment(), log, log)
            try:
                yield process
                process.wait(TIMEOUT_SECONDS)
            finally:
                process.kill()
                process.wait()
        self._note_end()

    def run_until(self, pages: ManyPages, count: int, number: int = signal.SIGKILL) -> int:
        """Send a signal when the site was asked for `count` pages; the exit status, 0 also for a crawl that came to
        its end before.
        """
        with self.running() as process:
            wait_until(lambda: len(pages.requested) >= count, pages, process)
            self.pending_at_ends.append(pages.pending)
            process.send_signal(number)
        assert process.returncode is not None
        return process.returncode

    def log_holds(self, text: str) -> bool:
        return text in (self.folder / "log").read_text(encoding="utf-8")

    def repeats_of_stored(self) -> Counter[str]:
        """Requests for pages that were in the job's file at the end of an earlier run. How many of the others there
        are is a matter of the machine's speed.
        """
        assert self.pages is not None
        requested, repeats = Counter(self.pages.requested), Counter[str]()
        for stored in self.stored_at_ends:
            repeats |= Counter({path: requested[path] - count for path, count in stored.items()})
        return repeats

    def _note_end(self) -> None:
        self.logs.append((self.folder / "log").read_text(encoding="utf-8"))
        file = self.jobdir / JOB_FILE
        if self.pages is None or not holds_job(file):
            return
        requested = Counter(self.pages.requested)
        with closing(read_job_file(file)) as connection:
            rows = connection.execute("SELECT u.url FROM urls u JOIN bodies b ON b.url = u.id").fetchall()
        paths = [urlsplit(url).path or "/" for (url,) in rows]
        self.stored_at_ends.append(Counter({path: requested[path] for path in paths}))


def wait_until(claim: Callable[[], bool], pages: ManyPages, process: warm.Process) -> None:
    """For the crawl's end at most. The claim is looked at with every request for a page, and now and then."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with pages.changed:
        while not claim() and process.poll() is None and time.monotonic() < deadline:
            pages.changed.wait(0.1)


def lines_of(feed: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]


def paths_of(lines: Iterable[dict[str, Any]]) -> Counter[str]:
    """How often each path has a line."""
    return Counter(urlsplit(line["url"]).path or "/" for line in lines if line["kind"] == "page")


def children_of(process: int) -> list[int]:
    found = []
    with suppress(OSError):  # it has ended just then
        for task in Path(f"/proc/{process}/task").iterdir():
            found += [int(one) for one in (task / "children").read_text(encoding="ascii").split()]
    return found


def processes_below(process: int) -> list[int]:
    return [one for child in children_of(process) for one in (child, *processes_below(child))]
