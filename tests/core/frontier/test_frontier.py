"""What every frontier backend does; a backend is one line in `frontier`'s params."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.core.frontier.memory import MemoryFrontier
from llmcrawler.core.frontier.protocol import FIRST, Counts, Frontier, UrlTask
from llmcrawler.core.frontier.sqlite import SqliteFrontier
from llmcrawler.core.storage import Database, Ledger, Outcome, SiteState, open_job_file, url_key
from llmcrawler.core.storage import job_file as keys
from llmcrawler.fleet import redis_frontier as redis_module
from llmcrawler.fleet.connection import RedisConnection
from llmcrawler.fleet.redis_frontier import RedisFrontier, pack, unpack
from llmcrawler.fleet.session import KeptSite
from llmcrawler.items import StageRun, UrlSource
from tests.fleet.sessions import session_at
from tests.servers.redis_server import RedisServer, carried_server

MANY = 100
MAX_LEASES = 3


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="module")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("valkey"), binary=carried_server()) as server:
        yield server.url


def memory(_tmp_path: Path) -> Frontier:
    return MemoryFrontier()


class SqliteFile(SqliteFrontier):
    """A frontier with a file of its own, which it closes."""

    def __init__(self, path: Path) -> None:
        self._file = Database(open_job_file(path), path)
        super().__init__(self._file, max_leases=MAX_LEASES)

    async def close(self) -> None:
        await self._file.close()


def sqlite(tmp_path: Path) -> SqliteFile:
    return SqliteFile(tmp_path / "crawl.sqlite")


class RedisMember(RedisFrontier):
    """A frontier whose worker is a member of the crawl."""

    async def open(self) -> None:
        await super().open()
        await self.connection.client.zadd(f"{self.connection.prefix}:workers", {self.connection.worker: 1e12})


def redis(tmp_path: Path, url: str, worker: str = "w1", **options: Any) -> RedisFrontier:
    return RedisMember(RedisConnection(url, tmp_path.name, worker), max_leases=MAX_LEASES, **options)


def valkey(tmp_path: Path, url: str) -> RedisFrontier:
    return redis(tmp_path, url)


SERVERS = [pytest.param(backend, marks=pytest.mark.server) for backend in (redis, valkey)]


@pytest.fixture(params=[memory, sqlite, *SERVERS])
async def frontier(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Frontier]:
    backend: Callable[..., Frontier] = request.param
    fixture = {"redis": "redis_url", "valkey": "valkey_url"}.get(backend.__name__)
    given = () if fixture is None else (request.getfixturevalue(fixture),)
    frontier = backend(tmp_path, *given)
    await frontier.open()
    yield frontier
    close = getattr(frontier, "close", None)
    if close is not None:
        await close()


def task(path: str, host: str = "a.example", priority: int = 0) -> UrlTask:
    return UrlTask(f"https://{host}{path}", host, priority=priority)


def grouped(path: str, group: str, priority: int = 0) -> UrlTask:
    return UrlTask(f"https://a.example{path}", "a.example", priority=priority, group=group)


async def leased_paths(frontier: Frontier, limit: int = MANY, per_host: int = MANY) -> list[str]:
    return [lease.url.split("example")[1] for lease in await frontier.lease(limit, {}, per_host)]


async def test_a_url_is_queued_once_for_the_whole_crawl(frontier):
    assert await frontier.add([task("/1"), task("/2?a=1&b=2"), task("/1"), task("/2?b=2&a=1")]) == 2
    leases = await frontier.lease(MANY, {}, MANY)
    assert await frontier.ack(leases[0].url)
    assert await frontier.add([task("/1"), task("/2?b=2&a=1")]) == 0
    assert frontier.counts() == Counts(queued=0, leased=1, done=1)


async def test_lower_priorities_come_first_and_equal_ones_in_order_of_arrival(frontier):
    await frontier.add([task("/late", priority=3), task("/b", priority=1), task("/a", priority=1), task("/first")])
    assert await leased_paths(frontier) == ["/first", "/b", "/a", "/late"]


async def test_a_host_that_is_busy_leaves_room_for_the_others(frontier):
    await frontier.add([*(task(f"/{n}") for n in range(10)), task("/other", host="b.example", priority=9)])
    leases = await frontier.lease(MANY, {"a.example": 3}, per_host=5)
    assert [lease.task.host for lease in leases] == ["a.example", "a.example", "b.example"]
    assert len(await frontier.lease(4, {}, MANY)) == 4
    assert frontier.counts() == Counts(queued=4, leased=7)


@pytest.mark.parametrize("frontier", [sqlite, *SERVERS], indirect=True)
@pytest.mark.parametrize(("deeds", "attempts"), [(["start"], 2), ([], 1), (["start", "mark_survived"], 1)])
async def test_a_released_url_comes_back_at_its_old_place_and_counts_its_starts(frontier, deeds, attempts):
    await frontier.add([task("/1"), task("/2")])
    (first,) = await frontier.lease(1, {}, MANY)
    if "start" in deeds:
        await frontier.start(first.url)
    if "mark_survived" in deeds:
        frontier.mark_survived(first.url)
    assert await frontier.release(first.url)
    (again,) = await frontier.lease(1, {}, MANY)
    assert (again.task, again.attempts) == (first.task, attempts)


async def test_dead_urls_and_duplicates_are_counted_apart(frontier):
    await frontier.add([task("/1"), task("/2"), task("/3")])
    urls = [lease.url for lease in await frontier.lease(3, {}, MANY)]
    assert await frontier.ack(urls[0], Outcome({"error": {"stage": "fetch"}}, {}, is_dead=True))
    for url, first in ((urls[1], None), (urls[2], urls[1])):
        assert await frontier.ack(url, Outcome({"url": url, "duplicate_of": first, "error": None}, {}))
    assert frontier.counts() == Counts(done=2, dead=1, duplicates=1)


async def test_one_url_with_other_payloads_is_another_task_and_comes_back_with_its_own(frontier):
    tasks = [UrlTask.with_payload("https://a.example/1", "a.example", f'{{"key": "{key}"}}') for key in "aab"]
    assert await frontier.add([task("/1"), *tasks]) == 3
    leases = await frontier.lease(MANY, {}, MANY)
    assert {lease.task.address for lease in leases} == {"https://a.example/1"}
    assert [lease.task.page().key for lease in leases] == [None, "a", "b"]
    assert len({lease.task.page().id for lease in leases}) == 3
    assert await frontier.ack(leases[1].url)
    assert await frontier.release(leases[2].url)
    (again,) = await frontier.lease(MANY, {}, MANY)
    assert again.task == leases[2].task


async def test_hosts_take_turns_by_priority_and_their_urls_keep_their_order(frontier):
    hosts = [f"{n}.example" for n in range(7)]
    await frontier.add(task(f"/{n}", host=host, priority=n) for n in range(5) for host in hosts)
    leases = await frontier.lease(20, {}, per_host=4)
    assert [lease.task.priority for lease in leases] == [0] * 7 + [1] * 7 + [2] * 6
    rest = await frontier.lease(MANY, {}, per_host=4)
    assert [lease.task.priority for lease in rest] == [2] + [3] * 7 + [4] * 7


async def test_only_leased_urls_can_be_acknowledged_or_released(frontier):
    await frontier.add([task("/1")])
    assert not await frontier.ack("https://a.example/1")
    assert not await frontier.release("https://a.example/1")
    (lease,) = await frontier.lease(1, {}, MANY)
    assert await frontier.ack(lease.url)
    assert not await frontier.ack(lease.url)
    assert not await frontier.release(lease.url)


async def test_a_reserved_url_is_never_queued_and_a_queued_one_never_reserved(frontier):
    assert await frontier.reserve_target("https://a.example/target", "https://a.example/from")
    assert await frontier.reserve_target("https://a.example/target", "https://a.example/from")  # fetched again
    assert not await frontier.reserve_target("https://a.example/target", "https://a.example/other")
    assert await frontier.add([task("/target"), task("/1")]) == 1
    assert not await frontier.reserve_target("https://a.example/1", "https://a.example/from")


async def reopened(tmp_path: Path) -> SqliteFile:
    frontier = sqlite(tmp_path)
    await frontier.open()
    return frontier


async def test_what_was_leased_when_the_process_ended_is_free_at_once_and_all_else_is_as_it_was(tmp_path):
    first = await reopened(tmp_path)
    await first.set_priorities({"good": 1, "bad": 5})
    await first.add([task("/done"), task("/held"), grouped("/bad", "bad"), grouped("/good", "good")])
    leases = await first.lease(2, {}, MANY)
    runs = {"fetch": StageRun("success", None, 1, 1.0, 0.5)}
    assert await first.ack(leases[0].url, Outcome({"url": leases[0].url}, runs))
    second = await reopened(tmp_path)  # the first one was never closed
    assert second.counts() == Counts(queued=3, done=1)
    assert await second.add([task("/done"), task("/held"), task("/good")]) == 0
    assert await leased_paths(second) == ["/held", "/good", "/bad"]
    await first.close()
    await second.close()


async def test_a_url_that_ended_the_process_too_often_is_dead_with_its_reason(tmp_path):
    for _ in range(MAX_LEASES):
        frontier = await reopened(tmp_path)
        await frontier.add([task("/1")])
        (lease,) = await frontier.lease(1, {}, MANY)
        await frontier.start(lease.url)
        await frontier.close()
    last = await reopened(tmp_path)
    assert last.counts() == Counts(dead=1)
    ((_seq, line),) = await Ledger(last._database).lines(0, 100)
    assert line["error"]["kind"] == "lost"
    assert line["error"]["attempts"] == MAX_LEASES
    await last.close()


async def test_groups_go_out_by_their_priorities_and_their_queued_urls_follow_when_these_change(frontier):
    await frontier.set_priorities({"good": 1, "bad": 5})
    await frontier.add(
        [grouped("/b1", "bad"), grouped("/b2", "bad"), grouped("/g1", "good", priority=9), task("/start")]
    )
    assert await leased_paths(frontier, limit=2) == ["/start", "/g1"]
    await frontier.set_priorities({"bad": 2, "good": 7})
    await frontier.add([grouped("/g2", "good"), grouped("/b3", "bad")])
    assert await leased_paths(frontier) == ["/b1", "/b2", "/b3", "/g2"]


async def test_no_url_of_a_worse_group_than_asked_for_goes_out_but_those_that_come_before_all_others(frontier):
    await frontier.set_priorities({"good": 1, "bad": 5})
    await frontier.add([grouped("/b", "bad"), grouped("/g", "good"), grouped("/again", "bad", priority=FIRST)])
    leases = await frontier.lease(MANY, {}, MANY, worst=4)
    assert [lease.url for lease in leases] == ["https://a.example/again", "https://a.example/g"]
    assert [lease.task.group for lease in await frontier.lease(MANY, {}, MANY, worst=5)] == ["bad"]


async def test_groups_of_a_host_share_its_room_and_a_released_url_comes_back_into_its_group(frontier):
    await frontier.set_priorities({f"g{n}": n for n in range(5)})
    await frontier.add(grouped(f"/{n}-{m}", f"g{n}") for n in range(5) for m in range(3))
    assert await leased_paths(frontier, per_host=4) == ["/0-0", "/0-1", "/0-2", "/1-0"]
    assert await frontier.release("https://a.example/0-1")
    assert await leased_paths(frontier, per_host=4) == ["/0-1", "/1-1", "/1-2", "/2-0"]


@pytest.fixture
async def workers(redis_url, tmp_path):
    """Two workers of one crawl."""
    both = [redis(tmp_path, redis_url, worker) for worker in ("w1", "w2")]
    for one in both:
        await one.open()
    yield both
    for one in both:
        await one.close()


def noted(frontier: RedisFrontier) -> tuple[Any, list[Any]]:
    """Return what runs the frontier's scripts, and a list that gets all that it runs from now on."""
    run, requests = frontier.connection.run, []

    async def note(*request):
        requests.append(request)
        return await run(*request)

    frontier.connection.run = note  # type: ignore[method-assign]
    return run, requests


