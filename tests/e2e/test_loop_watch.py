"""The watch over an event loop, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop

from tests.e2e.loop_watch import LoopWatchdog

LIMIT_SECONDS = 0.05


class Hold(NamedTuple):
    place: str
    seconds: float
    cpu_seconds: float
    wall_seconds: float


def burn(cpu_seconds: float) -> None:
    until = time.thread_time() + cpu_seconds
    while time.thread_time() < until:
        pass


async def slow_step(watchdog: LoopWatchdog) -> None:
    burn(3 * LIMIT_SECONDS)
    while not watchdog.looks:  # its thread may be kept waiting by others
        pass


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def watched(request):
    def run(main: Callable[[LoopWatchdog], Awaitable[None]]) -> tuple[list[Hold], LoopWatchdog]:
        holds: list[Hold] = []
        watchdog = LoopWatchdog(LIMIT_SECONDS, "tests", lambda *hold: holds.append(Hold(*hold)))

        async def watch() -> None:
            loop = asyncio.get_running_loop()
            watchdog.install(loop)
            try:
                await asyncio.sleep(0)  # what was scheduled before is behind us
                await main(watchdog)
                await asyncio.sleep(0)  # a turn is measured when it has ended
            finally:
                watchdog.remove()
            assert not [name for name in ("call_soon", "call_later", "call_at", "add_reader") if name in vars(loop)]

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(watch())
        return holds, watchdog

    return run


def test_a_step_that_holds_the_loop_is_named(watched):
    async def main(watchdog: LoopWatchdog) -> None:
        await asyncio.create_task(slow_step(watchdog))

    holds, watchdog = watched(main)
    (hold,) = [one for one in holds if one.cpu_seconds >= 3 * LIMIT_SECONDS]
    assert hold.place in (f"{__name__}.burn", f"{__name__}.slow_step")
    assert hold.seconds >= hold.cpu_seconds
    figures = watchdog.figures()
    assert figures["max_hold_seconds"] >= round(hold.seconds, 4)
    assert figures["p99_hold_ms"] >= 100


@pytest.mark.slow
@pytest.mark.parametrize("way", ["call_soon", "call_later", "call_at", "call_soon_threadsafe"])
def test_callbacks_are_turns_however_they_were_scheduled(watched, way):
    async def main(_: LoopWatchdog) -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        when = {"call_later": (0.001,), "call_at": (loop.time() + 0.001,)}.get(way, ())

        def callback(seconds: float) -> None:
            burn(seconds)
            done.set()

        getattr(loop, way)(*when, callback, 2 * LIMIT_SECONDS)
        await done.wait()

    holds, _ = watched(main)
    assert len([one for one in holds if one.cpu_seconds >= 2 * LIMIT_SECONDS]) == 1


def test_many_short_steps_are_no_hold(watched):
    async def main(_watchdog: LoopWatchdog) -> None:
        for _ in range(40):
            burn(LIMIT_SECONDS / 10)
            await asyncio.sleep(0)

    holds, watchdog = watched(main)
    assert not [one for one in holds if one.cpu_seconds > LIMIT_SECONDS]
    assert watchdog.durations.total() >= 40


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the kernel does not count waiting")
@pytest.mark.parametrize("others_have_the_processor", [False, True])
def test_a_call_that_blocks_is_a_hold_and_waiting_for_a_processor_is_none(
    watched, monkeypatch, others_have_the_processor
):
    if others_have_the_processor:
        monkeypatch.setattr("tests.e2e.loop_watch._QueueTime.since", lambda self, began: 1000.0)

    async def main(_: LoopWatchdog) -> None:
        time.sleep(4 * LIMIT_SECONDS)  # noqa: ASYNC251 - as a blocking look-up of a name does

    holds, _ = watched(main)
    longest = max((one.seconds for one in holds), default=0.0)
    assert longest == 0 if others_have_the_processor else longest >= 3 * LIMIT_SECONDS
