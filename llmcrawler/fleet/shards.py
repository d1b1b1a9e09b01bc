"""Shares the sites of a crawl out to shards: queues of their own, each in a Redis or in a slot of a Cluster."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from redis.crc import key_slot

from llmcrawler.core.storage import url_key
from llmcrawler.core.urls import site_name
from llmcrawler.fleet.connection import TIMEOUT_SECONDS, key_prefix
from llmcrawler.fleet.redis_address import CLUSTER, RedisAddress, redis_addresses

_SLOTS: Final = 16384  # of a Cluster
_NO_SITE: Final = "invalid"  # host of the entries of lists that cannot be fetched


@dataclass(frozen=True, slots=True)
class Shard:
    """One queue of a crawl. The first one (0) also keeps what is one for the whole crawl: quotas of pages, the budget,
    the limits and the answers of the model.
    """

    url: str
    prefix: str
    number: int = 0
    count: int = 1

    def __str__(self) -> str:
        return f"{self.number + 1} of {self.count}"

    def client(self, **options: Any) -> Any:
        """Make a client that waits; the caller closes it."""
        return redis_addresses(self.url)[0].client(TIMEOUT_SECONDS, **options)


def shards_of(url: str, crawl_id: str) -> tuple[Shard, ...]:
    """Return the shards of a crawl: an address each, or in a Cluster as many as there were masters when it began. That
    one is asked. Raises ConfigError for what is no address, and redis-py's errors.
    """
    addresses = redis_addresses(url)
    if addresses[0].kind == CLUSTER:
        addresses *= _count_in_cluster(addresses[0], crawl_id)
    prefixes = shard_prefixes(crawl_id, len(addresses))
    return tuple(
        Shard(address.url, prefix, number, len(addresses))
        for number, (address, prefix) in enumerate(zip(addresses, prefixes, strict=True))
    )


def shard_prefixes(crawl_id: str, shards: int) -> list[str]:
    """Return the prefix of the keys of each shard. Their slots lie in different parts of a Cluster's, as many as there
    are shards, so that each master has one where slots are shared out evenly.
    """
    found: dict[int, str] = {}
    for number in count():
        prefix = key_prefix(f"{crawl_id}/{number}" if number else crawl_id)
        found.setdefault(key_slot(prefix.encode()) * shards // _SLOTS, prefix)
        if len(found) == shards:
            return list(found.values())
    raise AssertionError


def shard_of_site(site: str, shards: int) -> int:
    """Return the number of the shard that has a site. Shards stay as they are for the whole crawl."""
    return url_key(site) % shards


def shard_of_url(url: str, shards: int) -> int:
    return shard_of_site(site_name(url) or _NO_SITE, shards)


def _count_in_cluster(address: RedisAddress, crawl_id: str) -> int:
    with closing(address.client(TIMEOUT_SECONDS)) as client:
        known = client.hget(f"{key_prefix(crawl_id)}:meta", "shard")
        return int(known.split()[-1]) if known else len(client.get_primaries())