async def counts_in_redis(frontier: RedisFrontier) -> Counts:
    """Return the counts of this moment, by whoever they were changed."""
    counts, _last_added = await frontier.connection.run("counts", frontier.connection.worker)
    return Counts(*counts)


async def lose(frontier: RedisFrontier, by: RedisFrontier) -> None:
    """Have the worker of a frontier taken for gone."""
    connection = frontier.connection
    await connection.client.zadd(f"{connection.prefix}:workers", {connection.worker: 1})
    assert await by.connection.run("inherit", by.connection.worker, connection.worker, 10) is not None


@pytest.mark.server
async def test_workers_share_one_queue_and_each_site_is_one_workers(workers):
    first, second = workers
    assert await first.add([task("/1"), task("/2"), task("/3")]) == 3
    assert (
        await second.add([task("/2"), task("/4"), task("/5", host="b.example"), task("/6", host="www.b.example")]) == 3
    )
    assert await leased_paths(first, limit=2) == ["/1", "/2"]
    assert await leased_paths(second) == ["/5", "/6"]
    assert await leased_paths(second) == []
    assert not await second.ack("https://a.example/1")
    assert await first.ack("https://a.example/1")
    assert await second.release("https://b.example/5")
    assert await leased_paths(first) == ["/3", "/4"]
    assert await counts_in_redis(first) == Counts(queued=1, leased=4, done=1)
    assert (first.sites, second.sites) == ({"a.example"}, {"b.example"})


