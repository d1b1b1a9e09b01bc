"""Checks before the first request that a crawl can be kept in a Redis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import redis
from redis import exceptions as faults

from llmcrawler.distributed.connection import TIMEOUT_SECONDS, key_prefix, said_by, shown
from llmcrawler.distributed.queue_structure import FORMAT
from llmcrawler.errors import ConfigError

OLDEST: Final = (6, 2)
_CRAWL_ID: Final = re.compile(r"[\w.-]{1,100}\Z")
_MODES: Final = {
    "cluster": "it is a Redis Cluster, whose nodes would each have a part of the crawl: name a single server",
    "sentinel": "it is a Sentinel, which keeps nothing itself: name the server that it watches, by an address that "
    "stays the same in a failover",
}


def check_redis(url: str, crawl_id: str, *, to_write: bool = True) -> None:
    """Raise ConfigError where no crawl could be kept at the url, or without `to_write` not even be read."""
    if not _CRAWL_ID.match(crawl_id):
        raise ConfigError(
            f"CRAWL_ID={crawl_id!r}: with REDIS_URL it names the crawl that the workers share: letters, digits and .-_"
        )
    try:
        client: redis.Redis = redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        )
    except ValueError as error:
        raise ConfigError(f"REDIS_URL={shown(url)}: {error}") from error
    with closing(client):
        try:
            check_server(url, client.info("server"))
            if to_write:
                _check_memory(url, client.info("memory"))
                client.set(f"{key_prefix(crawl_id)}:check", 1, px=1)
        except (faults.AuthenticationError, faults.NoPermissionError, faults.AuthorizationError) as error:
            raise ConfigError(
                f"REDIS_URL={shown(url)}: it refuses the user or the password ({said_by(error)})"
            ) from error
        except faults.ResponseError as error:
            raise ConfigError(f"REDIS_URL={shown(url)}: no crawl can be kept there ({said_by(error)})") from error
        except (faults.RedisError, OSError) as error:
            raise ConfigError(f"REDIS_URL={shown(url)}: no Redis answers there ({said_by(error)})") from error


def check_server(url: str, said: Mapping[str, Any]) -> None:
    """Raise ConfigError for a server that will not do, by the section `server` of its INFO."""
    version = str(said.get("valkey_version") or said.get("redis_version") or "0")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise ConfigError(f"REDIS_URL={shown(url)}: it is version {version}; 6.2 is the oldest that will do")
    mode = _MODES.get(str(said.get("server_mode") or said.get("redis_mode")))
    if mode is not None:
        raise ConfigError(f"REDIS_URL={shown(url)}: {mode}")


def _check_memory(url: str, said: Mapping[str, Any]) -> None:
    policy = str(said.get("maxmemory_policy"))
    if said.get("maxmemory") and policy.startswith("allkeys"):
        raise ConfigError(
            f"REDIS_URL={shown(url)}: with maxmemory-policy {policy} it throws urls away when it is full; "
            "a crawl needs noeviction"
        )


def check_format(crawl_id: str, found: str | None) -> None:
    """Raise ConfigError where the keys of a crawl have another format (None: the first one, which had no number)."""
    if found != str(FORMAT):
        raise ConfigError(
            f"CRAWL_ID={crawl_id}: another version of llmcrawler has begun it; its keys in Redis are of format "
            f"{found or 1}, those of this version are of format {FORMAT}. Let that version finish it, name another "
            f"CRAWL_ID, or delete it: scrapy workers delete --force REDIS_URL {crawl_id}"
        )
