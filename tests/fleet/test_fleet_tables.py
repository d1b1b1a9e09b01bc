"""Tables of the crawls that workers share."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType

from llmcrawler.core.storage import RightsCounts
from llmcrawler.fleet.crawl_control import DistributedStatus, WorkerStatus
from llmcrawler.fleet.fleet_tables import session_status_tables
from llmcrawler.fleet.session import WorkerReport

URLS = {"queued": 1_200, "leased": 3, "done": 40, "dead": 1, "duplicates": 2}


def text_of(tables: Iterable[RenderableType]) -> list[str]:
    console = Console(width=1_000, color_system=None)
    with console.capture() as captured:
        for table in tables:
            console.print(table)
    return [" ".join(line.split()) for line in captured.get().splitlines() if line.strip()]


def worker(number: int, state: str, ended: float | None = None, sites: tuple[str, ...] = ()) -> WorkerStatus:
    report = WorkerReport(f"w{number}", "m", number, 0.0, pages=20, pages_a_minute=60.4, leases=3, in_flight=2)
    return WorkerStatus(report, state, ended, sites, len(sites))


def status_of(workers: list[WorkerStatus], state: str = "running") -> DistributedStatus:
    return DistributedStatus(
        crawl_id="shop",
        url="redis://host/0",
        state=state,
        spider="explore",
        arguments={"url": ["https://shop.example"]},
        started=0.0,
        urls=URLS,
        expired=4,
        pages_a_minute=60.4,
        waiting=5,
        waiting_sites=("a.example", "b.example", "c.example", "d.example", "e.example"),
        told_apart_by="set",
        workers=tuple(workers),
        hosts=(),
        host_count=0,
        errors={},
        rights=RightsCounts(),
        dead_letters=(),
        memory_bytes=10_000_000,
    )


def test_who_works_on_what_and_who_was_lost_when() -> None:
    lost = [worker(number, "lost", ended=90.0) for number in range(2, 15)]
    lines = text_of(session_status_tables(status_of([worker(1, "here", sites=("shop.example",)), *lost]), now=100.0))
    assert lines[0] == "shop in redis://host/0: running"
    assert "60 pages a minute over all workers" in lines
    assert "w1 here 20 60 3 2 0 1 shop.example" in lines
    assert "w2 lost 20 0 0 10 s ago" in lines
    assert ("w11 lost 20 0 0 10 s ago" in lines, "w12 lost 20 0 0 10 s ago" in lines) == (True, False)
    assert "... and 3 more" in lines
    assert "5 sites without an owner: a.example, b.example, c.example and 2 more" in lines


def test_a_paused_crawl_says_how_it_goes_on() -> None:
    lines = text_of(session_status_tables(status_of([], state="paused"), now=100.0))
    assert "resume with: scrapy workers resume redis://host/0 shop" in lines
