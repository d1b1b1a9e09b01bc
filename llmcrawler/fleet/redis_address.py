"""Reads what REDIS_URL names: a server, a Redis Cluster, or a master that Sentinels watch; one, or a list of shards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from redis import asyncio as aioredis
from redis import exceptions as faults
from redis.asyncio import cluster as async_cluster
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.retry import Retry
from redis.sentinel import Sentinel

from llmcrawler.errors import ConfigError

SERVER, CLUSTER, SENTINEL = "server", "cluster", "sentinel"
_ClusterNode: Any = ClusterNode  # redis-py has no types for it
_SENTINEL_PORT: Final = 26379
_NEXT_ADDRESS: Final = re.compile(r",\s*(?=[a-z+]+://)")  # hosts of one address are parted by commas, too
_KIND: Final = re.compile(r"(rediss?)\+(cluster|sentinel)\Z")
_TRIES_AGAIN: Final = 1  # where a Cluster has moved: it is asked who has the keys now


def shown(url: str) -> str:
    """Return what REDIS_URL has, without passwords."""
    return ",".join(map(_shown, _NEXT_ADDRESS.split(url)))


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


class _Cluster(aioredis.RedisCluster):
    """A client of a Cluster, from which a command may be sent while another one finds a node away: redis-py closes
    connections then that are in use, and the first one meets no stream, or one that is closed (uvloop).
    """

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().execute_command(*args, **kwargs)
        except (AttributeError, RuntimeError) as error:
            raise faults.ConnectionError("the connection was closed, as a node is away") from error


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """One address of REDIS_URL. `options` are those of redis-py for a connection, without hosts."""

    url: str
    kind: str
    hosts: tuple[tuple[str, int], ...]
    options: tuple[tuple[str, Any], ...] = ()
    service: str = ""

    def async_client(self, timeout_seconds: float) -> Any:
        """Make a client to await, which does not try again on its own, for `close_client`."""
        limits: dict[str, Any] = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds}
        if self.kind == SERVER:
            return aioredis.Redis.from_url(self.url, retry=AsyncRetry(NoBackoff(), 0), **limits)
        if self.kind == CLUSTER:
            nodes = [async_cluster.ClusterNode(*host) for host in self.hosts]
            limits["retry"] = AsyncRetry(NoBackoff(), _TRIES_AGAIN)
            return _Cluster(startup_nodes=nodes, require_full_coverage=False, **limits, **dict(self.options))
        return self._master(AsyncSentinel, limits, AsyncRetry(NoBackoff(), 0))

    def client(self, timeout_seconds: float, **options: Any) -> Any:
        """Make a client that waits; the caller closes it."""
        limits = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds, **options}
        if self.kind == SERVER:
            return redis.Redis.from_url(self.url, **limits)
        if self.kind == CLUSTER:
            nodes = [_ClusterNode(*host) for host in self.hosts]
            return redis.RedisCluster(startup_nodes=nodes, require_full_coverage=False, **limits, **dict(self.options))
        return self._master(Sentinel, limits, Retry(NoBackoff(), 0))

    def _master(self, sentinel: Any, limits: Mapping[str, Any], retry: object) -> Any:
        """Make a client that asks the Sentinels who is the master, at each connection."""
        to_sentinel = {name: value for name, value in limits.items() if name.startswith("socket")}
        to_sentinel |= {name: value for name, value in self.options if name.startswith("ssl")}
        watching = sentinel(self.hosts, sentinel_kwargs=to_sentinel, **limits)
        return watching.master_for(self.service, retry=retry, **dict(self.options))


async def close_client(client: Any) -> None:
    """Close what `async_client` gave, with its own connections to Sentinels."""
    await client.aclose()
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    for watching in () if manager is None else manager.sentinels:
        await watching.aclose()


def redis_addresses(url: str) -> tuple[RedisAddress, ...]:
    """Return what REDIS_URL names: more than one are shards of the crawl. Raises ConfigError for what is no address."""
    found = tuple(map(_address, _NEXT_ADDRESS.split(url)))
    if len(found) > 1 and any(one.kind == CLUSTER for one in found):
        raise ConfigError(f"REDIS_URL={shown(url)}: a Cluster has shards of its own: name it alone")
    if len({one.url for one in found}) < len(found):
        raise ConfigError(f"REDIS_URL={shown(url)}: it names an address twice: a shard each, or once")
    return found


def _address(url: str) -> RedisAddress:
    scheme, _, rest = url.partition("://")
    special = _KIND.match(scheme)
    try:
        if special is None:
            parse_url(url)
            if "," in (urlsplit(url).hostname or ""):
                raise ValueError("in a list each address has its scheme: redis://host,redis://host2")
            return RedisAddress(url, SERVER, ())
        plain, kind = special[1], special[2]
        return _of_many(url, f"{plain}://{rest}", kind)
    except ValueError as error:
        raise ConfigError(f"REDIS_URL={shown(url)}: {error}") from error


def _of_many(url: str, plain: str, kind: str) -> RedisAddress:
    parts = urlsplit(plain)
    given, _, hosts = parts.netloc.rpartition("@")
    port = _SENTINEL_PORT if kind == SENTINEL else 6379
    found = tuple(_host(host, port) for host in hosts.split(","))
    service, _, database = parts.path.strip("/").partition("/")
    if kind == CLUSTER and service not in ("", "0"):
        raise ValueError("a Cluster has no databases but 0: leave it out")
    if kind == SENTINEL and not service:
        raise ValueError("after the Sentinels name what they watch: redis+sentinel://host:26379,host2:26379/mymaster")
    at = f"{given}@localhost" if given else "localhost"
    options: dict[str, Any] = dict(parse_url(parts._replace(netloc=at, path=f"/{database or 0}").geturl()))
    for name in ("host", "port", "connection_class", "db" if kind == CLUSTER else ""):
        options.pop(name, None)
    if parts.scheme == "rediss":
        options["ssl"] = True
    return RedisAddress(url, kind, found, tuple(options.items()), service if kind == SENTINEL else "")


def _host(text: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text.strip()}")
    if not parts.hostname:
        raise ValueError(f"{text!r} is no host with its port")
    return parts.hostname, parts.port or port
