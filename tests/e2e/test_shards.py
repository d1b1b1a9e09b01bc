"""Workers on one crawl whose sites are in several Redis servers, or in a Cluster, and one of these is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from llmcrawler.fleet.shards import shard_of_url, shard_prefixes
from tests.e2e.crawling import TIMEOUT_SECONDS, scrapy
from tests.e2e.killing import wait_until
from tests.e2e.test_fleet import MOST_LEASES, Fleet
from tests.servers.many_hosts import ManyHosts
from tests.servers.many_pages import ManyPages
from tests.servers.redis_cluster import ClusterOfMasters
from tests.servers.redis_server import RedisServer

HOSTS = 2  # of each shard
SPARE_HOSTS = 30  # to choose them from: which shard has which depends on the site's port


class ShardedCrawl:
    """Two workers on a site of several hosts. `hosts` has by shard the urls of its hosts."""

    def __init__(self, folder: Path, redis_url: str, shards: int, sites: ManyHosts, max_pages: int = 10_000) -> None:
        self.sites = sites
        self.hosts = [[url for url in sites.urls if shard_of_url(url, shards) == at][:HOSTS] for at in range(shards)]
        assert all(len(some) == HOSTS for some in self.hosts)
        settings = {
            "REDIS_URL": redis_url,
            "CRAWL_ID": "shop",
            "REDIS_LEASE_SECONDS": 20,
            "DOWNLOAD_DELAY": 0.05,
            "DOWNLOAD_DELAY_JITTER": 0,
        }
        self.fleet = Fleet(folder, ",".join(url for some in self.hosts for url in some), settings, max_pages)

    def wanted(self, shard: int) -> set[str]:
        return {url.rstrip("/") + path for url in self.hosts[shard] for path in self.sites.pages.paths}

    def asked(self, shard: int) -> set[str]:
        port = self.sites.port
        asked = {
            f"http://{host}:{port}{path}" for host, all_of in list(self.sites.starts.items()) for _, path in all_of
        }
        return asked & self.wanted(shard)

    def wait_for(self, shard: int, pages: int) -> None:
        wait_until(lambda: len(self.asked(shard)) >= pages, self.sites.pages, self.fleet.workers[-1])
        assert len(self.asked(shard)) >= pages, self.fleet.log(0)

    def hold(self, shard: int) -> None:
        """Have no host of a shard answer until they are let go."""
        for url in self.hosts[shard]:
            self.sites.hold(url.removeprefix("http://").partition(":")[0])

    def let_go(self, shard: int) -> None:
        for url in self.hosts[shard]:
            self.sites.let_go(url.removeprefix("http://").partition(":")[0])

    def check_end(self, *, killed: int = 0) -> None:
        """Wait for all workers that were not killed; each page has one line, but for those that were in flight: at a
        worker that was killed, or at a Redis whose file lacks its last moments (appendfsync everysec).
        """
        alive = self.fleet.workers[killed:]
        assert [worker.wait(TIMEOUT_SECONDS) for worker in alive] == [0] * len(alive), self.fleet.log(killed)
        found = self.fleet.pages()
        wanted = set().union(*map(self.wanted, range(len(self.hosts))))
        assert found.keys() == wanted
        assert found.total() <= len(wanted) + MOST_LEASES * HOSTS * (1 + len(self.hosts) * killed)
        assert not any("Traceback" in self.fleet.log(number) for number in range(killed, len(self.fleet.workers)))


@contextmanager
def crawl_of(folder: Path, redis_url: str, shards: int, pages: int, max_pages: int = 10_000) -> Iterator[ShardedCrawl]:
    sites = ManyHosts(SPARE_HOSTS, ManyPages(pages, latency_seconds=0.02))
    with sites.in_thread():
        crawl = ShardedCrawl(folder, redis_url, shards, sites, max_pages)
        with crawl.fleet as fleet:
            fleet.start()
            fleet.start()
            yield crawl


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[RedisServer]]:
    folders = [tmp_path / "redis0", tmp_path / "redis1"]
    for folder in folders:
        folder.mkdir()
    with RedisServer(folders[0]) as one, RedisServer(folders[1]) as other:
        yield [one, other]


def status(redis_url: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(scrapy("status", "--json", redis_url, "shop").stdout)
    return shown


def test_where_one_of_two_shards_is_killed_the_others_sites_go_on_and_all_do_when_it_is_back(tmp_path, servers):
    one, other = servers
    urls = f"{one.url},{other.url}"
    with crawl_of(tmp_path, urls, 2, 50) as crawl:
        crawl.wait_for(1, 20)
        crawl.hold(1)
        shown = status(urls)
        assert (shown["state"], shown["host_count"], len(shown["workers"])) == ("running", 2 * HOSTS, 2)
        other.kill()
        crawl.let_go(1)
        crawl.wait_for(0, len(crawl.wanted(0)))
        assert len(crawl.asked(1)) < len(crawl.wanted(1))
        other.start()
        crawl.check_end()
        shown = status(urls)
        assert (shown["state"], shown["urls"]["done"]) == ("finished", len(crawl.wanted(0) | crawl.wanted(1)))
        for number in range(2):
            assert f"Redis at {other.url} is away" in crawl.fleet.log(number)
            assert f"Redis at {one.url} is away" not in crawl.fleet.log(number)


def test_a_cluster_that_misses_a_master_for_a_while_and_a_worker_for_ever_loses_no_page(tmp_path):
    with ClusterOfMasters(tmp_path) as cluster, crawl_of(tmp_path, cluster.url, 3, 45) as crawl:
        node = cluster.nodes[key_slot(shard_prefixes("shop", 3)[2].encode()) * 3 // 16384]
        crawl.wait_for(2, 20)
        node.kill()
        crawl.wait_for(1, len(crawl.wanted(1)) // 2)
        crawl.fleet.workers[0].kill()
        crawl.fleet.start()
        node.start()
        crawl.check_end(killed=1)
        shown = status(cluster.url)
        assert (shown["state"], shown["urls"]["queued"], shown["urls"]["leased"]) == ("finished", 0, 0)


def test_max_pages_are_those_of_all_shards_together(tmp_path, servers):
    with crawl_of(tmp_path, ",".join(server.url for server in servers), 2, 40, max_pages=50) as crawl:
        workers = crawl.fleet.workers
        assert [worker.wait(TIMEOUT_SECONDS) for worker in workers] == [0, 0], crawl.fleet.log(0)
        assert crawl.fleet.pages().total() == 50
