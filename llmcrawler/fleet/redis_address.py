"""Reads what REDIS_URL names: one server, or the master that Sentinels watch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from redis import asyncio as aioredis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from llmcrawler.errors import ConfigError

SERVER, SENTINEL = "server", "sentinel"
ONE_REDIS: Final = "a crawl is kept in one Redis; split the sites over several crawls where one does not hold them"
_SENTINEL_PORT: Final = 26379
_NEXT_ADDRESS: Final = re.compile(r",\s*(?=[a-z+]+://)")  # hosts of one address are parted by commas, too
_SENTINEL: Final = re.compile(r"(rediss?)\+sentinel\Z")
_CLUSTER: Final = re.compile(r"rediss?\+cluster\Z")


def shown(url: str) -> str:
    """Return what REDIS_URL has, without passwords."""
    return ",".join(map(_shown, _NEXT_ADDRESS.split(url)))


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """What REDIS_URL names. `options` are those of redis-py for a connection, without hosts."""

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
        return self._master(AsyncSentinel, limits, AsyncRetry(NoBackoff(), 0))

    def client(self, timeout_seconds: float, **options: Any) -> Any:
        """Make a client that waits; the caller closes it."""
        limits = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds, **options}
        if self.kind == SERVER:
            return redis.Redis.from_url(self.url, **limits)
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


def redis_address(url: str) -> RedisAddress:
    """Return what REDIS_URL names. Raises ConfigError for what is no address, several addresses, or a Cluster."""
    scheme, _, rest = url.partition("://")
    if _CLUSTER.match(scheme):
        raise ConfigError(f"REDIS_URL={shown(url)}: it names a Redis Cluster: {ONE_REDIS}")
    special = _SENTINEL.match(scheme)
    try:
        if len(_NEXT_ADDRESS.split(url)) > 1 or (special is None and "," in (urlsplit(url).hostname or "")):
            raise ConfigError(f"REDIS_URL={shown(url)}: it names several addresses: {ONE_REDIS}")
        if special is None:
            parse_url(url)
            return RedisAddress(url, SERVER, ())
        return _watched(url, f"{special[1]}://{rest}")
    except ValueError as error:
        raise ConfigError(f"REDIS_URL={shown(url)}: {error}") from error


def _watched(url: str, plain: str) -> RedisAddress:
    parts = urlsplit(plain)
    given, _, hosts = parts.netloc.rpartition("@")
    found = tuple(_host(host) for host in hosts.split(","))
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("after the Sentinels name what they watch: redis+sentinel://host:26379,host2:26379/mymaster")
    at = f"{given}@localhost" if given else "localhost"
    options: dict[str, Any] = dict(parse_url(parts._replace(netloc=at, path=f"/{database or 0}").geturl()))
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    if parts.scheme == "rediss":
        options["ssl"] = True
    return RedisAddress(url, SENTINEL, found, tuple(options.items()), service)


def _host(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text.strip()}")
    if not parts.hostname:
        raise ValueError(f"{text!r} is no host with its port")
    return parts.hostname, parts.port or _SENTINEL_PORT
