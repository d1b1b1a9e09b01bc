"""What the workers of one crawl share, against a real Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest
from redis.exceptions import ResponseError

from llmcrawler.core.frontier import Counts
from llmcrawler.core.llm import Budget, BudgetLimits, Tokens
from llmcrawler.core.storage import Outcome, RightsCounts, SiteState
from llmcrawler.errors import BudgetSpent, ConfigError, StorageFailed
from llmcrawler.fleet.connection import FORMAT, RedisConnection, check_redis, check_server, shown
from llmcrawler.fleet.crawl_control import distributed_status
from llmcrawler.fleet.model_limits import SharedAnswers, SharedBudget, SharedRate
from llmcrawler.fleet.redis_frontier import RedisFrontier
from llmcrawler.fleet.session import SiteOwnership, WorkerHeartbeats, WorkerReport, take_turn
from tests.core.frontier.test_frontier import MANY, redis, task
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def connections(server, tmp_path) -> AsyncIterator[list[RedisConnection]]:
    both = [RedisConnection(server.url, tmp_path.name, name) for name in ("w1", "w2")]
    yield both
    for one in both:
        await one.close()


# -- the model ----------------------------------------------------------------------------------------------------


async def test_answers_of_the_model_are_everybodys(connections):
    one, other = (SharedAnswers(connection, None) for connection in connections)
    await one.put("key", ["product", 0.9])
    assert [await other.get(key) for key in ("key", "none")] == [["product", 0.9], None]


async def test_the_models_limits_a_minute_are_those_of_all_workers(connections):
    one, other = (SharedRate(connection, 3, 1000) for connection in connections)
    first = await one.admit(400)
    one.settle(first, 100)
    await other.admit(100)
    await one.admit(100)
    waiting = asyncio.ensure_future(other.admit(10))  # the fourth in this minute
    _, pending = await asyncio.wait([waiting], timeout=0.2)
    assert pending
    waiting.cancel()


async def test_tokens_of_all_workers_count_and_a_server_that_asks_to_wait_is_left_alone_by_all(connections):
    one, other = (SharedRate(connection, 0, 1000) for connection in connections)
    await one.admit(900)
    await asyncio.wait_for(other.admit(50), 20)
    waiting = asyncio.ensure_future(other.admit(200))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    waiting.cancel()
    third = SharedRate(connections[1], 0, 0)
    one.hold(30)
    await asyncio.gather(*one._posted)
    waiting = asyncio.ensure_future(third.admit(1))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    waiting.cancel()


# -- workers ----------------------------------------------------------------------------------------------------------


async def test_lines_of_a_worker_that_is_gone_go_to_another_one(connections, server, tmp_path):
    frontier = redis(tmp_path, None, server.url, "w1", make_safe=list)
    await frontier.open()
    await frontier.add([task("/1")])
    await frontier.lease(MANY, {}, MANY)
    await frontier.ack("https://a.example/1", Outcome({"url": "https://a.example/1"}, {}))
    workers = WorkerHeartbeats(connections[1], 10)
    assert await workers.inherit("w1") is None  # it is there
    await be_silent(connections[0])
    left = await workers.inherit("w1")
    assert left is not None
    assert list(left[0]) == ["https://a.example/1"]
    assert await workers.inherit("w1") is None
    await workers.drop_lines(["https://a.example/1"])
    assert await connections[1].client.hlen(f"{connections[1].prefix}:lines:w2") == 0
    await frontier.close()


async def be_silent(connection: RedisConnection) -> None:
    """Have the worker's last heartbeat long ago, and another worker's just now."""
    await connection.client.zadd(f"{connection.prefix}:workers", {connection.worker: 1.0})
    await connection.client.set(f"{connection.prefix}:beat_at", 1e12)
    await connection.client.delete(f"{connection.prefix}:grace_until")


def beat_of(connection: RedisConnection, *, joins: bool = False) -> Any:
    return WorkerHeartbeats(connection, 10).beat(WorkerReport(connection.worker, "m", 1, 2.0), joins=joins)


async def test_a_worker_that_was_taken_for_gone_hears_so_and_may_join_again(connections):
    one, other = connections
    assert (await beat_of(one, joins=True)).is_member
    assert not (await beat_of(other)).is_member
    await beat_of(other, joins=True)
    await be_silent(one)
    assert (await beat_of(other)).gone == ("w1",)
    await WorkerHeartbeats(other, 10).inherit("w1")
    assert not (await beat_of(one)).is_member
    assert (await beat_of(one, joins=True)).is_member
    assert not await one.client.exists(f"{one.prefix}:lost")


async def test_nobody_is_gone_where_the_server_itself_stood_still(connections):
    """Then no heartbeat at all was heard: what waited to be said is only now being read."""
    one, other = connections
    await beat_of(one, joins=True)
    await beat_of(other, joins=True)
    name = f"{one.prefix}:workers"
    await one.client.zadd(name, {"w1": 1.0, "w2": 1.0})
    await one.client.set(f"{one.prefix}:beat_at", 1.0)
    assert await WorkerHeartbeats(other, 10).inherit("w1") is None
    assert (await beat_of(other)).gone == ()
    assert (await beat_of(one)).is_member
    assert await one.client.zcount(name, 2, "+inf") == 2


async def test_a_worker_with_less_to_do_gets_a_site_that_another_one_has_not_begun(connections, server, tmp_path):
    one, other = connections
    first, second = (redis(tmp_path, None, server.url, name) for name in ("w1", "w2"))
    await first.open()
    await first.add(task(f"/{n}", host=host) for n in range(3) for host in ("a.example", "b.example", "c.example"))
    begun = [lease.task.host for lease in await first.lease(2, {}, 1)]
    full = dict.fromkeys(("a.example", "b.example", "c.example"), MANY)
    assert await leased_hosts(first, full) == set()  # it claims the third one, too
    await second.open()
    assert await second.lease(MANY, {}, MANY) == []  # so it is known that it could do more
    leaving = (await beat_of(one)).leaving
    assert {*begun, *leaving} == {"a.example", "b.example", "c.example"}
    assert (await beat_of(one)).leaving == leaving  # until it is given up, and no other one
    assert await leased_hosts(first) == set(begun)
    assert await second.lease(MANY, {}, MANY) == []
    await SiteOwnership(one).free(leaving[0])
    assert await leased_hosts(second) == set(leaving)
    assert (await beat_of(one)).leaving == () == (await beat_of(other)).leaving
    await first.close()
    await second.close()


async def test_what_was_learned_of_a_finished_site_is_for_who_takes_over_from_its_owner(connections, server, tmp_path):
    frontier = redis(tmp_path, None, server.url, "w1")
    await frontier.open()
    await frontier.add([task("/1"), task("/2", host="b.example")])
    for lease in await frontier.lease(MANY, {}, MANY):
        await frontier.ack(lease.url)
    one, other = map(SiteOwnership, connections)
    await one.read("a.example", "https://a.example")
    await one.keep({"a.example": SiteState([], {"grouping": 1})})  # nothing of the other one
    await beat_of(connections[1], joins=True)
    await be_silent(connections[0])
    left = await WorkerHeartbeats(connections[1], 10).inherit("w1")
    assert left is not None
    assert tuple(left[1]) == ("a.example",)
    kept = await other.read("a.example")
    assert (kept.learned, kept.origin) == ({"templates": [], "state": {"grouping": 1}}, "https://a.example")
    client, prefix = connections[0].client, connections[0].prefix
    assert await client.hgetall(f"{prefix}:owners") == {b"a.example": b"w2"}
    await frontier.close()


async def test_workers_hear_of_a_silent_one_and_of_start_urls_that_were_redirected(connections):
    one, other = connections
    await beat_of(one, joins=True)
    heartbeats = WorkerHeartbeats(other, 10)
    report = WorkerReport("w2", "m", 1, 2.0)
    assert (await heartbeats.beat(report, joins=True)).silent == 0
    await WorkerHeartbeats(one, 10).widen("https://b.example/")
    assert (await heartbeats.beat(report)).widening == ("https://b.example/",)
    await be_silent(one)
    heard = await heartbeats.beat(report)
    assert (heard.widening, heard.silent) == ((), 1)
    assert (await beat_of(one)).widening == ("https://b.example/",)  # a new one is told all


async def test_a_host_is_asked_in_turns_once_all_have_heard_of_a_guest(connections):
    one, other = connections
    await beat_of(one, joins=True)
    await beat_of(other, joins=True)
    began = time.monotonic()
    asking = asyncio.ensure_future(take_turn(other, "a.example", 0.3, is_guest=True))
    await asyncio.wait([asking], timeout=0.5)
    assert (await beat_of(one)).guests == {"a.example"}
    await asyncio.wait([asking], timeout=0.5)
    assert not asking.done()  # its own worker has not been heard of since
    assert (await beat_of(other)).guests == {"a.example"}
    await asyncio.wait_for(asking, 20)
    asked = time.monotonic()
    assert asked - began >= 0.3
    await take_turn(one, "a.example", 0.3, is_guest=False)
    await take_turn(other, "a.example", 0.0, is_guest=True)
    assert time.monotonic() - asked >= 0.299  # Redis counts milliseconds
    await asyncio.wait_for(take_turn(one, "b.example", 30, is_guest=False), 20)


async def leased_hosts(frontier: RedisFrontier, held: Mapping[str, int] | None = None) -> set[str]:
    return {lease.task.host for lease in await frontier.lease(MANY, held or {}, MANY)}


async def test_status_shows_the_workers_their_leases_and_the_hosts(connections, server, tmp_path):
    connection = connections[0]
    spec = '{"spider": "explore", "arguments": {"url": ["x"]}}'
    await connection.put("meta", {"spec": spec, "started": "1", "format": str(FORMAT), "state": "running"})
    frontier = redis(tmp_path, None, server.url, "w1")
    await frontier.open()
    await frontier.add([task("/1"), task("/2"), task("/3"), task("/4", host="b.example")])
    await frontier.lease(2, {}, 1)
    await frontier.ack(
        "https://b.example/4", Outcome({"error": {"stage": "fetch", "kind": "http_404"}}, {}, is_dead=True)
    )
    marks = {"signals/rsl": 3, "noindex": 1}
    heartbeats = WorkerHeartbeats(connection, 10)
    await heartbeats.beat(WorkerReport("w1", "m", 1, 2.0, pages=7, leases=1, rights=marks), joins=True)
    await SiteOwnership(connection).keep({}, {"a.example": {"a.example": {"window": 2.0, "cooldown": 500.0}}})
    await WorkerHeartbeats(connections[1], 10).leave(WorkerReport("w2", "m", 2, 2.0, rights={"signals/rsl": 1}))
    status = distributed_status(server.url, tmp_path.name)
    assert (status.state, status.urls) == ("running", {"leased": 1, "queued": 2, "done": 0, "dead": 1, "duplicates": 0})
    shown = [(one.report.worker, one.report.pages, one.state, one.report.leases, one.sites) for one in status.workers]
    assert shown == [("w1", 7, "here", 1, ("a.example",)), ("w2", 0, "left", 0, ())]
    assert [one.ended is None for one in status.workers] == [True, False]
    assert status.rights == RightsCounts(signals={"rsl": 4}, noindex=1)
    hosts = [(one.host, one.queued, one.dead, one.owner, one.window, one.rest_seconds > 400) for one in status.hosts]
    assert hosts == [("a.example", 2, 0, "w1", 2.0, True), ("b.example", 0, 1, "w1", None, False)]
    assert status.dead_letters == (("fetch/http_404", "https://b.example/4"),)
    await frontier.close()


# -- Redis itself -----------------------------------------------------------------------------------------------------


async def test_a_redis_that_goes_away_is_waited_for_and_all_is_there_when_it_is_back(tmp_path, caplog):
    with RedisServer(tmp_path) as server:
        frontier = redis(tmp_path, None, server.url)
        await frontier.open()
        await frontier.connection.put("meta", {"spec": "{}"})
        await frontier.add([task("/1"), task("/2")])
        server.stop()
        waiting = asyncio.ensure_future(frontier.lease(MANY, {}, MANY))
        _, pending = await asyncio.wait([waiting], timeout=0.3)
        assert pending
        assert "is away" in caplog.text
        server.start()
        leases = await asyncio.wait_for(waiting, 20)
        assert [lease.url for lease in leases] == ["https://a.example/1", "https://a.example/2"]
        await frontier.close()


@pytest.mark.parametrize(
    "words",
    [
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Errors writing to the AOF file: No space left on device",
        "NOREPLICAS Not enough good replicas to write.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        "ERR Error running script (call to f_1): @user_script:4: @user_script: 4: -OOM command not allowed",  # 6.2
    ],
)
async def test_a_redis_that_cannot_write_for_now_is_waited_for(connections, words):
    connection = connections[0]
    await connection.put("meta", {"spec": "{}"})
    once = "if redis.call('INCR', KEYS[1] .. ':asked') == 1 then return redis.error_reply(ARGV[1]) end return 'done'"
    assert await connection.evaluate(once, words) == b"done"


async def test_a_mistake_of_ours_is_not_waited_for(connections):
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await connections[0].evaluate("redis.call('SET', KEYS[1], 1) return redis.call('HGET', KEYS[1], 'a')")


async def test_a_worker_that_ends_does_not_wait_long_for_a_redis_that_is_away(tmp_path):
    failures: list[StorageFailed] = []
    with RedisServer(tmp_path) as server:
        connection = RedisConnection(server.url, "crawl", "w1", on_failure=failures.append)
        await connection.put("meta", {"spec": "{}"})
        server.stop()
        waiting = asyncio.ensure_future(connection.evaluate("return 1"))
        _, pending = await asyncio.wait([waiting], timeout=0.3)
        assert pending
        connection.stop_waiting(0.2)
        with pytest.raises(StorageFailed, match="is away"):
            await asyncio.wait_for(waiting, 20)
        assert (len(failures), connection.failure) == (1, failures[0])
        await connection.close()


async def test_links_that_a_failover_has_lost_are_queued_again_before_their_page_is_done(connections, server, tmp_path):
    """The replica had not heard of them; what it has of the crawl is older, and whole."""
    frontier, client = redis(tmp_path, None, server.url, "w1"), connections[0].client
    await frontier.open()
    await frontier.add([task("/page")])
    await frontier.lease(MANY, {}, MANY)
    of_the_replica = {name: await client.dump(name) for name in await client.keys(f"{connections[0].prefix}:*")}
    await frontier.add([task("/link"), task("/other")])
    await client.delete(*await client.keys(f"{connections[0].prefix}:*"))
    for name, value in of_the_replica.items():
        await client.restore(name, 0, value)
    assert await frontier.ack("https://a.example/page")
    assert frontier.counts() == Counts(queued=2, done=1)
    assert await frontier.refresh() == Counts(queued=2, done=1)
    await frontier.close()


async def test_a_budget_is_one_for_all_workers(connections):
    limits = BudgetLimits(max_tokens=1000)
    one, other = Budget(limits), Budget(limits)
    for budget, connection in zip((one, other), connections, strict=True):
        budget.share(SharedBudget(connection, limits.max_tokens, limits.max_cost_usd))
    async with one.call(100, 300) as call:  # twice the estimate is held, and one token: 501
        with pytest.raises(BudgetSpent, match="501 of LLM_MAX_TOKENS=1,000"):
            async with other.call(100, 300):
                pass
        call.settle(Tokens(100, 200))
    async with other.call(100, 300) as call:
        pass  # it may have been answered, so all that was held is paid
    with pytest.raises(BudgetSpent, match="801 of"):
        async with one.call(100, 300):
            pass
    assert (one.spent.tokens, other.spent.tokens) == (300, 501)


async def test_a_redis_that_comes_back_without_the_crawl_ends_it(tmp_path):
    failures: list[StorageFailed] = []
    with RedisServer(tmp_path, "--appendonly", "no") as server:
        connection = RedisConnection(server.url, "crawl", "w1", on_failure=failures.append)
        await connection.put("meta", {"spec": "{}"})
        server.stop()
        server.start()
        with pytest.raises(StorageFailed, match="appendonly"):
            await connection.evaluate("return 1")
        assert len(failures) == 1
        await connection.close()


async def test_a_crawl_of_the_same_name_that_began_anew_is_another_one(connections):
    await connections[0].put("meta", {"spec": "{}", "id": "new"})
    connections[0].identity, connections[1].identity = "new", "old"
    assert await connections[0].evaluate("return 1") == 1
    with pytest.raises(StorageFailed, match="without the crawl"):
        await connections[1].evaluate("return 1")
    assert connections[1].failure is not None


def test_what_no_crawl_could_be_kept_in_is_said_at_the_start(tmp_path, server):
    for url, words in (
        ("redis://127.0.0.1:1", "no Redis answers there"),
        ("http://127.0.0.1", "redis://"),
        (server.url.replace("/0", "/99"), "DB index"),
    ):
        with pytest.raises(ConfigError, match=words):
            check_redis(url, "crawl")
    with RedisServer(tmp_path, "--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru") as forgetful:
        with pytest.raises(ConfigError, match="noeviction"):
            check_redis(forgetful.url, "crawl")
        forgetful.client().config_set("maxmemory-policy", "noeviction")
        forgetful.client().config_set("maxmemory", 1)
        with pytest.raises(ConfigError, match=r"kept there .*maxmemory"):
            check_redis(forgetful.url, "crawl")
        check_redis(forgetful.url, "crawl", to_write=False)
    with RedisServer(tmp_path, "--requirepass", "other") as locked:
        for url in (locked.url, locked.url.replace("://", "://:secret@")):
            with pytest.raises(ConfigError, match="password") as error:
                check_redis(url, "crawl")
            assert "secret" not in str(error.value)
    with pytest.raises(ConfigError, match="CRAWL_ID"):
        check_redis(server.url, "")
    with pytest.raises(ConfigError, match=r"6\.2"):
        check_server(server.url, {"redis_version": "5.0.14"})
    for said, words in (
        ({"redis_version": "7.0.15", "redis_mode": "sentinel"}, "Sentinel"),
        ({"redis_version": "7.0.15", "redis_mode": "cluster"}, "Cluster"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2", "server_mode": "cluster"}, "Cluster"),
    ):
        with pytest.raises(ConfigError, match=words):
            check_server(server.url, said)
    check_redis(server.url, "crawl")
    assert shown("redis://me:secret@host:1/0") == "redis://host:1/0"
