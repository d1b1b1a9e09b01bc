"""A job as a crawl leaves it, made in some milliseconds."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from llmcrawler.core.storage import Outcome, State, open_job_file, url_key, write_outcome, write_value
from llmcrawler.core.storage.job_file import Run, write_run
from llmcrawler.core.storage.ledger import SPENT
from llmcrawler.items import Page, PageError, StageRun
from llmcrawler.server.jobs import DEFAULT_BUDGET, ServerJob, _store

PRICES = ["£10.00", "9,50", 12, None]


def write_pages(connection: Any, pages: Iterable[Page]) -> None:
    """Write the pages of the host shop.test into the job file of a crawl."""
    connection.execute("PRAGMA synchronous = OFF")  # it is to be there soon, and not after a fall of the machine
    connection.execute("INSERT INTO hosts VALUES (1, 'shop.test')")
    for number, page in enumerate(pages, start=1):
        is_dead = page.error is not None and page.error.kind == "dns"
        connection.execute(
            "INSERT INTO urls (id, url, host, depth, crc, state) VALUES (?, ?, 1, 0, 0, ?)",
            (number, page.url, State.DEAD if is_dead else State.DONE),
        )
        connection.keys.add({url_key(page.url): number})
        stage = StageRun("success" if page.record else "skipped", None, 1, 1.0, 0.0)
        write_outcome(connection, number, Outcome(page.as_line(), {"record": stage}))


def stored_job(folder: Path) -> ServerJob:
    """Write a job that has ended: 4 products with a record, 40 articles, and one page that could not be fetched."""
    (folder / "crawl").mkdir(parents=True)
    records = [{"price": price, "tags": ["red", "Blue"]} for price in PRICES] + [None] * 41
    pages = [
        Page(
            url=f"https://shop.test/{number}",
            page_type="product" if record else "article",
            text="text",
            title=f"Thing {number}",
            record=record,
            error=PageError("fetch", "dns", "no such host") if number == 45 else None,
        )
        for number, record in enumerate(records, 1)
    ]
    with closing(open_job_file(folder / "crawl" / "crawl.sqlite")) as connection:
        write_pages(connection, pages)
        stats = {"llmcrawler/page_records/product": 4}
        write_run(connection, Run(1, 1.0, 2.0, "finished", {"stats": stats}, {}))
        write_value(connection, SPENT, {"tokens": 700, "cost_usd": 0.01})
    arguments = {"url": "https://shop.test/"}
    job = ServerJob(folder.name, folder, "explore", arguments, DEFAULT_BUDGET, "api", 1.0, "finished", 2.0, ended=5.0)
    _store(job)
    return job