@pytest.mark.server
async def test_a_worker_takes_its_share_of_the_sites_that_wait_and_more_when_it_has_room(workers):
    first, second = workers
    await first.add(task("/1", host=f"{n}.example") for n in range(8))
    assert len(await first.lease(MANY, {}, MANY)) == 4
    assert len(await second.lease(MANY, {}, MANY)) == 4
    await first.add(task("/1", host=f"{n}.example") for n in range(8, 11))
    second.look_again()  # as a heartbeat says
    assert len(await second.lease(MANY, {}, MANY)) == 2
    assert len(await second.lease(MANY, {}, MANY)) == 1


@pytest.mark.server
async def test_the_owner_before_is_told_and_what_it_kept_goes_to_the_next_one(workers, redis_url, tmp_path):
    first, second = workers
    taken: list[str] = []

    async def take(url):
        taken.append(url)

    second.on_site = take
    await first.add([task("/1"), task("/2")])
    await first.lease(1, {}, MANY)
    one, other = (session_at(redis_url, tmp_path.name, worker) for worker in ("w1", "w2"))
    assert await one.read_site("a.example") == KeptSite()
    state, throttle = SiteState([], {"grouping": 1}), {"a.example": {"a.example": {"window": 2.0}}}
    await one.keep({"a.example": state}, throttle)
    await other.keep({"a.example": SiteState([], {})}, {})  # it is not that one's
    await lose(first, second)
    assert await leased_paths(second) == ["/1", "/2"]
    kept = await other.read_site("a.example")
    assert kept.learned == {"templates": [], "state": {"grouping": 1}, "corrections": {}}
    assert (kept.throttle, kept.before) == (throttle["a.example"], "w1")
    assert taken == ["https://a.example/1"]
    for session in (one, other):
        await session.connection.close()


