"""The watchdog of an event loop, on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from llmcrawler.engine.loop_watchdog import LoopHold, LoopWatchdog, StackSample, note_url

LIMIT_SECONDS = 0.05


URL = "http://user:secret@shop.example/slow"


def burn(cpu_seconds: float) -> None:
    until = time.thread_time() + cpu_seconds
    while time.thread_time() < until:
        pass


async def slow_step(watchdog: LoopWatchdog) -> None:
    note_url(URL)
    await asyncio.sleep(0)  # another turn of the same task
    burn(3 * LIMIT_SECONDS)
    while not watchdog.looks:  # its thread may be kept waiting by others
        pass


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def watched(request):
    def run(main: Callable[[LoopWatchdog], Awaitable[None]]) -> tuple[list[LoopHold], LoopWatchdog]:
        holds: list[LoopHold] = []
        watchdog = LoopWatchdog(LIMIT_SECONDS, "tests", holds.append, lambda *_: None)

        async def watch() -> None:
            watchdog.install(asyncio.get_running_loop())
            try:
                await asyncio.sleep(0)  # what was scheduled before is behind us
                await main(watchdog)
                await asyncio.sleep(0)  # a turn is measured when it has ended
            finally:
                watchdog.remove()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(watch())
        return holds, watchdog

    return run


def test_a_step_that_holds_the_loop_is_named_with_its_url(watched):
    async def main(watchdog: LoopWatchdog) -> None:
        await asyncio.create_task(slow_step(watchdog))

    holds, watchdog = watched(main)
    (hold,) = [one for one in holds if one.cpu_seconds >= 3 * LIMIT_SECONDS]
    assert hold.seen.place in (f"{__name__}.burn", f"{__name__}.slow_step")
    assert hold.seconds >= hold.cpu_seconds
    assert hold.seen.url == "http://shop.example/slow"
    assert watchdog.max_seconds >= hold.seconds
    assert watchdog.share_within(0.99) >= 100


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
def test_a_call_that_blocks_without_using_the_processor_is_a_hold(watched):
    async def main(_: LoopWatchdog) -> None:
        time.sleep(4 * LIMIT_SECONDS)  # noqa: ASYNC251 - as a blocking look-up of a name does

    holds, _ = watched(main)
    assert max(one.seconds for one in holds) >= 3 * LIMIT_SECONDS


def test_waiting_for_a_processor_is_no_hold(watched, monkeypatch):
    """As when other processes have it: the kernel's count says so."""
    monkeypatch.setattr("llmcrawler.engine.loop_watchdog._QueueTime.since", lambda self, began: 1000.0)

    async def main(_: LoopWatchdog) -> None:
        time.sleep(4 * LIMIT_SECONDS)  # noqa: ASYNC251

    holds, _ = watched(main)
    assert not holds  # it used no processor


def test_a_turn_that_does_not_end_is_said_while_it_lasts(monkeypatch):
    monkeypatch.setattr("llmcrawler.engine.loop_watchdog._HANG_SECONDS", 0.1)
    said, is_said = [], threading.Event()

    def on_hang(seconds: float, seen: StackSample) -> None:
        said.append((seconds, seen))
        is_said.set()

    async def main() -> None:
        watchdog = LoopWatchdog(0.01, "tests", lambda hold: None, on_hang)
        watchdog.install(asyncio.get_running_loop())
        try:
            await asyncio.create_task(hang())
        finally:
            watchdog.remove()

    async def hang() -> None:
        note_url(URL)
        assert is_said.wait(60)

    asyncio.run(main())
    ((seconds, seen),) = said
    assert seconds > 0.1
    assert "hang" in seen.place
    assert seen.url == "http://shop.example/slow"


@pytest.mark.slow
def test_another_thread_that_is_busy_is_named_beside_the_turn(watched):
    over: list[bool] = []

    def busy() -> None:
        while not over:
            pass

    async def main(watchdog: LoopWatchdog) -> None:
        thread = threading.Thread(target=busy)
        thread.start()
        await asyncio.create_task(slow_step(watchdog))
        over.append(True)
        thread.join()

    holds, _ = watched(main)
    assert any(one.seen.beside and one.seen.beside.endswith(".busy") for one in holds)


def test_a_removed_watchdog_leaves_the_loop_as_it_was(watched):
    loops = []

    async def noted(_: LoopWatchdog) -> None:
        loops.append(asyncio.get_running_loop())

    watched(noted)
    (loop,) = loops
    assert not [name for name in ("call_soon", "call_later", "call_at", "add_reader") if name in vars(loop)]
