"""Job files as a crawl leaves them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.frontier.sqlite import SqliteFrontier
from llmcrawler.core.storage import Database, Ledger, Outcome, StoredBody, open_job_file
from llmcrawler.core.storage.job_file import JOB_FILE, write_value
from llmcrawler.items import StageRun

STARTED = 1_000_000.0
JOB = {
    "spider": "explore",
    "arguments": {"url": ["https://a.example/"], "max_pages": 500},
    "given": {"url": "https://a.example", "goal": "product"},
    "state": "finished",
    "reason": "finished",
    "started": STARTED,
    "run_started": STARTED,
    "runs": 1,
}


@dataclass(eq=False)
class Made:
    """A page to be in a job. `stages`: a status by name, "failed: kind" with the error's kind."""

    url: str
    stages: Mapping[str, str] = field(default_factory=dict)
    error: tuple[str, str] | None = None  # stage, kind
    page_type: str | None = None
    has_body: bool = True

    def outcome(self) -> Outcome:
        error = self.error and {"stage": self.error[0], "kind": self.error[1], "message": "so it is", "attempts": 1}
        line = {"url": self.url, "status": 200, "page_type": self.page_type, "error": error}
        return Outcome(line, dict(self._runs()), is_dead=self.error is not None and self.error[0] == "fetch")

    def _runs(self) -> Any:
        for number, (stage, text) in enumerate(self.stages.items()):
            status, _, kind = text.partition(": ")
            yield stage, StageRun(status, f"{kind}: so it is" if kind else None, 1, STARTED + number, 0.5)


ALL_WELL = {"fetch": "success", "content": "success", "classify": "success", "record": "success"}
FINE = Made("https://a.example/fine", ALL_WELL, page_type="article")
CLASSIFY_FAILED = Made(
    "https://a.example/classify",
    ALL_WELL | {"classify": "failed: llm_failed", "record": "skipped", "own": "success"},
    error=("classify", "llm_failed"),
)
RECORD_FAILED = Made("https://b.example/record?a=1", ALL_WELL | {"record": "failed: timeout"}, page_type="product")
BODILESS = Made(
    "https://b.example/bodiless", ALL_WELL | {"record": "failed: timeout"}, page_type="product", has_body=False
)
UNREADABLE = Made("https://a.example/unreadable", {"fetch": "success"}, error=("content", "unreadable"))
GONE = Made("https://a.example/gone", {"fetch": "failed: http_404"}, error=("fetch", "http_404"), has_body=False)
BUSY = Made("https://b.example/busy", {"fetch": "failed: http_503"}, error=("fetch", "http_503"), has_body=False)
PAGES = (FINE, CLASSIFY_FAILED, RECORD_FAILED, BODILESS, UNREADABLE, GONE, BUSY)
QUEUED = "https://c.example/queued"
TARGET = "https://a.example/target"


def task(url: str, priority: int = 0) -> UrlTask:
    return UrlTask(url, urlsplit(url).netloc, depth=1, priority=priority)


async def with_frontier(folder: Path, work: Callable[[SqliteFrontier, Ledger], Any]) -> Any:
    database = Database(open_job_file(folder / JOB_FILE), folder / JOB_FILE, sync_seconds=60.0)
    frontier = SqliteFrontier(database, max_leases=3)
    await frontier.open()
    try:
        return await work(frontier, Ledger(database))
    finally:
        await database.close()


async def make_job(folder: Path, pages: tuple[Made, ...] = PAGES, **values: Any) -> Path:
    """Each page ended a second after the one before; QUEUED waits, TARGET is where a redirect led."""

    async def crawl(frontier: SqliteFrontier, ledger: Ledger) -> None:
        await frontier.add([task(page.url) for page in pages])
        await frontier.lease(len(pages), {}, len(pages))
        for page in pages:
            if page.has_body:
                ledger.keep_body(page.url, StoredBody(page.url, 200, (), b"<p>text</p>", "2026-01-01", 0.1))
            await frontier.start(page.url)
            await frontier.ack(page.url, page.outcome())
        await frontier.reserve_target(TARGET, pages[0].url)
        await frontier.add([task(QUEUED, priority=5)])

    await with_frontier(folder, crawl)
    connection = open_job_file(folder / JOB_FILE)
    for name, value in (JOB | values).items():
        write_value(connection, name, value)
    connection.execute("UPDATE pages SET finished = ? + seq", (STARTED,))
    connection.close()
    return folder


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