@pytest.mark.server
async def test_what_a_worker_that_is_gone_held_is_not_its_any_more(workers):
    first, second = workers
    await first.add([task("/1"), task("/2")])
    await first.lease(1, {}, MANY)
    await lose(first, second)
    assert await first.lease(MANY, {}, MANY) == []
    assert await leased_paths(second, limit=1) == ["/1"]
    assert not await first.ack("https://a.example/1")
    assert await second.ack("https://a.example/1")
    assert await counts_in_redis(second) == Counts(queued=1, done=1)


@pytest.mark.server
async def test_a_reply_that_was_lost_comes_again_and_a_request_that_was_overtaken_gets_nothing(workers):
    first, _ = workers
    await first.add(task(f"/{n}") for n in range(5))
    run, requests = noted(first)
    leases = [await first.lease(2, {}, MANY) for _ in range(2)]
    early, late = [one for one in requests if one[0] == "lease"]
    again = (await run(*late))[1]
    assert [f"{row} 2" for row in again[::5]] == [first._held[lease.url] for lease in leases[1]]
    assert (await run(*early))[1] == []
    assert await counts_in_redis(first) == Counts(queued=1, leased=4)


@pytest.mark.server
async def test_a_release_that_was_long_on_its_way_does_not_bring_back_what_was_leased_again(workers):
    first, _ = workers
    await first.add([task("/1")])
    run, requests = noted(first)
    await first.lease(1, {}, MANY)
    assert await first.release("https://a.example/1")
    assert await leased_paths(first) == ["/1"]
    release = next(one for one in requests if one[0] == "release")
    assert (await run(*release))[1] == [0]
    assert await first.ack("https://a.example/1")
    assert await counts_in_redis(first) == Counts(done=1)


