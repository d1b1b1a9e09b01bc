"""What the workers of one crawl share, against a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import groupby, pairwise
from typing import Any

import pytest
from redis.exceptions import ResponseError

from llmcrawler.distributed import connection as links
from llmcrawler.distributed import site_requests as desk_module
from llmcrawler.distributed.connection import RedisConnection
from llmcrawler.distributed.crawl_status import distributed_status
from llmcrawler.distributed.host_limiter import DistributedHostLimiter, HostAllowance, HostInCooldown
from llmcrawler.distributed.membership import WorkerHeartbeats, WorkerReport
from llmcrawler.distributed.page_json import page_of_json, page_to_json
from llmcrawler.distributed.redis_checks import check_redis, check_server
from llmcrawler.distributed.shared_budget import SharedBudget
from llmcrawler.distributed.shared_rate import SharedRate
from llmcrawler.distributed.shared_stores import SharedAnswers
from llmcrawler.distributed.site_requests import SiteRequests
from llmcrawler.errors import BudgetSpent, ConfigError, StorageFailed, WorkGivenBack
from llmcrawler.frontier import Counts
from llmcrawler.items import Page, PageContent
from llmcrawler.llm import Budget, BudgetLimits, Tokens
from llmcrawler.storage import Outcome, RightsCounts
from tests.core.frontier.test_frontier import MANY, redis, task
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server


HOST = "a.example"


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


class Limiters:
    """Those of two workers, with what each has heard."""

    def __init__(self, pair: list[RedisConnection]) -> None:
        self.news: list[list[Any]] = [[], []]
        self.windows: list[float] = [0.0, 0.0]
        self.one, self.other = (
            DistributedHostLimiter(connection, self._listener(at), 15.0) for at, connection in enumerate(pair)
        )

    def _listener(self, at: int) -> Any:
        def hear(_host: str, events: list[Any], window: float) -> None:
            self.news[at] += events
            self.windows[at] = window

        return hear


@pytest.fixture
async def limiters(connections) -> AsyncIterator[Limiters]:
    both = Limiters(connections)
    yield both
    await both.one.close()
    await both.other.close()


def allowance(window: float = 5.0, gap_seconds: float = 0.0) -> Any:
    return lambda: HostAllowance(window, gap_seconds)


# -- politeness -------------------------------------------------------------------------------------------------------


async def test_no_more_are_in_flight_at_a_host_than_its_window_whoever_asks(limiters):
    first = [await limiters.one.enter(HOST, allowance(3.0)) for _ in range(2)]
    last = await limiters.other.enter(HOST, allowance(3.0))
    assert last.in_flight == 3
    waiting = asyncio.ensure_future(limiters.other.enter(HOST, allowance(3.0)))
    elsewhere = await limiters.other.enter("b.example", allowance(3.0))
    assert (elsewhere.in_flight, waiting.done()) == (1, False)
    limiters.one.leave(first[0])
    assert (await waiting).in_flight == 3


async def test_workers_take_turns_at_a_host_that_is_full(limiters):
    turns: list[str] = []

    async def work(name: str, limiter: DistributedHostLimiter) -> None:
        for _ in range(6):
            entry = await limiter.enter(HOST, allowance(1.0))
            turns.append(name)
            await asyncio.sleep(0.002)
            limiter.leave(entry)

    await asyncio.gather(work("one", limiters.one), work("other", limiters.other))
    # One that has not asked for a moment, because the machine is busy, is not waited for.
    assert turns[1:-1].count("one") in range(3, 8)
    assert max(len(list(run)) for _, run in groupby(turns[:-3])) <= 3


async def test_the_gap_of_a_host_is_from_any_workers_start_to_any_others(limiters, connections):
    connection, starts = connections[0], []
    for limiter in (limiters.one, limiters.other, limiters.other, limiters.one):
        limiters.one.leave(await limiter.enter(HOST, allowance(gap_seconds=0.1)))
        starts.append(
            float(await connection.client.hget(f"{connection.prefix}:host:{HOST}", "next"))
        )  # by the server's clock
    assert min(later - earlier for earlier, later in pairwise(starts)) > 0.0999


async def test_a_host_that_refused_one_worker_rests_for_all_and_they_hear_why(limiters):
    await limiters.other.enter(HOST, allowance(4.0))
    limiters.one.tell(HOST, {"kind": "refused", "details": ["429", 30.0, 0.1, 4]}, 2.0, 30.0)
    await limiters.one.told()
    with pytest.raises(HostInCooldown) as rest:
        await limiters.other.enter(HOST, allowance(4.0))
    assert 10.0 < rest.value.seconds <= 30.0
    assert [event["details"] for event in limiters.news[1]] == [["429", 30.0, 0.1, 4]]
    assert limiters.windows[1] == 2.0
    assert limiters.news[0] == []


async def test_a_window_that_has_grown_at_one_worker_has_grown_for_who_joins(limiters):
    await limiters.one.enter(HOST, allowance(4.0))
    await limiters.other.enter(HOST, allowance(1.0))
    assert limiters.windows[1] == 4.0


# -- learning ---------------------------------------------------------------------------------------------------------


async def owners(pair: list[RedisConnection], deaf: str = "") -> tuple[list[SiteRequests], list[str]]:
    """The worker `deaf` hears nothing: it is as good as gone."""
    led: list[str] = []

    def owner(connection: RedisConnection) -> SiteRequests:
        async def take_site(site: str) -> None:
            led.append(f"{connection.worker} {site}")

        async def answer(body: Any) -> Any:
            return {"by": connection.worker, "body": body}

        made = SiteRequests(connection, take_site, 10)
        made.handlers["classify"] = answer
        if connection.worker != deaf:
            made.open()
        return made

    return [owner(connection) for connection in pair], led


async def asked(connection: RedisConnection, worker: str) -> None:
    """Until there is a question for the worker."""
    name = f"{connection.prefix}:inbox:{worker}"
    found = await connection.client.blmove(name, name, 10, "LEFT", "LEFT")
    assert found is not None


async def test_one_worker_owns_a_site_and_answers_for_the_others(connections):
    (one, other), led = await owners(connections)
    assert await one.ask("site", "classify", dict) == (True, None)
    assert await other.ask("site", "classify", lambda: {"n": 1}) == (False, {"by": "w1", "body": {"n": 1}})
    assert await other.ask("site2", "classify", dict) == (True, None)
    assert led == ["w1 site", "w2 site2"]
    assert [await one.close(), await other.close()] == [["site"], ["site2"]]


async def test_who_has_asked_an_owner_that_is_gone_owns_the_site_next(connections):
    (one, other), led = await owners(connections, deaf="w1")
    await one.ask("site", "classify", dict)
    question = asyncio.ensure_future(other.ask("site", "classify", dict))
    await asked(connections[1], "w1")
    await WorkerHeartbeats(connections[0], 10).leave(WorkerReport("w1", "m", 1, 0.0), ["site"])
    other.note_membership({"w2"}, ())
    assert await question == (True, None)
    assert led == ["w1 site", "w2 site"]
    await other.close()


async def test_a_worker_that_leaves_gives_back_what_it_has_asked(connections):
    (one, other), _ = await owners(connections, deaf="w1")
    await one.ask("site", "classify", dict)
    question = asyncio.ensure_future(other.ask("site", "classify", dict))
    await asked(connections[1], "w1")
    other.leave()
    with pytest.raises(WorkGivenBack):
        await question
    await other.close()


async def test_an_owner_that_is_about_to_go_answers_nothing_and_who_has_asked_is_next(connections, monkeypatch):
    (one, other), led = await owners(connections)
    heard, take = asyncio.Event(), one._take
    monkeypatch.setattr(one, "_take", lambda *question: (take(*question), heard.set()))
    await one.ask("site", "classify", dict)
    one.retire()
    question = asyncio.ensure_future(other.ask("site", "classify", dict))
    await heard.wait()
    await asyncio.gather(
        WorkerHeartbeats(connections[0], 10).leave(WorkerReport("w1", "m", 1, 0.0), ["site"]), one.close()
    )
    other.note_membership({"w2"}, ())
    assert await question == (True, None)
    assert led == ["w1 site", "w2 site"]
    await other.close()


async def test_a_question_that_was_lost_on_its_way_is_asked_again(connections, monkeypatch):
    monkeypatch.setattr(desk_module, "_ASK_AGAIN_SECONDS", 0.05)
    (one, other), _ = await owners(connections, deaf="w1")
    await one.ask("site", "classify", dict)
    question = asyncio.ensure_future(other.ask("site", "classify", dict))
    await asked(connections[1], "w1")
    await connections[1].client.delete(f"{connections[1].prefix}:inbox:w1")
    one.open()
    assert await asyncio.wait_for(question, 20) == (False, {"by": "w1", "body": {}})
    await one.close()
    await other.close()


async def test_site_requests_are_closed_also_where_a_cancellation_is_lost(connections, monkeypatch):
    """As redis-py does when it comes at the same moment as a timeout of its own."""
    (one, other), _ = await owners(connections)
    call = connections[0].call

    async def loses_one(work: Any) -> Any:
        try:
            return await call(work)
        except asyncio.CancelledError:
            return await call(work)

    monkeypatch.setattr(connections[0], "call", loses_one)
    await one.ask("site", "classify", dict)
    assert await other.ask("site", "classify", dict) == (False, {"by": "w1", "body": {}})
    assert await asyncio.wait_for(one.close(), 10) == ["site"]
    await other.close()


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


def test_a_page_is_the_same_for_the_owner():
    page = Page("https://a.example/x", title="X", page_type="product", template="t1", text="text")
    page.content = PageContent("X", "en", features=frozenset({"a>b"}), structured_data=({"@type": "Product"},))
    page.html = "<p>"
    read = page_of_json(page_to_json(page, with_html=False))
    assert (read, read.content, read.html) == (page, page.content, None)
    assert page_of_json(page_to_json(page, with_html=True)).html == "<p>"


# -- workers ----------------------------------------------------------------------------------------------------------


async def test_lines_of_a_worker_that_is_gone_go_to_another_one(connections, server, tmp_path):
    frontier = redis(tmp_path, lambda: 1000.0, server.url, "w1", make_safe=list)
    await frontier.open()
    await frontier.add([task("/1")])
    await frontier.lease(MANY, {}, MANY)
    await frontier.ack("https://a.example/1", Outcome({"url": "https://a.example/1"}, {}))
    workers = WorkerHeartbeats(connections[1], 10)
    assert list(await workers.inherit("w1")) == ["https://a.example/1"]
    assert await workers.inherit("w1") == {}
    await WorkerHeartbeats(connections[0], 10).beat(
        WorkerReport("w1", "m", 1, 2.0), []
    )  # it was only stopped for a while
    assert not await connections[1].client.exists(f"{connections[1].prefix}:lost")
    await workers.drop_lines(["https://a.example/1"])
    assert await connections[1].client.hlen(f"{connections[1].prefix}:lines:w2") == 0
    await frontier.close()


async def test_status_shows_the_workers_their_leases_and_the_hosts(connections, server, tmp_path):
    connection = connections[0]
    await connection.put("meta", {"spec": '{"spider": "explore", "arguments": {"url": ["x"]}}', "started": "1"})
    frontier = redis(tmp_path, lambda: 1000.0, server.url, "w1")
    await frontier.open()
    await frontier.add([task("/1"), task("/2"), task("/3"), task("/4", host="b.example")])
    await frontier.lease(2, {}, 1)
    await frontier.ack(
        "https://b.example/4", Outcome({"error": {"stage": "fetch", "kind": "http_404"}}, {}, is_dead=True)
    )
    marks = {"signals/rsl": 3, "noindex": 1}
    heartbeats = WorkerHeartbeats(connection, 10)
    await heartbeats.beat(WorkerReport("w1", "m", 1, 2.0, pages=7, rights=marks), [])
    await heartbeats.leave(WorkerReport("w2", "m", 2, 2.0, rights={"signals/rsl": 1}), [])
    status = distributed_status(server.url, tmp_path.name)
    assert (status.state, status.urls) == ("running", {"leased": 1, "queued": 2, "done": 0, "dead": 1, "duplicates": 0})
    assert [(one.report.worker, one.report.pages, one.state, one.leases) for one in status.workers] == [
        ("w1", 7, "here", 1),
        ("w2", 0, "left", 0),
    ]
    assert status.rights == RightsCounts(signals={"rsl": 4}, noindex=1)
    assert [(one.host, one.queued, one.dead) for one in status.hosts] == [("a.example", 2, 0), ("b.example", 0, 1)]
    assert status.dead_letters == (("fetch/http_404", "https://b.example/4"),)
    await frontier.close()


# -- Redis itself -----------------------------------------------------------------------------------------------------


async def test_a_redis_that_goes_away_is_waited_for_and_all_is_there_when_it_is_back(tmp_path, caplog):
    with RedisServer(tmp_path) as server:
        frontier = redis(tmp_path, lambda: 1000.0, server.url)
        await frontier.open()
        await frontier.connection.put("meta", {"spec": "{}"})
        await frontier.add([task("/1"), task("/2")])
        server.stop()
        waiting = asyncio.ensure_future(frontier.lease(MANY, {}, MANY))
        _, pending = await asyncio.wait([waiting], timeout=0.3)
        assert pending
        assert "Redis is away" in caplog.text
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
    assert await connection.run(once, words) == b"done"


async def test_a_mistake_of_ours_is_not_waited_for(connections):
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await connections[0].run("redis.call('SET', KEYS[1], 1) return redis.call('HGET', KEYS[1], 'a')")


async def test_a_worker_that_ends_does_not_wait_long_for_a_redis_that_is_away(tmp_path):
    failures: list[StorageFailed] = []
    with RedisServer(tmp_path) as server:
        connection = RedisConnection(server.url, "crawl", "w1", on_failure=failures.append)
        await connection.put("meta", {"spec": "{}"})
        server.stop()
        waiting = asyncio.ensure_future(connection.run("return 1"))
        _, pending = await asyncio.wait([waiting], timeout=0.3)
        assert pending
        connection.stop_waiting(0.2)
        with pytest.raises(StorageFailed, match="is away"):
            await asyncio.wait_for(waiting, 20)
        assert (len(failures), connection.failure) == (1, failures[0])
        await connection.close()


async def test_links_that_a_failover_has_lost_are_queued_again_before_their_page_is_done(connections, server, tmp_path):
    """The replica had not heard of them; what it has of the crawl is older, and whole."""
    frontier, client = redis(tmp_path, lambda: 1000.0, server.url, "w1"), connections[0].client
    await frontier.open()
    await frontier.add([task("/page")])
    await frontier.lease(MANY, {}, MANY)
    of_the_replica = {name: await client.dump(name) for name in await client.keys(f"{glob_of(connections[0])}:*")}
    await frontier.add([task("/link"), task("/other")])
    await client.delete(*await client.keys(f"{glob_of(connections[0])}:*"))
    for name, value in of_the_replica.items():
        await client.restore(name, 0, value)
    assert await frontier.ack("https://a.example/page")
    assert frontier.counts() == Counts(queued=2, done=1)
    assert await frontier.refresh() == Counts(queued=2, done=1)
    await frontier.close()


def glob_of(connection: RedisConnection) -> str:
    return connection.prefix.replace("{", "[{]")


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
            await connection.run("return 1")
        assert len(failures) == 1
        await connection.close()


async def test_a_crawl_of_the_same_name_that_began_anew_is_another_one(connections):
    await connections[0].put("meta", {"spec": "{}", "id": "new"})
    connections[0].identity, connections[1].identity = "new", "old"
    assert await connections[0].run("return 1") == 1
    with pytest.raises(StorageFailed, match="without the crawl"):
        await connections[1].run("return 1")
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
    assert links.shown("redis://me:secret@host:1/0") == "redis://host:1/0"
