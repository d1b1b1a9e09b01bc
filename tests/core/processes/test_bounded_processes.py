import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from llmcrawler.core.processes.bounded_processes import BoundedProcesses, packed
from llmcrawler.errors import ContentError, ReadingStopped

pytestmark = pytest.mark.server


MB = 2**20


@pytest.fixture
async def processes() -> AsyncIterator[BoundedProcesses]:
    processes = BoundedProcesses(count=1, memory_bytes=256 * MB, result_bytes=4 * MB)
    yield processes
    processes.close()


def double(number: int) -> int:
    return 2 * number


def told(body: bytes, text: str, number: int) -> tuple[bytes, str, int]:
    return body, text[:5], len(text) + number


def use_processor() -> None:
    while True:
        pass


def match_for_ever() -> None:
    """In C, without letting go of the interpreter's lock."""
    import re  # a function of the other process

    re.match(r"(a|a)*b", "a" * 60)


def allocate(count: int) -> int:
    return len(b"x" * count)


def nest(depth: int) -> object:
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


def die() -> None:
    os._exit(11)


def killed_below(runs: int, log: str) -> int:
    """Count the runs of it in a file; the first ones are killed as by somebody outside."""
    with Path(log).open("a+", encoding="ascii") as file:
        file.write("x")
        file.flush()
        file.seek(0)
        count = len(file.read())
    if count < runs:
        os.kill(os.getpid(), signal.SIGKILL)
    return count


def fail() -> None:
    raise LookupError("no such thing")


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - what it waits for tells nobody
        await asyncio.sleep(0.01)


async def test_a_function_runs_in_another_process(processes: BoundedProcesses):
    assert await processes.run(double, 21, seconds=10) == 42
    assert await processes.run(os.getpid, seconds=10) != os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (use_processor, (), r"over 0\.5 s"),
        (match_for_ever, (), r"over 0\.5 s"),
        (allocate, (2048 * MB,), "more than 256 MB of memory"),
        (bytes, (5 * MB,), "too large"),
        (nest, (100_000,), "too large"),
        (die, (), "died"),
    ],
)
async def test_work_over_a_limit_is_an_error_and_the_next_is_done(processes, function, arguments, message):
    with pytest.raises(ContentError, match=message):
        await processes.run(function, *arguments, seconds=0.5)
    assert await processes.run(double, 21, seconds=10) == 42


async def test_work_whose_process_was_killed_is_done_once_more(processes: BoundedProcesses, tmp_path):
    assert await processes.run(killed_below, 2, str(tmp_path / "once"), seconds=10) == 2
    with pytest.raises(ContentError, match="SIGKILL"):
        await processes.run(killed_below, 4, str(tmp_path / "always"), seconds=10)
    assert (tmp_path / "always").read_text() == "xx"


async def test_what_the_function_raises_is_raised_here(processes: BoundedProcesses):
    with pytest.raises(LookupError, match="no such thing"):
        await processes.run(fail, seconds=10)


async def test_work_that_is_cancelled_leaves_room_for_the_next(processes: BoundedProcesses):
    task = asyncio.ensure_future(processes.run(use_processor, seconds=1000))
    waiting = asyncio.ensure_future(processes.run(double, 21, seconds=10))
    await until(lambda: len(processes._waiting) == 1)
    task.cancel()
    assert await waiting == 42
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_may_be_cancelled_with_what_waits_for_it(processes: BoundedProcesses):
    both = [asyncio.create_task(processes.run(use_processor, seconds=60)) for _ in range(2)]
    await until(lambda: bool(processes._waiting))
    for task in both:
        task.cancel()
    ends = await asyncio.gather(*both, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 2
    assert await processes.run(double, 21, seconds=10) == 42


async def test_who_has_used_least_comes_first(processes: BoundedProcesses):
    done: list[str] = []

    async def run(share: str) -> None:
        await processes.run(time.sleep, 0.1, seconds=10, share=share)
        done.append(share)

    greedy = [asyncio.ensure_future(run("greedy")) for _ in range(6)]
    await until(lambda: len(processes._waiting) == 5)
    await asyncio.gather(run("modest"), *greedy)
    assert done.index("modest") <= 2


async def test_who_goes_over_limits_gets_less_time(processes: BoundedProcesses):
    for seconds in (1, 0.5):
        with pytest.raises(ContentError, match=f"over {seconds:g} s"):
            await processes.run(use_processor, seconds=1, share="greedy")


@pytest.mark.slow
async def test_closing_ends_work_and_what_waits_for_it(processes: BoundedProcesses):
    tasks = [asyncio.ensure_future(processes.run(use_processor, seconds=1000)) for _ in range(3)]
    await until(lambda: len(processes._waiting) == 2)
    processes.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [ReadingStopped] * 3


OUTLIVED = """
import asyncio, os, signal
from llmcrawler.core.processes.bounded_processes import BoundedProcesses
async def main():
    processes = BoundedProcesses(count=1)
    print(await processes.run(os.getpid, seconds=10), await processes.run(os.getppid, seconds=10), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_the_processes_end_with_a_killed_crawl():
    """They hold the other end of its output: reading that to its end takes until the last of them is gone."""
    command = [sys.executable, "-c", OUTLIVED]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=60).returncode == -signal.SIGKILL


async def test_the_event_loop_does_not_wait_until_a_process_that_was_ended_is_gone(monkeypatch):
    waited = []
    wait = subprocess.Popen.wait

    def noted(self, *arguments):
        waited.append(threading.current_thread())
        return wait(self, *arguments)

    processes = BoundedProcesses()
    await processes.run(abs, -1, seconds=60)
    monkeypatch.setattr(subprocess.Popen, "wait", noted)
    (process,) = processes._all
    processes.close()
    for thread in [one for one in threading.enumerate() if one.name == "reaper"]:
        thread.join(60)
    assert process._supervisor._forker.process.returncode is not None
    assert waited
    assert threading.main_thread() not in waited


async def test_long_arguments_arrive_as_they_were(processes: BoundedProcesses) -> None:
    body, text = os.urandom(2 * MB), "a\ud800\U0001f600é" * MB
    assert await processes.run(told, body, text, 1, seconds=5.0) == (body, text[:5], 4 * MB + 1)
    assert await processes.run(told, b"", "short", 1, seconds=5.0) == (b"", "short", 6)


def test_long_arguments_are_copied_once_at_most() -> None:
    body, text = b"x" * (20 * MB), "\ufffd" * (2 * MB)  # 6 MB of UTF-8
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        parts = packed(5.0, told, (body, text, 1))
        after, peak = tracemalloc.get_traced_memory()
        assert peak - before < 7 * MB
        del parts
        assert tracemalloc.get_traced_memory()[0] - before < MB < after - before
    finally:
        tracemalloc.stop()