@pytest.mark.server
async def test_a_worker_that_was_taken_for_gone_writes_no_line_of_what_it_had(redis_url, tmp_path):
    written: list[str] = []

    async def confirm() -> None:
        await lose(first, second)
        first.lose_all()

    first, second = (redis(tmp_path, redis_url, name) for name in ("w1", "w2"))
    first.confirm, first.make_safe = confirm, written.extend
    await first.open()
    await second.open()
    await first.add([task("/1")])
    await first.lease(1, {}, MANY)
    assert not await first.ack("https://a.example/1", Outcome({"url": "https://a.example/1"}, {}))
    assert written == []
    assert await leased_paths(second) == ["/1"]
    await first.close()
    await second.close()


@pytest.mark.server
async def test_what_was_leased_as_its_worker_lost_all_does_not_stay_leased(workers):
    first, _ = workers
    await first.add([task("/1")])

    async def lose_meanwhile(_url):
        first.lose_all()

    first.on_site = lose_meanwhile
    assert await first.lease(1, {}, MANY) == []
    assert await counts_in_redis(first) == Counts(queued=1)


@pytest.mark.server
async def test_the_most_pages_are_those_of_all_workers_and_dead_urls_are_replaced(workers):
    first, second = workers
    first.max_pages = second.max_pages = 4
    await first.add(task(f"/{n}", host=host) for n in range(10) for host in ("a.example", "b.example"))
    assert len(await first.lease(3, {}, MANY)) == 3
    assert len(await second.lease(3, {}, MANY)) == 1
    held = list(first._held)
    assert await first.ack(held[0], Outcome(None, {}, is_dead=True))
    assert await first.ack(held[1])
    assert len(await second.lease(3, {}, MANY)) == 1


@pytest.mark.server
async def test_who_leases_next_is_told_of_a_url_that_took_down_its_holders(workers):
    first, second = workers
    await first.add([UrlTask("https://a.example/1", "a.example", 2, "https://a.example/")])
    for holder, other in ((first, second), (second, first), (first, second)):
        (lease,) = await holder.lease(MANY, {}, MANY)
        assert not lease.is_lost
        await holder.start(lease.url)
        await lose(holder, other)
        holder.lose_all()
        await holder.open()
    (lost,) = await second.lease(MANY, {}, MANY)
    assert (lost.task.depth, lost.task.referer, lost.attempts, lost.is_lost) == (2, "https://a.example/", 4, True)


