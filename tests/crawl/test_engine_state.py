"""What makes waiting pages go on, and a crawl of several workers end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from llmcrawler.crawl.engine_state import EngineWatch


def engine(*, is_full: bool = False, under_way: int = 1, **changes: Any) -> SimpleNamespace:
    slot = SimpleNamespace(needs_backout=lambda: is_full, active=[object()] * under_way, queue=[])
    parts = {
        "running": True,
        "_slot": SimpleNamespace(closing=None),
        "scraper": SimpleNamespace(slot=slot),
        "scheduler": SimpleNamespace(has_pending_requests=lambda: False),
        "downloader": SimpleNamespace(active=set()),
    }
    return SimpleNamespace(**{**parts, **changes})


@pytest.mark.parametrize(
    ("now", "waiting", "reason"),
    [
        (engine(), None, "idle"),
        (engine(), 0, None),
        (engine(), 1, "idle"),
        # Pages that wait for just this are company for each other, and not for those that are worked on.
        (engine(under_way=3), None, "idle"),
        (engine(under_way=3), 2, None),
        (engine(under_way=3), 3, "idle"),
        (engine(under_way=3, is_full=True), 2, "backing_out"),
        (engine(downloader=SimpleNamespace(active={1}), is_full=True), None, "backing_out"),
        (engine(downloader=SimpleNamespace(active={1})), None, None),
        (engine(scheduler=SimpleNamespace(has_pending_requests=lambda: True)), 1, None),
        (engine(scheduler=None), None, "idle"),
        (engine(_slot=None), None, "closing"),
        (engine(_slot=SimpleNamespace(closing=object()), is_full=True, under_way=3), 2, "closing"),
        (engine(running=False), None, "stopped"),
        (engine(scraper=SimpleNamespace(slot=None)), None, "stopped"),
        (None, None, "stopped"),
    ],
)
def test_a_snapshot_of_the_engine_says_why_pages_wait_no_longer(now: Any, waiting: int | None, reason: str) -> None:
    crawler: Any = SimpleNamespace(engine=now)
    assert EngineWatch(crawler).reason_to_flush(waiting) == reason
    of_workers = EngineWatch(crawler, is_worker=True).reason_to_flush(waiting)
    assert of_workers == ("leaving" if reason == "stopped" else reason)


@pytest.mark.parametrize(
    ("now", "is_ending"),
    [
        (engine(downloader=SimpleNamespace(active={1})), True),  # it may still bring links
        (engine(scheduler=SimpleNamespace(has_pending_requests=lambda: True)), False),
        (engine(running=False), False),
    ],
)
def test_a_crawl_is_ending_when_no_url_waits_to_be_handed_out(now: Any, is_ending: bool) -> None:
    crawler: Any = SimpleNamespace(engine=now)
    assert EngineWatch(crawler).is_ending() is is_ending
