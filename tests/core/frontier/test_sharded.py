"""The frontier of several shards, in Redis servers of their own, in a Cluster, and behind a Sentinel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.crc import key_slot

from llmcrawler.core.frontier import Counts, Lease, UrlTask
from llmcrawler.core.storage import Outcome
from llmcrawler.fleet.connection import RedisConnection
from llmcrawler.fleet.membership import WorkerHeartbeats, WorkerReport
from llmcrawler.fleet.redis_frontier import RedisFrontier
from llmcrawler.fleet.sharded import _GIVE_BACK, _LEND, _READ, _TAKE, PageQuotas, ShardedFrontier
from llmcrawler.fleet.shards import shard_of_url, shards_of
from tests.core.frontier.test_frontier import MANY, task
from tests.servers.redis_cluster import ClusterOfMasters, sentinel_of
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server
SECONDS = 60  # for what hangs


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[RedisServer]]:
    folders = [tmp_path / "redis0", tmp_path / "redis1"]
    for folder in folders:
        folder.mkdir()
    with RedisServer(folders[0]) as one, RedisServer(folders[1]) as other:
        yield [one, other]


@asynccontextmanager
async def worker(url: str, name: str = "w1", max_pages: int = 1000) -> AsyncIterator[ShardedFrontier]:
    """A worker's frontier, as its session makes it."""
    shards = []
    for shard in shards_of(url, "crawl"):
        connection = RedisConnection(shard.url, "crawl", name, prefix=shard.prefix)
        shards.append(RedisFrontier(connection, max_leases=5, max_pages=max_pages))
        await shards[-1].open()
        await WorkerHeartbeats(connection, 3600).beat(WorkerReport(name, "m", 1, 2.0), joins=True)
    frontier = ShardedFrontier(shards, 0, max_pages)
    await frontier.open()
    try:
        yield frontier
    finally:
        frontier.close()
        for one in shards:
            one.connection.stop_waiting(0)
            await one.close()


def urls_of(servers: Iterable[RedisServer]) -> str:
    return ",".join(server.url for server in servers)


def hosts_of(shard: int, count: int = 2, shards: int = 2) -> list[str]:
    names = (f"{number}.example" for number in range(1000))
    return [name for name in names if shard_of_url(f"https://{name}/", shards) == shard][:count]


def some(shards: int = 2, each: int = 3) -> list[UrlTask]:
    return [task(f"/{n}", host) for shard in range(shards) for host in hosts_of(shard, 2, shards) for n in range(each)]


async def leased(frontier: ShardedFrontier, limit: int = MANY) -> list[Lease]:
    return await asyncio.wait_for(frontier.lease(limit, {}, MANY), SECONDS)


async def finish(frontier: ShardedFrontier, leases: Iterable[Lease], outcome: Outcome | None = None) -> None:
    assert all(await asyncio.gather(*(frontier.ack(lease.url, outcome) for lease in leases)))


async def test_each_site_is_in_one_shard_and_no_more_of_them_are_asked_than_are_needed(servers):
    async with worker(urls_of(servers)) as frontier:
        assert await frontier.add(some()) == 12
        assert await frontier.add(some()) == 0
        for number, server in enumerate(servers):
            said = server.client().hkeys(f"{frontier._shards[number].connection.prefix}:hosts")
            assert {name.decode().split()[1] for name in said} == set(hosts_of(number))
        first, second = await leased(frontier, 2), await leased(frontier, 2)
        assert [{lease.task.host for lease in leases} <= set(hosts_of(n)) for n, leases in enumerate((first, second))]
        assert frontier.counts() == Counts(queued=8, leased=4)
        await finish(frontier, first)
        assert [await frontier.release(lease.url) for lease in second] == [True, True]
        assert len(await leased(frontier)) == 10


async def test_a_shard_that_is_away_keeps_its_own_sites_waiting_and_what_it_leased_comes_when_it_is_back(servers):
    async with worker(urls_of(servers)) as frontier:
        await frontier.add(some())
        here, there = ([item for item in some() if item.host in hosts_of(shard)] for shard in (0, 1))
        servers[1].stop()
        assert {lease.url for lease in await leased(frontier)} == {item.url for item in here}
        assert await leased(frontier) == []
        assert await frontier.add([task("/new", hosts_of(0)[0])]) == 1
        linking = asyncio.ensure_future(frontier.add([task("/new", hosts_of(1)[0])]))
        assert await leased(frontier) != []
        assert not linking.done()  # the page that has this link is not acknowledged before
        servers[1].start()
        assert await asyncio.wait_for(linking, SECONDS) == 1
        found: set[str] = set()
        async with asyncio.timeout(SECONDS):
            while len(found) < len(there) + 1:
                found |= {lease.url for lease in await frontier.lease(MANY, {}, MANY)}
        assert found == {item.url for item in there} | {f"https://{hosts_of(1)[0]}/new"}


