"""Large bodies wait for each other, and each comes in the end."""

from __future__ import annotations

import asyncio

import pytest

from llmcrawler.core.content.body_limiter import BodyLimiter

MB = 2**20


class Flow:
    def __init__(self, intake: BodyLimiter) -> None:
        self.intake = intake
        self.received = 0
        self.is_paused = False
        self.resumed = asyncio.Event()

    def pause(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume(self) -> None:
        assert self.is_paused
        self.is_paused = False
        self.resumed.set()

    def take(self, megabytes: int) -> None:
        assert not self.is_paused
        self.received += megabytes * MB
        self.intake.note(self, self.received)


class Crawl:
    def __init__(self, limit_megabytes: int) -> None:
        self.there = 0
        self.intake = BodyLimiter(limit_megabytes * MB, lambda: self.there)

    def flows(self, count: int) -> list[Flow]:
        return [Flow(self.intake) for _ in range(count)]


@pytest.fixture
async def crawl() -> Crawl:
    return Crawl(20)


async def test_bodies_that_have_room_do_not_wait(crawl):
    flows = crawl.flows(4)
    for flow in flows * 2:
        flow.take(2)
    assert not any(flow.is_paused for flow in flows)


async def test_where_there_is_no_room_the_first_goes_on_alone(crawl):
    first, second, third = crawl.flows(3)
    for flow in (first, second, third):
        flow.take(7)
    assert [flow.is_paused for flow in (first, second, third)] == [False, False, True]
    first.take(7)
    second.take(1)
    assert [flow.is_paused for flow in (first, second, third)] == [False, True, True]
    crawl.intake.end(first)
    assert not second.is_paused
    assert not third.is_paused  # 15 MB of 20


async def test_bodies_that_are_there_take_room_until_their_pages_are_through(crawl):
    (flow,) = crawl.flows(1)
    crawl.there = 21 * MB
    flow.take(2)
    assert flow.is_paused
    crawl.there = 0
    await flow.resumed.wait()
    flow.take(18)
    assert not flow.is_paused


async def test_a_body_that_was_given_up_is_not_resumed(crawl):
    first, second, third = crawl.flows(3)
    first.take(15)
    second.take(15)
    third.take(15)
    assert second.is_paused
    crawl.intake.end(second)
    crawl.intake.end(second)
    crawl.intake.end(first)
    assert second.is_paused
    assert not third.is_paused


async def test_few_are_unpacked_at_once_and_all_in_the_end(crawl):
    at_once, most, done = 0, 0, []

    async def unpack(number: int) -> None:
        nonlocal at_once, most
        async with crawl.intake.unpacking(8 * MB):
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
            done.append(number)

    await asyncio.gather(*map(unpack, range(20)))
    assert most == 2
    assert sorted(done) == list(range(20))


async def test_one_that_is_larger_than_all_room_is_unpacked_alone(crawl):
    async with crawl.intake.unpacking(50 * MB):
        waiting = asyncio.ensure_future(crawl.intake.unpacking(MB).__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_who_stops_waiting_takes_no_turn(crawl):
    async with crawl.intake.unpacking(20 * MB):
        gone = asyncio.ensure_future(crawl.intake.unpacking(MB).__aenter__())
        stays = asyncio.ensure_future(crawl.intake.unpacking(MB).__aenter__())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert gone.cancelled()
        assert not stays.done()
    await stays
