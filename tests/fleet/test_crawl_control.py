"""Crawls in a real Redis are listed, paused, resumed and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.llm.budget import BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.storage import Outcome
from llmcrawler.errors import ConfigError, StorageFailed
from llmcrawler.fleet.connection import CRAWLS, FORMAT, RedisConnection, key_prefix
from llmcrawler.fleet.crawl_control import crawl_names, delete, distributed_status, pause, resume
from llmcrawler.fleet.model_limits import SharedAnswers, SharedLimits
from tests.core.frontier.test_frontier import MANY, task
from tests.fleet.sessions import session_at
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server


def begin(server: RedisServer, crawl_id: str, **more: str) -> None:
    """Have a crawl in Redis, as its first worker does."""
    spec = '{"spider": "explore", "arguments": {"url": ["x"]}}'
    fields = {"spec": spec, "started": "1", "format": str(FORMAT), "id": "one", "state": "running", **more}
    with server.client() as client:
        client.hset(f"{key_prefix(crawl_id)}:meta", mapping=fields)
        client.sadd(CRAWLS, crawl_id)


def keys_of(server: RedisServer, crawl_id: str) -> list[bytes]:
    with server.client() as client:
        found: Any = client.keys(f"{key_prefix(crawl_id)}:*")
        return list(found)


async def fill(server: RedisServer, folder: Path) -> None:
    """Have something under every key that workers of the crawl `folder.name` can make, and a worker that is there."""
    session, left = (session_at(server.url, folder.name, name) for name in ("w1", "w2"))
    frontier, connection = session.frontier, session.connection
    await session.beat(joins=True, pages_a_minute=60.0)
    await frontier.open()
    await frontier.add([task("/1"), task("/2", priority=3), task("/3", host="b.example"), task("/4", host="c.example")])
    full = [part for key in range(600) for part in (7, key, "d.example\ngroup", 0, "{}")]
    await connection.run("add", "w1", 9, *full)  # more than a bucket of `seen` holds
    await frontier.set_priorities({"group": 1})
    leases = await frontier.lease(MANY, {}, 1)
    await frontier.start(leases[0].url)
    await frontier.ack(leases[0].url, Outcome({"error": {"stage": "fetch", "kind": "http_404"}}, {}, is_dead=True))
    await frontier.release(leases[1].url)
    await frontier.reserve_target("https://a.example/target", "https://a.example/1")
    await left.beat(joins=True)
    await left.close("shutdown")
    await session.keep({}, {"a.example": {"a.example": {"window": 2.0}}})
    await SharedAnswers(connection, None).put("key", "value")
    calls = CallLimits(requests_per_minute=10, tokens_per_minute=10)
    limits = SharedLimits(connection, calls, BudgetLimits(max_tokens=100))
    await limits.take(1, 0.1)
    await limits.admit(1)
    await connection.evaluate("redis.call('SET', KEYS[1] .. ':llm:paused_until', 1)")
    await frontier.close()


async def test_a_crawl_that_is_deleted_leaves_no_key_and_others_keep_theirs(server, tmp_path):
    crawl = tmp_path.name
    begin(server, crawl)
    begin(server, "other")
    await fill(server, tmp_path)
    others = keys_of(server, "other")
    with pytest.raises(ConfigError, match=r"has workers \(w1\)"):
        delete(server.url, crawl, is_forced=False)
    worker = RedisConnection(server.url, crawl, "w1")
    worker.identity = "one"
    count = len(keys_of(server, crawl))
    deleted = delete(server.url, crawl, is_forced=True)
    assert (deleted.workers, deleted.queued, deleted.keys) == (("w1",), 603 - 2, count)
    assert keys_of(server, crawl) == []
    with pytest.raises(StorageFailed, match="it was deleted"):
        await worker.put("answers", {"a": "b"})
    await worker.close()
    assert keys_of(server, crawl) == []
    assert (keys_of(server, "other"), len(others)) == (others, 1)
    assert crawl not in crawl_names(server.url)
    with pytest.raises(ConfigError, match=f"no crawl {crawl}"):
        delete(server.url, crawl, is_forced=True)


async def test_a_deletion_that_was_interrupted_goes_on(server, tmp_path):
    crawl = tmp_path.name
    begin(server, crawl, state="deleting")
    await fill(server, tmp_path)
    assert distributed_status(server.url, crawl).state == "deleting"
    assert delete(server.url, crawl, is_forced=False).workers == ()
    assert keys_of(server, crawl) == []


async def test_of_a_paused_crawl_nothing_is_leased_until_it_is_resumed(server, tmp_path):
    crawl = tmp_path.name
    begin(server, crawl)
    session = session_at(server.url, crawl, "w1")
    frontier = session.frontier
    await frontier.open()
    await frontier.add([task("/1")])
    assert not (await session.beat(joins=True)).is_paused
    assert [pause(server.url, crawl) for _ in range(2)] == [True, False]
    assert await frontier.lease(MANY, {}, MANY) == []
    assert (await session.beat()).is_paused
    assert distributed_status(server.url, crawl).state == "paused"
    assert [resume(server.url, crawl) for _ in range(2)] == [True, False]
    assert not (await session.beat()).is_paused
    assert len(await frontier.lease(MANY, {}, MANY)) == 1
    await frontier.close()


def test_a_crawl_that_is_over_can_be_neither_paused_nor_resumed(server):
    begin(server, "over", state="finished")
    for change in (pause, resume):
        with pytest.raises(ConfigError, match="it is finished"):
            change(server.url, "over")


def test_what_the_server_does_not_allow_is_said(server):
    begin(server, "locked")
    with server.client() as client:
        client.acl_setuser(
            "reader", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@read", "+@connection"]
        )
        client.acl_setuser("reader", enabled=True, commands=["+info", "+ping"])
    with pytest.raises(ConfigError, match="the command failed there") as error:
        pause(server.url.replace("://", "://reader:secret@"), "locked")
    assert "secret" not in str(error.value)


def test_keys_of_another_version_are_refused_with_the_cure(server):
    begin(server, "old")
    with server.client() as client:
        client.hdel(f"{key_prefix('old')}:meta", "format")
        client.zadd(f"{key_prefix('old')}:turns", {"a.example\n": 1})
    cure = rf"format unknown, .* format {FORMAT}\. .* another CRAWL_ID, .*delete --force REDIS_URL old"
    for what in (distributed_status, pause, resume, lambda url, name: delete(url, name, is_forced=False)):
        with pytest.raises(ConfigError, match=cure):
            what(server.url, "old")
    assert "old" in crawl_names(server.url)
    assert delete(server.url, "old", is_forced=True).keys == 2
    assert keys_of(server, "old") == []


async def test_the_crawls_of_a_redis_are_listed_and_have_workers_and_rates(server, tmp_path):
    begin(server, tmp_path.name)
    await fill(server, tmp_path)
    assert tmp_path.name in crawl_names(server.url)
    status = distributed_status(server.url, tmp_path.name)
    assert status.pages_a_minute == 60.0
    assert status.waiting == len(status.waiting_sites)
    owned = [site for worker in status.workers for site in worker.sites]
    assert {*owned, *status.waiting_sites} == {"a.example", "b.example", "c.example", "d.example"}
