"""Views go out for hosts that would be idle: nothing waits for them, and the gap to their last request is over."""

from __future__ import annotations

from collections import Counter
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from llmcrawler.engine.scheduler import idle_hosts


def slot(*, age: float, delay: float, transferring: int = 1) -> Any:
    return SimpleNamespace(
        lastseen=monotonic() - age,
        delay=delay,
        transferring=range(transferring),
        download_delay=lambda: delay,
        free_transfer_slots=lambda: 5 - transferring,
    )


@pytest.mark.parametrize(
    ("one", "fetching", "waiting", "room", "looks_again"),
    [
        ({"age": 900, "delay": 600}, 1, [], 1, False),
        ({"age": 0, "delay": 600}, 1, [], 0, True),
        ({"age": 900, "delay": 600}, 1, ["a.test"], 0, True),
        ({"age": 900, "delay": 600}, 2, [], 0, True),  # one waits in the slot, and leaves it long before its answer
        ({"age": 900, "delay": 0}, 1, [], 4, False),
        ({"age": 900, "delay": 0, "transferring": 5}, 5, [], 0, False),
    ],
)
def test_room_of_a_host_for_views(
    one: dict[str, Any], fetching: int, waiting: list[str], room: int, looks_again: bool
) -> None:
    downloader: Any = SimpleNamespace(
        domain_concurrency=5, fetching=Counter({"a.test": fetching}), slots={"a.test": slot(**one)}
    )
    held, seconds = idle_hosts(downloader, waiting)
    assert 5 - held["a.test"] == room
    assert (seconds is not None) == looks_again