@pytest.mark.server
async def test_what_was_read_when_its_worker_died_does_not_count_as_what_took_it_down(workers):
    first, second = workers
    await first.add([task(f"/{n}") for n in range(3)])
    read, reading, waiting = [lease.url for lease in await first.lease(MANY, {}, MANY)]
    await asyncio.gather(first.start(read), first.start(reading))
    first.mark_survived(read)
    await first.take_counts(*await first.connection.run("counts", "w1"))  # as with each heartbeat
    await lose(first, second)
    attempts = {lease.url: lease.attempts for lease in await second.lease(MANY, {}, MANY)}
    assert attempts == {read: 1, reading: 2, waiting: 1}


@pytest.mark.server
async def test_redis_is_asked_for_urls_only_where_there_may_be_some(workers):
    first, second = workers
    await first.add(task(f"/{n}") for n in range(4))
    _, requests = noted(first)

    async def asks(count: int, held: int = 0) -> bool:
        requests.clear()
        assert len(await first.lease(MANY, {"a.example": held}, 2)) == count
        return "lease" in [name for name, *_ in requests]

    assert await asks(2)
    assert not await asks(0, held=2)
    assert await asks(2, held=0)
    assert await asks(0)  # this host had room, and no urls
    assert not await asks(0)
    await first.add([task("/5")])
    assert await asks(1)
    await asks(0)
    await second.add([task("/6")])
    assert not await asks(0)
    first.look_again()  # as a heartbeat says
    assert await asks(1)


@pytest.mark.server
async def test_a_page_costs_redis_few_commands_those_of_scripts_included(workers):
    first, _ = workers
    await first.add(task(f"/{n}") for n in range(200))
    client = first.connection.client
    await client.config_resetstat()
    for _ in range(40):
        urls = [lease.url for lease in await first.lease(5, {}, MANY)]
        await asyncio.gather(*map(first.start, urls))
        await asyncio.gather(*map(first.ack, urls))
    calls = sum(row["calls"] for row in (await client.info("commandstats")).values())
    assert first.counts().done == 200
    assert calls / 200 < 8


@pytest.mark.server
async def test_a_set_has_the_sites_with_urls_left_for_autoscalers(workers):
    first, second = workers
    sizes = []

    async def deed(work):
        await work
        sizes.append(await first.connection.client.scard(f"{first.connection.prefix}:busy_sites"))

    await deed(first.add([task("/1"), task("/2"), task("/3", host="b.example")]))
    await deed(first.lease(MANY, {}, MANY))
    await second.lease(MANY, {}, MANY)
    await deed(first.ack("https://a.example/1"))
    await deed(first.ack("https://a.example/2"))
    await deed(second.ack("https://b.example/3"))
    assert sizes == [2, 2, 2, 1, 0]


@pytest.mark.server
async def test_sets_of_hashes_that_are_full_become_smaller_ones(workers, monkeypatch):
    first, second = workers
    monkeypatch.setattr(redis_module, "_bucket_and_key", lambda url: (0, url_key(url) >> 14))
    urls = [task(f"/{n}") for n in range(1500)]
    assert await first.add(urls[:700]) == 700
    assert await second.add(urls) == 800
    assert await second.add(urls) == 0
    assert not await second.reserve_target("https://a.example/77", "https://a.example/from")
    assert await second.reserve_target("https://a.example/target", "https://a.example/from")
    client, prefix = first.connection.client, first.connection.prefix
    sets = [f"{prefix}:seen:0/{n}" for n in range(16)]
    assert sum([await client.scard(one) for one in sets]) == 1501
    assert {await client.object("encoding", one) for one in sets} == {b"intset"}


