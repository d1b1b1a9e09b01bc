"""What REDIS_URL may name, and the shards that follow from it."""

from __future__ import annotations

from collections import Counter

import pytest
from redis.crc import key_slot

from llmcrawler.errors import ConfigError
from llmcrawler.fleet.redis_address import CLUSTER, SENTINEL, SERVER, redis_addresses, shown
from llmcrawler.fleet.redis_checks import check_redis
from llmcrawler.fleet.shards import shard_of_site, shard_of_url, shard_prefixes, shards_of
from tests.servers.redis_cluster import ClusterOfMasters, sentinel_of
from tests.servers.redis_server import RedisServer


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "service", "options"),
    [
        ("redis://:pass,word@a:1/2", SERVER, (), "", {}),
        ("unix:///run/redis.sock", SERVER, (), "", {}),
        ("redis+cluster://a:7000,b", CLUSTER, (("a", 7000), ("b", 6379)), "", {}),
        ("rediss+cluster://me:pw@a:1", CLUSTER, (("a", 1),), "", {"username": "me", "password": "pw", "ssl": True}),
        ("redis+sentinel://:pw@a,b:2/main/3", SENTINEL, (("a", 26379), ("b", 2)), "main", {"password": "pw", "db": 3}),
        ("redis+sentinel://[::1]:5/main", SENTINEL, (("::1", 5),), "main", {"db": 0}),
    ],
)
def test_an_address_names_a_server_a_cluster_or_what_sentinels_watch(url, kind, hosts, service, options):
    (address,) = redis_addresses(url)
    assert (address.kind, address.hosts, address.service, dict(address.options)) == (kind, hosts, service, options)


def test_a_list_names_a_shard_each(tmp_path):
    url = "redis://:p,w@a:1, redis://b,redis+sentinel://:pw@c,d/main"
    assert [one.url for one in redis_addresses(url)] == [
        "redis://:p,w@a:1",
        "redis://b",
        "redis+sentinel://:pw@c,d/main",
    ]
    assert shown(url) == "redis://a:1,redis://b,redis+sentinel://c,d/main"
    assert [str(shard) for shard in shards_of(url, "crawl")] == ["1 of 3", "2 of 3", "3 of 3"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://a", "redis://"),
        ("redis://a,b", "its scheme"),
        ("redis+cluster://a/3", "no databases but 0"),
        ("redis+cluster://a,redis://b", "name it alone"),
        ("redis+sentinel://a", "name what they watch"),
        ("redis+sentinel://a:x/main", "Port"),
        ("redis+sentinel://,/main", "no host"),
        ("redis://a,redis://a", "twice"),
    ],
)
def test_what_is_no_address_is_told_with_its_setting(url, words):
    with pytest.raises(ConfigError, match=f"REDIS_URL=.*{words}"):
        redis_addresses(url)


def test_shards_lie_in_different_parts_of_a_cluster_and_sites_spread_over_them():
    for shards in (1, 2, 3, 16):
        prefixes = shard_prefixes("shop", shards)
        assert prefixes[0] == "llmcrawler:{shop}"
        assert {key_slot(prefix.encode()) * shards // 16384 for prefix in prefixes} == set(range(shards))
    spread = Counter(shard_of_site(f"site{number}.example", 4) for number in range(4000))
    assert min(spread.values()) > 900
    assert shard_of_url("https://www.a.example/1", 16) == shard_of_site("a.example", 16)


@pytest.mark.server
def test_what_answers_at_an_address_is_what_it_was_named_as(tmp_path):
    folders = [tmp_path / name for name in ("server", "cluster", "sentinel")]
    for folder in folders:
        folder.mkdir()
    with (
        RedisServer(folders[0]) as server,
        ClusterOfMasters(folders[1], 1) as cluster,
        sentinel_of(server, folders[2]) as sentinel,
    ):
        for url in (server.url, cluster.url, sentinel):
            check_redis(url, "crawl")
        for url, words in (
            (server.url.replace("://", "+cluster://").removesuffix("/0"), "Cluster"),
            (cluster.url.replace("+cluster", ""), r"redis\+cluster://"),
            (sentinel.replace("+sentinel", "").removesuffix("/mymaster"), r"redis\+sentinel://"),
            (sentinel.replace("mymaster", "other"), "names a master"),
            (f"{server.url},redis://127.0.0.1:1", "no Redis answers there"),
        ):
            with pytest.raises(ConfigError, match=words):
                check_redis(url, "crawl")
