"""States that are kept in worker processes, whatever becomes of these."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from llmcrawler.core.processes import state_processes
from llmcrawler.core.processes.state_processes import StateProcesses, WorkersGone
from llmcrawler.errors import ContentError, ReadingStopped

pytestmark = pytest.mark.server

MB = 2**20
_LEAK: list[bytes] = []


@dataclass
class Notes:
    """Keeps a list of numbers."""

    name: str
    numbers: list[int] = field(default_factory=list)

    def pack(self) -> bytes:
        return pickle.dumps(self.numbers)

    def keep(self, state: bytes) -> None:
        self.numbers = pickle.loads(state)


def note(numbers: list[int], number: int) -> tuple[int, list[int]]:
    numbers.append(number)
    return os.getpid(), list(numbers)


def note_and_leak(numbers: list[int], number: int) -> tuple[int, list[int]]:
    _LEAK.append(b"x" * (220 * MB))
    return note(numbers, number)


def end(_numbers: list[int]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def use_processor(_numbers: list[int]) -> None:
    while True:
        pass


def fail(_numbers: list[int]) -> None:
    raise LookupError("no such thing")


@pytest.fixture
async def processes() -> AsyncIterator[StateProcesses]:
    processes = StateProcesses(count=2)
    await processes.start(2)
    yield processes
    processes.close()


async def test_calls_of_one_name_are_done_in_one_worker_in_their_order(processes: StateProcesses) -> None:
    one, other = Notes("one", [0]), Notes("other")
    calls = [processes.call(owner, note, n, seconds=10) for n in range(1, 30) for owner in (one, other)]
    found = await asyncio.gather(*calls)
    assert [numbers for _, numbers in found[::2]] == [list(range(n + 1)) for n in range(1, 30)]
    assert [numbers for _, numbers in found[1::2]] == [list(range(1, n + 1)) for n in range(1, 30)]
    assert len({process for process, _ in found[::2]}) == len({process for process, _ in found[1::2]}) == 1
    assert {process for process, _ in found} & {os.getpid()} == set()
    assert found[0][0] != found[1][0]


async def test_what_a_call_raises_is_raised_here_and_the_next_is_done(processes: StateProcesses) -> None:
    notes = Notes("one")
    with pytest.raises(LookupError, match="no such thing"):
        await processes.call(notes, fail, seconds=10)
    assert (await processes.call(notes, note, 1, seconds=10))[1] == [1]


@pytest.mark.parametrize(("function", "words"), [(end, "SIGKILL"), (use_processor, r"over 0\.5 s")])
async def test_a_call_that_takes_its_worker_down_fails_and_all_others_are_done(processes, function, words) -> None:
    notes = Notes("one")
    for number in range(8):
        await processes.call(notes, note, number, seconds=10)
    before = asyncio.ensure_future(processes.call(notes, note, 8, seconds=10))
    guilty = asyncio.ensure_future(processes.call(notes, function, seconds=0.5))
    others = await asyncio.gather(*(processes.call(notes, note, number, seconds=10) for number in range(9, 12)))
    with pytest.raises(ContentError, match=words):
        await guilty
    assert (await before)[1][-1] == 8
    assert [numbers[-1] for _, numbers in others] == [9, 10, 11]
    assert others[-1][1][:8] == list(range(8))  # as it was last copied; what came between may be gone
    assert processes.restarts == 1


async def test_a_worker_that_is_killed_between_calls_is_replaced_with_what_it_knew(processes: StateProcesses) -> None:
    notes = Notes("one")
    process = 0
    for number in range(8):
        process, _ = await processes.call(notes, note, number, seconds=10)
    os.kill(process, signal.SIGKILL)
    later, numbers = await processes.call(notes, note, 8, seconds=10)
    assert later != process
    assert numbers == list(range(9))


async def test_a_worker_that_has_grown_hands_all_it_knows_to_the_next(processes: StateProcesses) -> None:
    notes = Notes("one")
    first, _ = await processes.call(notes, note, 1, seconds=10)
    await processes.call(notes, note_and_leak, 2, seconds=10)
    second, numbers = await processes.call(notes, note, 3, seconds=10)
    assert second != first
    assert numbers == [1, 2, 3]


async def test_a_call_that_is_made_before_the_crawl_has_heard_of_a_fresh_worker_loses_nothing(processes) -> None:
    notes = Notes("one")
    await processes.call(notes, note_and_leak, 1, seconds=10)
    time.sleep(0.3)  # noqa: ASYNC251 - the loop is held: what the worker says at its end lies there unread
    assert (await processes.call(notes, note, 2, seconds=10))[1] == [1, 2]


async def test_states_beyond_the_most_come_back_and_go_on_later(processes, monkeypatch) -> None:
    monkeypatch.setattr(state_processes, "_MAX_STATES", 2)
    owners = [Notes(f"site {n}") for n in range(12)]
    for number in range(3):
        for owner in owners:
            await processes.call(owner, note, number, seconds=10)
    assert sum(processes.has(owner.name) for owner in owners) <= 6
    away = [owner for owner in owners if not processes.has(owner.name)]
    assert all(owner.numbers == [0, 1, 2] for owner in away)
    assert (await processes.call(owners[0], note, 3, seconds=10))[1] == [0, 1, 2, 3]


async def test_where_no_worker_lives_the_states_come_back(processes: StateProcesses) -> None:
    notes = Notes("one")
    for number in range(8):
        await processes.call(notes, note, number, seconds=10)
    for _ in range(3):
        with pytest.raises(ContentError):
            await processes.call(notes, end, seconds=10)
    with pytest.raises(WorkersGone):
        await processes.call(notes, note, 1, seconds=10)
    assert processes.is_broken
    assert notes.numbers == list(range(8))


async def test_closing_ends_what_is_under_way(processes: StateProcesses) -> None:
    running = asyncio.ensure_future(processes.call(Notes("one"), use_processor, seconds=1000))
    await asyncio.sleep(0)
    processes.close()
    with pytest.raises(ReadingStopped):
        await running
    with pytest.raises(ReadingStopped):
        await processes.call(Notes("two"), note, 1, seconds=10)


OUTLIVED = """
import asyncio, os, signal
from llmcrawler.core.processes.state_processes import StateProcesses
from tests.core.processes.test_state_processes import Notes, note
async def main():
    processes = StateProcesses(count=2)
    await processes.start(2)
    print(await processes.call(Notes("one"), note, 1, seconds=10), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_the_workers_end_with_a_killed_crawl() -> None:
    """They hold the other end of its output: reading that to its end takes until the last of them is gone."""
    command = [sys.executable, "-c", OUTLIVED]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=60).returncode == -signal.SIGKILL
