"""What REDIS_URL may name."""

from __future__ import annotations

import asyncio

import pytest

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.errors import ConfigError
from llmcrawler.fleet.connection import RedisConnection, check_redis, redis_address, shown
from llmcrawler.fleet.redis_frontier import RedisFrontier
from tests.servers.redis_sentinel import sentinel_of
from tests.servers.redis_server import RedisServer

SECONDS = 60  # for what hangs


@pytest.mark.parametrize(
    ("url", "hosts", "service", "options"),
    [
        ("redis://:pass,word@a:1/2", (), "", {}),
        ("rediss://a", (), "", {}),
        ("unix:///run/redis.sock", (), "", {}),
        ("redis+sentinel://:pw@a,b:2/main/3", (("a", 26379), ("b", 2)), "main", {"password": "pw", "db": 3}),
        ("redis+sentinel://[::1]:5/main", (("::1", 5),), "main", {"db": 0}),
        (
            "rediss+sentinel://me:pw@a:1/main",
            (("a", 1),),
            "main",
            {"username": "me", "password": "pw", "db": 0, "ssl": True},
        ),
    ],
)
def test_an_address_names_a_server_or_what_sentinels_watch(url, hosts, service, options):
    address = redis_address(url)
    assert (address.hosts, address.service, dict(address.options)) == (hosts, service, options)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://a", "redis://"),
        ("redis+sentinel://a", "name the service they watch"),
        ("redis+sentinel://a:x/main", "Port"),
        ("redis+sentinel://,/main", "not a host"),
        ("redis://a,b", "several addresses: .* one Redis; split the sites over several crawls"),
        ("redis://a,redis://b", "several addresses: .* one Redis; split the sites over several crawls"),
        ("redis+sentinel://a/main, redis://b", "several addresses"),
        ("redis+cluster://a:7000,b", "a Redis Cluster: .* one Redis; split the sites over several crawls"),
        ("rediss+cluster://a", "a Redis Cluster"),
    ],
)
def test_what_is_not_one_redis_is_refused_with_the_cure(url, words):
    with pytest.raises(ConfigError, match=f"REDIS_URL=.*{words}"):
        redis_address(url)
    with pytest.raises(ConfigError, match=f"REDIS_URL=.*{words}"):
        check_redis(url, "crawl")


def test_no_password_of_several_addresses_is_shown():
    assert shown("redis://:p,w@a:1, redis://b,redis+sentinel://:pw@c,d/main") == (
        "redis://a:1,redis://b,redis+sentinel://c,d/main"
    )


@pytest.mark.server
def test_what_answers_at_an_address_is_what_it_was_named_as(tmp_path):
    folders = [tmp_path / name for name in ("server", "cluster", "sentinel")]
    for folder in folders:
        folder.mkdir()
    with (
        RedisServer(folders[0]) as server,
        RedisServer(folders[1], "--cluster-enabled", "yes") as cluster,
        sentinel_of(server, folders[2]) as sentinel,
    ):
        for url in (server.url, sentinel):
            check_redis(url, "crawl")
        for url, words in (
            (cluster.url, "in Redis Cluster mode: .* one Redis; split the sites over several crawls"),
            (sentinel.replace("+sentinel", "").removesuffix("/mymaster"), r"redis\+sentinel://"),
            (sentinel.replace("mymaster", "other"), "names a master"),
            ("redis://127.0.0.1:1", "no Redis responds there"),
        ):
            with pytest.raises(ConfigError, match=words):
                check_redis(url, "crawl")


@pytest.mark.server
async def test_a_sentinel_names_the_server_and_it_may_be_away_for_a_while(tmp_path):
    for name in ("server", "sentinel"):
        (tmp_path / name).mkdir()
    with RedisServer(tmp_path / "server") as server, sentinel_of(server, tmp_path / "sentinel") as url:
        connection = RedisConnection(url, "crawl", "w1")
        frontier = RedisFrontier(connection, max_leases=5, max_pages=1000)
        await frontier.open()
        await connection.run("beat", "w1", "{}", 3600, 1, 0)
        hosts = [f"{number}.example" for number in range(4)]
        assert await frontier.add(UrlTask(f"https://{host}/{n}", host) for host in hosts for n in range(3)) == 12
        server.stop()
        waiting = asyncio.ensure_future(frontier.lease(100, {}, 100))
        server.start()
        async with asyncio.timeout(SECONDS):
            leases = await waiting
            while not leases:
                leases = await frontier.lease(100, {}, 100)
        assert len(leases) == 12
        connection.stop_waiting(0)
        await frontier.close()
