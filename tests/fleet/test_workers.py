"""What the workers of one crawl share, against a real Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict

import pytest
from redis.exceptions import ResponseError

from llmcrawler.core.frontier.protocol import Counts
from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.usage import Tokens
from llmcrawler.core.storage import Outcome, RightsCounts, SiteState
from llmcrawler.errors import BudgetSpent, ConfigError, StorageFailed
from llmcrawler.fleet.connection import FORMAT, RedisConnection, check_redis, check_server, shown
from llmcrawler.fleet.crawl_control import distributed_status
from llmcrawler.fleet.model_limits import SharedAnswers, SharedLimits
from llmcrawler.fleet.session import DistributedSession
from tests.core.frontier.test_frontier import MANY, counts_in_redis, redis, task
from tests.fleet.sessions import session_at
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server


@pytest.fixture
async def sessions(server, tmp_path) -> AsyncIterator[list[DistributedSession]]:
    both = [session_at(server.url, tmp_path.name, name) for name in ("w1", "w2")]
    yield both
    for one in both:
        await one.frontier.close()


@pytest.fixture
def connections(sessions) -> list[RedisConnection]:
    return [one.connection for one in sessions]


# -- the model ----------------------------------------------------------------------------------------------------


async def test_answers_of_the_model_are_everybodys(connections):
    one, other = (SharedAnswers(connection, None) for connection in connections)
    await one.put("key", ["product", 0.9])
    assert [await other.get(key) for key in ("key", "none")] == [["product", 0.9], None]


def limits_of(connection: RedisConnection, calls: CallLimits) -> SharedLimits:
    return SharedLimits(connection, calls, BudgetLimits())


async def test_the_models_limits_a_minute_are_those_of_all_workers(connections):
    one, other = (
        limits_of(connection, CallLimits(requests_per_minute=3, tokens_per_minute=1000)) for connection in connections
    )
    first = await one.admit(400)
    one.settle(first, 100)
    await other.admit(100)
    await one.admit(100)
    waiting = asyncio.ensure_future(other.admit(10))  # the fourth in this minute
    _, pending = await asyncio.wait([waiting], timeout=0.2)
    assert pending
    waiting.cancel()


async def test_tokens_of_all_workers_count_and_a_server_that_asks_to_wait_is_left_alone_by_all(connections):
    one, other = (limits_of(connection, CallLimits(tokens_per_minute=1000)) for connection in connections)
    await one.admit(900)
    await asyncio.wait_for(other.admit(50), 20)
    waiting = asyncio.ensure_future(other.admit(200))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    waiting.cancel()
    third = limits_of(connections[1], CallLimits())
    one.hold(30)
    await asyncio.gather(*one._posted)
    waiting = asyncio.ensure_future(third.admit(1))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    waiting.cancel()


# -- workers ----------------------------------------------------------------------------------------------------------


async def test_lines_of_a_worker_that_is_gone_go_to_another_one(sessions):
    one, other = sessions
    await join(*sessions)
    await one.frontier.add([task("/1")])
    await one.frontier.lease(MANY, {}, MANY)
    await one.frontier.ack("https://a.example/1", Outcome({"url": "https://a.example/1"}, {}))
    assert await other.inherit(["w1"]) == []  # it is there
    await be_silent(one)
    assert await other.inherit(["w1"]) == [{"url": "https://a.example/1"}]
    assert await other.inherit(["w1"]) == []
    other.safe_lines = ["https://a.example/1"]
    await other.drop_lines()
    assert await other.connection.client.hlen(f"{other.connection.prefix}:lines:w2") == 0


async def join(*sessions: DistributedSession) -> None:
    for session in sessions:
        await session.frontier.open()
        await session.beat(joins=True)


async def be_silent(session: DistributedSession) -> None:
    """Have the worker's last heartbeat long ago, and another worker's just now."""
    client, prefix = session.connection.client, session.connection.prefix
    await client.zadd(f"{prefix}:workers", {session.worker: 1.0})
    await client.hdel(f"{prefix}:meta", "grace_until")


async def test_a_worker_that_was_taken_for_gone_hears_so_and_may_join_again(sessions):
    one, other = sessions
    assert (await one.beat(joins=True)).is_member
    assert not (await other.beat()).is_member
    await other.beat(joins=True)
    await be_silent(one)
    assert (await other.beat()).gone == ("w1",)
    await other.inherit(["w1"])
    assert not (await one.beat()).is_member
    assert (await one.beat(joins=True)).is_member
    assert not await one.connection.client.exists(f"{one.connection.prefix}:lost")


async def test_nobody_is_gone_where_the_server_itself_stood_still(sessions):
    """Then no heartbeat at all was heard: what waited to be said is only now being read."""
    one, other = sessions
    await join(*sessions)
    client, name = one.connection.client, f"{one.connection.prefix}:workers"
    await client.zadd(name, {"w1": 1.0, "w2": 1.0})
    assert (await other.beat()).gone == ()
    await other.inherit(["w1"])
    assert (await one.beat()).is_member
    assert await client.zcount(name, 2, "+inf") == 2


async def test_a_worker_with_less_to_do_gets_a_site_that_another_one_has_not_begun(sessions):
    one, other = sessions
    await join(one)
    hosts = ("a.example", "b.example", "c.example")
    await one.frontier.add(task(f"/{n}", host=host) for n in range(3) for host in hosts)
    begun = [lease.task.host for lease in await one.frontier.lease(2, {}, 1)]
    assert await leased_hosts(one, dict.fromkeys(hosts, MANY)) == set()  # it claims the third one, too
    await join(other)
    assert await other.frontier.lease(MANY, {}, MANY) == []
    await other.beat()  # so it is known that it could do more
    leaving = (await one.beat()).leaving
    assert {*begun, *leaving} == {*hosts}
    assert (await one.beat()).leaving == leaving  # until it is given up, and no other one
    assert await leased_hosts(one) == set(begun)
    assert await other.frontier.lease(MANY, {}, MANY) == []
    await one.give_up(leaving[0])
    await other.beat()
    assert await leased_hosts(other) == set(leaving)
    assert (await one.beat()).leaving == () == (await other.beat()).leaving


async def leased_hosts(session: DistributedSession, held: Mapping[str, int] | None = None) -> set[str]:
    return {lease.task.host for lease in await session.frontier.lease(MANY, held or {}, MANY)}


async def test_what_was_learned_of_a_finished_site_is_for_who_takes_over_from_its_owner(sessions, server, tmp_path):
    one, other = sessions
    await join(*sessions)
    await one.frontier.add([task("/1")])
    await one.frontier.add([task("/2", host="b.example")])
    for lease in [lease for _ in range(2) for lease in await one.frontier.lease(MANY, {}, MANY)]:
        await one.frontier.ack(lease.url)
    await one.keep({"a.example": SiteState([], {"grouping": 1})})  # nothing of the other one
    await be_silent(one)
    taken: list[str] = []
    heir = session_at(server.url, tmp_path.name, "w2", take_site=lambda url, _kept: taken.append(url))
    await heir.inherit(["w1"])
    await heir.connection.close()
    assert taken == ["https://a.example/"]
    kept = await other.read_site("a.example")
    learned = {"templates": [], "state": {"grouping": 1}, "corrections": {}}
    assert (kept.learned, kept.origin) == (learned, "https://a.example")
    client, prefix = one.connection.client, one.connection.prefix
    assert await client.hgetall(f"{prefix}:owners") == {b"a.example": b"w2"}


async def test_workers_hear_of_a_silent_one_and_of_start_urls_that_were_redirected(sessions, server, tmp_path):
    one, _ = sessions
    widened: list[str] = []
    other, new = (session_at(server.url, tmp_path.name, name, widen_here=widened.append) for name in ("w2", "w3"))
    await one.beat(joins=True)
    assert (await other.beat(joins=True)).silent == 0
    await one.widen("https://b.example/")
    for _ in range(2):
        await other.beat()
        assert widened == ["https://b.example/"]
    await be_silent(one)
    assert (await other.beat()).silent == 1
    await new.beat(joins=True)
    assert widened == ["https://b.example/"] * 2  # a new one is told all
    for session in (other, new):
        await session.connection.close()


async def test_status_shows_the_workers_their_leases_and_the_hosts(sessions, server, tmp_path):
    one, other = sessions
    spec = '{"spider": "explore", "arguments": {"url": ["x"]}}'
    await one.connection.put("meta", {"spec": spec, "started": "1", "format": str(FORMAT), "state": "running"})
    await join(one)
    await one.frontier.add([task("/1"), task("/2"), task("/3"), task("/4", host="b.example")])
    await one.frontier.lease(2, {}, 1)
    dead = Outcome({"error": {"stage": "fetch", "kind": "http_404"}}, {}, is_dead=True)
    await one.frontier.ack("https://b.example/4", dead)
    await one.beat(pages=7, leases=1, rights={"signals/rsl": 3, "noindex": 1})
    await one.keep({}, {"a.example": {"a.example": {"window": 2.0, "cooldown": 500.0}}})
    await other.beat(joins=True, rights={"signals/rsl": 1})
    await other.connection.run("leave", "w2", json.dumps(asdict(other.report)))
    status = distributed_status(server.url, tmp_path.name)
    assert (status.state, status.urls) == ("running", {"leased": 1, "queued": 2, "done": 0, "dead": 1, "duplicates": 0})
    shown = [(one.report.worker, one.report.pages, one.state, one.report.leases, one.sites) for one in status.workers]
    assert shown == [("w1", 7, "here", 1, ("a.example",)), ("w2", 0, "left", 0, ())]
    assert [one.ended is None for one in status.workers] == [True, False]
    assert status.rights == RightsCounts(signals={"rsl": 4}, noindex=1)
    hosts = [(one.host, one.queued, one.dead, one.owner, one.window, one.rest_seconds > 400) for one in status.hosts]
    assert hosts == [("a.example", 2, 0, "w1", 2.0, True), ("b.example", 0, 1, "w1", None, False)]
    assert status.dead_letters == (("fetch/http_404", "https://b.example/4"),)


# -- Redis itself -----------------------------------------------------------------------------------------------------


async def test_a_redis_that_goes_away_is_waited_for_and_all_is_there_when_it_is_back(tmp_path, caplog):
    with RedisServer(tmp_path) as server:
        frontier = redis(tmp_path, server.url)
        await frontier.open()
        await frontier.connection.put("meta", {"spec": "{}"})
        await frontier.add([task("/1"), task("/2")])
        server.stop()
        waiting = asyncio.ensure_future(frontier.lease(MANY, {}, MANY))
        _, pending = await asyncio.wait([waiting], timeout=0.3)
        assert pending
        assert "is unavailable" in caplog.text
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
        with pytest.raises(StorageFailed, match="is unavailable"):
            await asyncio.wait_for(waiting, 20)
        assert (len(failures), connection.failure) == (1, failures[0])
        await connection.close()


async def test_links_that_a_failover_has_lost_are_queued_again_before_their_page_is_done(sessions):
    """The replica had not heard of them; what it has of the crawl is older, and whole."""
    await join(sessions[0])
    frontier, connection = sessions[0].frontier, sessions[0].connection
    client, pattern = connection.client, f"{connection.prefix}:*"
    await frontier.add([task("/page")])
    await frontier.lease(MANY, {}, MANY)
    of_the_replica = {name: await client.dump(name) for name in await client.keys(pattern)}
    await frontier.add([task("/link"), task("/other")])
    await client.delete(*await client.keys(pattern))
    for name, value in of_the_replica.items():
        await client.restore(name, 0, value)
    assert await frontier.ack("https://a.example/page")
    assert frontier.counts() == Counts(queued=2, done=1)
    assert await counts_in_redis(frontier) == Counts(queued=2, done=1)


async def test_a_budget_is_one_for_all_workers(connections):
    limits = BudgetLimits(max_tokens=1000)
    one, other = Budget(limits), Budget(limits)
    for budget, connection in zip((one, other), connections, strict=True):
        budget.share(SharedLimits(connection, CallLimits(), limits))
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
    with pytest.raises(StorageFailed, match="no longer has the crawl"):
        await connections[1].evaluate("return 1")
    assert connections[1].failure is not None


def test_what_no_crawl_could_be_kept_in_is_said_at_the_start(tmp_path, server):
    for url, words in (
        ("redis://127.0.0.1:1", "no Redis responds there"),
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
        with pytest.raises(ConfigError, match=r"stored there .*maxmemory"):
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