@pytest.mark.server
async def test_lines_that_a_process_could_lose_are_kept_in_redis(tmp_path, redis_url):
    kept: list[str] = []
    first = redis(tmp_path, redis_url, make_safe=list, on_kept=kept.extend)
    await first.open()
    await first.add([task("/1"), task("/2")])
    for lease in await first.lease(MANY, {}, MANY):
        assert await first.ack(lease.url, Outcome({"url": lease.url}, {}))
    assert await first.connection.client.hlen(f"{first.connection.prefix}:lines:w1") == 2
    assert sorted(kept) == ["https://a.example/1", "https://a.example/2"]
    await first.close()


async def test_urls_are_known_wherever_their_keys_are(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "_MIN_GATHERED", 10)
    first = await reopened(tmp_path)
    for start in range(0, 35, 7):  # some keys are in their table by now, and some are only gathered
        assert await first.add(task(f"/{n}") for n in range(start, start + 7)) == 7
    assert await first.add(task(f"/{n}") for n in range(40)) == 5
    second = await reopened(tmp_path)  # the first one was never closed
    assert await second.add(task(f"/{n}") for n in range(41)) == 1
    assert await leased_paths(second) == [f"/{n}" for n in range(41)]
    assert await second.ack("https://a.example/3")
    assert await second.ack("https://a.example/40")
    assert not await second.reserve_target("https://a.example/3", "https://a.example/from")
    assert await second.reserve_target("https://a.example/new", "https://a.example/from")
    await first.close()
    await second.close()


@pytest.mark.parametrize("frontier", [memory, sqlite], indirect=True)  # a map is made by one worker
async def test_what_is_found_of_a_url_that_waits_is_merged(frontier):
    first = UrlTask("https://a.example/1", "a.example", found=UrlSource("link"))
    await frontier.add([first])
    await frontier.add(
        [replace(first, found=UrlSource("sitemap", "2026")), replace(first, found=UrlSource("feed", "x", "T"))]
    )
    (lease,) = await frontier.lease(MANY, {}, MANY)
    assert lease.task.found == UrlSource("sitemap", "2026", "T")
    await frontier.release(lease.url)
    assert [again.task.found for again in await frontier.lease(MANY, {}, MANY)] == [lease.task.found]
    await frontier.ack(lease.url)
    assert await frontier.add([first]) == 0


async def test_a_site_is_not_given_up_before_its_last_page_is_acknowledged(tmp_path, redis_url):
    frontier = redis(tmp_path, redis_url, ack_seconds=0.2)
    await frontier.open()
    await frontier.add([task("/1"), task("/1", host="b.example")])
    leasing = asyncio.ensure_future(frontier.lease(1, {}, MANY))
    await asyncio.sleep(0)
    assert frontier.has_of("a.example")
    (lease,) = await leasing
    other = ({"a.example", "b.example"} - {lease.task.host}).pop()
    assert (frontier.has_of(lease.task.host), frontier.has_of(other)) == (True, False)
    ending = asyncio.ensure_future(frontier.ack(lease.url))
    await asyncio.sleep(0)
    assert not frontier.holds(lease.url)
    assert frontier.has_of(lease.task.host)
    assert await ending
    assert not frontier.has_of(lease.task.host)
    await frontier.close()


@pytest.mark.parametrize(
    "packed",
    [
        UrlTask("https://a.example/", "a.example"),
        UrlTask("http://a.example:81/x?y=1", "a.example:81", 3, "http://a.example:81/", 7, "group"),
        UrlTask("https://a.example/ü", "a.example", 0, "https://b.example/from", -1),
        UrlTask("https://a.example", "a.example", 1),
        UrlTask("https://a.example.evil/x", "a.example", 1, "https://a.example"),
    ],
)
def test_a_packed_task_is_the_same_again(packed):
    assert unpack(pack(packed), packed.host, packed.group, packed.priority) == packed
