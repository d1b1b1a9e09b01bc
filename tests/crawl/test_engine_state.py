"""What makes waiting pages go on, and a crawl of several workers end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from llmcrawler.crawl.engine_state import EngineState, EngineWatch, Phase, phase_of
from llmcrawler.engine.compat import SpiderControl

DRY = {"is_shared": True, "is_left": False, "is_confirmed": True}  # a worker that has heard that all urls are done


@pytest.mark.parametrize(
    ("state", "waiting", "phase"),
    [
        ({}, None, Phase.IDLE),
        ({}, 0, Phase.IDLE),
        ({"fetching": 1}, None, Phase.WORKING),
        ({"has_pending": True}, None, Phase.WORKING),
        ({"is_full": True, "fetching": 9, "has_pending": True}, None, Phase.BACKING_OUT),
        # Pages that wait for just this are company for each other, and not for those that are worked on.
        ({"under_way": 3}, None, Phase.IDLE),
        ({"under_way": 3}, 2, Phase.WORKING),
        ({"under_way": 3}, 3, Phase.IDLE),
        ({"under_way": 3, "is_full": True}, 2, Phase.BACKING_OUT),
        # Requests that are left will not be handed out: what they would bring is not waited for.
        ({"is_closing": True, "has_pending": True, "fetching": 2}, None, Phase.CLOSING),
        ({"is_running": False, "is_closing": True, "is_full": True}, 5, Phase.STOPPED),
        # Other workers.
        (DRY, None, Phase.FINISHED),
        (DRY, 0, Phase.FINISHED),
        ({**DRY, "is_left": True}, None, Phase.IDLE),
        ({**DRY, "is_confirmed": False}, None, Phase.IDLE),
        ({**DRY, "is_shared": False}, None, Phase.IDLE),  # Scrapy itself ends a crawl of one process
        ({**DRY, "is_closing": True}, None, Phase.CLOSING),
    ],
)
def test_the_phase_of_a_crawl(state: dict[str, Any], waiting: int | None, phase: Phase) -> None:
    assert phase_of(EngineState(**state), waiting) is phase


def engine(**changes: Any) -> SimpleNamespace:
    slot = SimpleNamespace(needs_backout=lambda: False, active=[object()], queue=[])
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
        (engine(downloader=SimpleNamespace(active={1})), None, None),
        (engine(scheduler=SimpleNamespace(has_pending_requests=lambda: True)), 1, None),
        (engine(scheduler=None), None, "idle"),
        (engine(_slot=None), None, "closing"),
        (engine(_slot=SimpleNamespace(closing=object())), None, "closing"),
        (engine(running=False), None, "stopped"),
        (engine(scraper=SimpleNamespace(slot=None)), None, "stopped"),
        (None, None, "stopped"),
    ],
)
def test_a_snapshot_of_the_engine_says_why_pages_wait_no_longer(now: Any, waiting: int | None, reason: str) -> None:
    crawler: Any = SimpleNamespace(engine=now)
    assert EngineWatch(crawler, SpiderControl(crawler)).reason_to_flush(waiting) == reason


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
    assert EngineWatch(crawler, SpiderControl(crawler)).is_ending() is is_ending
