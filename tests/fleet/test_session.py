"""When a worker may ask a host, against a real Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.errors import StorageFailed
from llmcrawler.fleet.session import DistributedSession
from tests.fleet.sessions import session_at
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server
GAP_SECONDS = 0.2
HOST = "a.example"
URL = f"http://{HOST}/"


@pytest.fixture
def server(tmp_path):
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture
async def both(server) -> AsyncIterator[tuple[DistributedSession, DistributedSession]]:
    owner, other = (session_at(server.url, "crawl", lease_seconds=20) for _ in range(2))
    for one in (owner, other):
        await one.open()
    await owner.frontier.add([UrlTask(URL, HOST)])
    assert len(await owner.frontier.lease(1, {}, 1)) == 1
    yield owner, other
    for one in (owner, other):
        await one.close("shutdown")


async def test_a_worker_asks_the_host_of_another_one_once_that_knows_and_both_keep_the_gap(both):
    owner, other = both
    assert owner.frontier.holds(URL)
    asking = asyncio.ensure_future(other.may_start(HOST, None, GAP_SECONDS))
    await asyncio.wait([asking], timeout=0.5)
    assert (await owner.beat()).guests == {HOST}
    await asyncio.wait([asking], timeout=0.5)
    assert not asking.done()  # its own worker has not been heard of since
    assert (await other.beat()).guests == {HOST}
    assert await asyncio.wait_for(asking, 20)
    asked = time.monotonic()
    assert await owner.may_start(HOST, None, GAP_SECONDS)
    assert await other.may_start(HOST, None, GAP_SECONDS)
    assert time.monotonic() - asked >= GAP_SECONDS - 0.001  # Redis counts milliseconds


async def test_who_waits_to_know_whether_it_was_taken_for_gone_hears_that_redis_is_lost(server):
    lone = session_at(server.url, "crawl", lease_seconds=0.2)
    await lone.open()
    await asyncio.sleep(0.3)  # longer than a lease
    asking = asyncio.ensure_future(lone.may_start(HOST, None, 0))
    server.stop()
    beating = asyncio.ensure_future(lone.beat())
    await asyncio.wait([asking], timeout=0.3)
    assert not asking.done()
    lone.leave()
    lone.connection._patience = (0.0, 0.0)
    for waiting in (asking, beating):
        with pytest.raises(StorageFailed):
            await asyncio.wait_for(waiting, 20)
    await lone.connection.close()
