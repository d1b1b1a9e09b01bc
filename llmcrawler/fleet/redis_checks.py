"""Checks before the first request that a crawl can be kept in a Redis."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from redis import exceptions as faults
from redis.sentinel import MasterNotFoundError

from llmcrawler.errors import ConfigError
from llmcrawler.fleet.connection import TIMEOUT_SECONDS, key_prefix, said_by
from llmcrawler.fleet.queue_structure import FORMAT
from llmcrawler.fleet.redis_address import ONE_REDIS, redis_address, shown

OLDEST: Final = (6, 2)
_CRAWL_ID: Final = re.compile(r"[\w.-]{1,100}\Z")
_MODES: Final = {
    "cluster": f"it is in Redis Cluster mode: {ONE_REDIS}",
    "sentinel": "it is a Sentinel, which keeps nothing itself: name it with what it watches, as "
    "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE",
}


def check_redis(url: str, crawl_id: str, *, to_write: bool = True) -> None:
    """Raise ConfigError where no crawl could be kept at the url, or without `to_write` not even be read."""
    if not _CRAWL_ID.match(crawl_id):
        raise ConfigError(
            f"CRAWL_ID={crawl_id!r}: with REDIS_URL it names the crawl that the workers share: letters, digits and .-_"
        )
    where = f"REDIS_URL={shown(url)}"
    try:
        with closing(redis_address(url).client(TIMEOUT_SECONDS)) as client:
            check_server(url, client.info("server"))
            if to_write:
                _check_memory(url, client.info("memory"))
                client.set(f"{key_prefix(crawl_id)}:check", 1, px=1)
    except (faults.AuthenticationError, faults.NoPermissionError, faults.AuthorizationError) as error:
        raise ConfigError(f"{where}: it refuses the user or the password ({said_by(error)})") from error
    except MasterNotFoundError as error:
        raise ConfigError(f"{where}: no Sentinel there names a master ({said_by(error)})") from error
    except faults.ResponseError as error:
        raise ConfigError(f"{where}: no crawl can be kept there ({said_by(error)})") from error
    except (faults.RedisError, OSError) as error:
        raise ConfigError(f"{where}: no Redis answers there ({said_by(error)})") from error


def check_server(url: str, said: Mapping[str, Any]) -> None:
    """Raise ConfigError for a server that will not do, by the section `server` of its INFO."""
    version = str(said.get("valkey_version") or said.get("redis_version") or "0")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise ConfigError(f"REDIS_URL={shown(url)}: it is version {version}; 6.2 is the oldest that will do")
    mode = str(said.get("server_mode") or said.get("redis_mode"))
    if mode in _MODES:
        raise ConfigError(f"REDIS_URL={shown(url)}: {_MODES[mode]}")


def _check_memory(url: str, said: Mapping[str, Any]) -> None:
    policy = str(said.get("maxmemory_policy"))
    if said.get("maxmemory") and policy.startswith("allkeys"):
        raise ConfigError(
            f"REDIS_URL={shown(url)}: with maxmemory-policy {policy} it throws urls away when it is full; "
            "a crawl needs noeviction"
        )


def check_format(crawl_id: str, found: str | None) -> None:
    """Raise ConfigError where the keys of a crawl have another format (None: there is no number)."""
    if found != str(FORMAT):
        raise ConfigError(
            f"CRAWL_ID={crawl_id}: another version of llmcrawler has begun it; its keys in Redis are of format "
            f"{found or 'unknown'}, those of this version are of format {FORMAT}. Let that version finish it, name "
            f"another CRAWL_ID, or delete it: scrapy workers delete --force REDIS_URL {crawl_id}"
        )