async def test_work_begins_though_the_shard_of_its_url_is_away(servers):
    async with worker(urls_of(servers)) as frontier:
        await frontier.add(some())
        leases = await leased(frontier)
        servers[1].stop()
        await asyncio.wait_for(asyncio.gather(*(frontier.start(lease.url) for lease in leases)), SECONDS)
        assert all(frontier.holds(lease.url) for lease in leases)
        servers[1].start()
        await asyncio.wait_for(finish(frontier, leases), SECONDS)
        assert frontier.counts() == Counts(done=12)


async def test_priorities_of_groups_reach_a_shard_before_its_urls_are_leased(servers):
    async with worker(urls_of(servers)) as frontier:
        for host in (hosts_of(0)[0], hosts_of(1)[0]):
            await frontier.add([UrlTask(f"https://{host}/{group}", host, group=group) for group in "ab"])
        await frontier.set_priorities({"a": 2, "b": 1})
        assert [lease.task.group for lease in await leased(frontier)] == ["b", "a", "b", "a"]


# -- max_pages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_pages", [1, 7, 10])
async def test_all_shards_and_workers_together_keep_to_max_pages(servers, max_pages):
    url = urls_of(servers)
    async with worker(url, "w1", max_pages) as one, worker(url, "w2", max_pages) as other:
        await one.add(some(each=20))
        done = 0
        while leases := [*await leased(one, 3), *await leased(other, 3)]:
            done += len(leases)
            for frontier in (one, other):
                await finish(frontier, [lease for lease in leases if frontier.holds(lease.url)])
        assert done == max_pages


async def test_what_one_shard_does_not_need_of_max_pages_goes_to_the_others(servers):
    async with worker(urls_of(servers), max_pages=20) as frontier:
        quotas = frontier._quotas
        assert await quotas.extend(0, 20)  # all of them, for a shard that has two urls
        await frontier.add([task(f"/{n}", hosts_of(0)[0]) for n in range(2)])
        await frontier.add([task(f"/{n}", hosts_of(1)[0]) for n in range(40)])
        leases = await leased(frontier)
        leases += await leased(frontier)
        assert [sum(lease.task.host in hosts_of(shard) for lease in leases) for shard in (0, 1)] == [2, 18]
        await frontier.release(leases[-1].url)
        await finish(frontier, leases[:1], Outcome(None, {}, is_dead=True))  # it gives its place back
        assert len(await leased(frontier)) == 2


async def test_no_page_is_lent_twice_where_a_worker_dies_between_two_commands(servers):
    async with worker(urls_of(servers), max_pages=100) as frontier:
        one, other = (shard.connection for shard in frontier._shards)
        quotas = PageQuotas([one, other], 100)
        await one.run(_LEND, 1, 0, 0, 30, 100)  # and the shard does not hear of it
        assert await quotas.extend(1, 50)
        assert [int(part) for part in await other.run(_READ)] == [30, 0]
        assert [int(part) for part in await other.run(_GIVE_BACK, 100)] == [0, 1]  # and the first one does not hear
        await other.run(_TAKE, 60, 0)  # a block that is on its way since before
        assert [int(part) for part in await other.run(_READ)] == [0, 1]
        assert await quotas.extend(0, 90)
        assert await quotas.extend(1, 90)
        assert [int((await shard.run(_READ))[0]) for shard in (one, other)] == [70, 30]


# -- Cluster and Sentinel ----------------------------------------------------------------------------------------------


async def test_a_cluster_has_a_shard_at_each_master_and_may_miss_one_for_a_while(tmp_path):
    with ClusterOfMasters(tmp_path) as cluster:
        async with worker(cluster.url) as frontier:
            assert len(frontier._shards) == 3
            assert await frontier.add(some(3)) == 18
            for node in cluster.nodes:
                with node.client() as client:
                    assert sum(name.endswith(b":hosts") for name in client.keys("llmcrawler:*")) == 1
            leases = await leased(frontier)
            assert {lease.url for lease in leases} == {item.url for item in some(3)}
            cluster.nodes[2].stop()
            away = [lease for lease in leases if shard_of_node(frontier, lease) == 2]
            await asyncio.wait_for(finish(frontier, [lease for lease in leases if lease not in away]), SECONDS)
            waiting = asyncio.ensure_future(finish(frontier, away))
            cluster.nodes[2].start()
            await asyncio.wait_for(waiting, SECONDS)
            assert frontier.counts() == Counts(done=18)
        async with worker(cluster.url, "w2") as later:
            assert later.counts() == Counts(done=18)


def shard_of_node(frontier: ShardedFrontier, lease: Lease) -> int:
    """The number of the Cluster's node that has the site of a lease."""
    return key_slot(frontier.of(lease.url).connection.prefix.encode()) * 3 // 16384


async def test_a_sentinel_names_the_server_and_it_may_be_away_for_a_while(servers, tmp_path):
    with sentinel_of(servers[0], tmp_path) as url:
        async with worker(url) as frontier:
            assert await frontier.add(some()) == 12
            servers[0].stop()
            waiting = asyncio.ensure_future(frontier.lease(MANY, {}, MANY))
            servers[0].start()
            async with asyncio.timeout(SECONDS):
                leases = await waiting
                while not leases:
                    leases = await frontier.lease(MANY, {}, MANY)
            assert len(leases) == 12
