"""A crawl in several Redis servers, or in a Cluster, is shown, paused, resumed and deleted as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from llmcrawler.errors import ConfigError
from llmcrawler.fleet.crawl_control import CRAWLS, delete, opened, pause, resume
from llmcrawler.fleet.crawl_status import crawl_summaries, distributed_status
from llmcrawler.fleet.queue_structure import FORMAT
from llmcrawler.fleet.shards import shards_of
from tests.core.frontier.test_sharded import hosts_of, leased, some, worker
from tests.servers.redis_cluster import ClusterOfMasters
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.server


@pytest.fixture(params=["servers", "cluster"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "cluster":
        with ClusterOfMasters(tmp_path, 2) as cluster:
            yield cluster.url
        return
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with RedisServer(tmp_path / "one") as one, RedisServer(tmp_path / "other") as other:
        yield f"{one.url},{other.url}"


def begin(url: str) -> None:
    fields = {"spec": '{"spider": "explore", "arguments": {}}', "started": "1", "state": "running", "id": "one"}
    with opened(url, "crawl") as shards:
        for shard, named in zip(shards, shards_of(url, "crawl"), strict=True):
            shard.client.hset(f"{shard.prefix}:meta", mapping={**fields, "format": FORMAT, "shard": str(named)})
        shards[0].client.sadd(CRAWLS, "crawl")


def keys_of(url: str) -> set[str]:
    with opened(url, "crawl") as shards:
        return {key for shard in shards for key in shard.client.scan_iter()}


async def test_the_shards_of_a_crawl_are_one_from_outside(url):
    begin(url)
    async with worker(url) as frontier:
        await frontier.add(some())
        held = await leased(frontier, 3)
        status = distributed_status(url, "crawl")
        assert (status.state, status.urls["queued"], status.urls["leased"]) == ("running", 12 - len(held), len(held))
        assert [one.report.worker for one in status.workers] == ["w1"]
        owned = {*status.workers[0].sites, *status.waiting_sites}
        assert owned == {*hosts_of(0), *hosts_of(1)} == {one.host for one in status.hosts}
        assert status.memory_bytes > 0
        (summary,) = crawl_summaries(url)
        assert (summary.crawl_id, summary.urls, summary.workers) == ("crawl", status.urls, 1)
        assert pause(url, "crawl")
        assert await leased(frontier) == []
        assert distributed_status(url, "crawl").state == "paused"
        assert resume(url, "crawl")
        assert len(await leased(frontier)) == 12 - len(held)
    with pytest.raises(ConfigError, match="has workers"):
        delete(url, "crawl", is_forced=False)
    count = len(keys_of(url))
    assert delete(url, "crawl", is_forced=True).keys == count - 1  # CRAWLS is none of the crawl's
    assert keys_of(url) == set()
    assert crawl_summaries(url) == ()
