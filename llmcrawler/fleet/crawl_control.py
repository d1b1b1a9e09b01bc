"""Pauses, resumes and deletes a crawl that workers share, from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from redis import exceptions as faults

from llmcrawler.errors import ConfigError
from llmcrawler.fleet.connection import key_prefix, said_by
from llmcrawler.fleet.queue_structure import BUCKETS, FORMAT
from llmcrawler.fleet.redis_address import redis_address, shown
from llmcrawler.fleet.redis_checks import check_format, check_redis

CRAWLS: Final = "llmcrawler:crawls"  # set: the names of the crawls that this Redis has
SILENT_SECONDS: Final = 10.0  # workers say each second that they are there

_TIMEOUT_SECONDS: Final = 30.0  # a script of another crawl may take a while
_REFUSALS: Final = (
    faults.ConnectionError,
    faults.TimeoutError,
    faults.NoPermissionError,
    faults.ReadOnlyError,
)
_AT_ONCE: Final = 500  # keys in one command, so that none holds up the other crawls in the same Redis
_NAMES: Final = """counts hosts seen redirect_targets priorities waiting owners draining owned_by hungry leases replies
    attempts added errors dead_letters learned manners heartbeats left lost ended beat_at grace_until answers llm:spent
    llm:starts llm:tokens llm:paused_until split busy_sites workers check widened
    guests""".split()

# the state that is to change, the new one. Returns the state before.
_SWITCH: Final = """
local meta = KEYS[1] .. ':meta'
local state = redis.call('HGET', meta, 'state')
if state == ARGV[1] then redis.call('HSET', meta, 'state', ARGV[2]) end
return state
"""

# 1 to delete it though workers are there, seconds since their last heartbeats. Returns these workers. Without the id of
# the crawl whatever a worker still writes is refused.
_BEGIN_TO_DELETE: Final = """
local meta, at = KEYS[1] .. ':meta', redis.call('TIME')[1]
if redis.call('HGET', meta, 'state') == 'deleting' then return {} end
local here = redis.call('ZRANGEBYSCORE', KEYS[1] .. ':workers', at - ARGV[2], '+inf')
if #here > 0 and ARGV[1] == '0' then return here end
redis.call('HSET', meta, 'state', 'deleting')
redis.call('HDEL', meta, 'id')
return here
"""


@dataclass(frozen=True, slots=True)
class DeletedCrawl:
    """What a deleted crawl had. `workers` were at work on it, and end."""

    workers: tuple[str, ...]
    done: int
    queued: int
    sites: int
    keys: int


def pause(url: str, crawl_id: str) -> bool:
    """Have the workers lease nothing more; return False where it is so already. Raises ConfigError where the crawl is
    not there, or is at its end.
    """
    return _switch(url, crawl_id, "running", "paused")


def resume(url: str, crawl_id: str) -> bool:
    """Let the workers lease urls again; return and raise as `pause` does."""
    return _switch(url, crawl_id, "paused", "running")


def delete(url: str, crawl_id: str, *, is_forced: bool) -> DeletedCrawl:
    """Delete all that Redis has of a crawl. One that was interrupted goes on. Raises ConfigError where the crawl is not
    there, or it is not forced and the crawl has workers, or keys of another format: these are looked for among all keys
    that the Redis has.
    """
    prefix = key_prefix(crawl_id)
    with _crawl(url, crawl_id) as (client, found):
        if not is_forced:
            check_format(crawl_id, found)
        workers = client.eval(_BEGIN_TO_DELETE, 1, prefix, int(is_forced), SILENT_SECONDS)
        if workers and not is_forced:
            named = ", ".join(workers[:5])
            raise ConfigError(f"{crawl_id}: it has workers ({named}): stop them first, or add --force to end them")
        done, queued = (int(count or 0) for count in client.hmget(f"{prefix}:counts", "done", "queued"))
        sites = client.hlen(f"{prefix}:learned")
        keys = _delete_keys(client, prefix, is_ours=found == str(FORMAT))
        client.srem(CRAWLS, crawl_id)
        return DeletedCrawl(tuple(workers), done, queued, sites, keys)


@contextmanager
def opened(url: str, crawl_id: str = "any") -> Iterator[Any]:
    """Give a client of redis-py. Raises ConfigError where no Redis answers, it goes away, or it does not let us do
    something.
    """
    check_redis(url, crawl_id, to_write=False)
    with closing(redis_address(url).client(_TIMEOUT_SECONDS, decode_responses=True)) as client:
        try:
            yield client
        except _REFUSALS as error:
            raise ConfigError(f"REDIS_URL={shown(url)}: it cannot be done there ({said_by(error)})") from error


@contextmanager
def _crawl(url: str, crawl_id: str) -> Iterator[tuple[Any, str | None]]:
    """Give a client, and the format of a crawl's keys."""
    with opened(url, crawl_id) as client:
        spec, found = client.hmget(f"{key_prefix(crawl_id)}:meta", "spec", "format")
        if spec is None:
            raise ConfigError(f"there is no crawl {crawl_id} in {shown(url)}")
        yield client, found


def _switch(url: str, crawl_id: str, before: str, after: str) -> bool:
    with _crawl(url, crawl_id) as (client, found):
        check_format(crawl_id, found)
        state = client.eval(_SWITCH, 1, key_prefix(crawl_id), before, after)
    if state not in (before, after):
        raise ConfigError(f"{crawl_id}: it is {state}, and can be neither paused nor resumed")
    return bool(state == before)


def _delete_keys(client: Any, prefix: str, *, is_ours: bool) -> int:
    """Delete the keys of a crawl, which have our format or may have any; return how many they were."""
    meta, names = f"{prefix}:meta", _keys(client, f"{prefix}:")
    if not is_ours:
        names = (name for name in client.scan_iter(match=f"{prefix}:*", count=_AT_ONCE) if name != meta)
    keys = sum(client.unlink(*some) for some in _chunks(names))
    return int(keys + client.unlink(meta))  # the last one: until then it can be gone on with


def _keys(client: Any, prefix: str) -> Iterator[str]:
    """Yield the names of a crawl's keys but `meta`, each before that of the key by which it was found."""
    for sites in _chunks(client.sscan_iter(f"{prefix}busy_sites", count=_AT_ONCE)):
        queues_of_sites = _of_each(client, "smembers", [f"{prefix}s:{site}" for site in sites])
        for site, queues in zip(sites, queues_of_sites, strict=True):
            yield from _keys_of_queues(client, prefix, queues)
            yield from (f"{prefix}s:{site}", f"{prefix}out:{site}")
    for names in ("heartbeats", "left", "lost", "added"):
        for worker, _ in client.hscan_iter(prefix + names, count=_AT_ONCE):
            yield from (f"{prefix}{kind}:{worker}" for kind in ("own", "turns", "lines"))
    yield from (f"{prefix}seen:{bucket}" for bucket in range(BUCKETS))
    for bucket in client.sscan_iter(f"{prefix}split", count=_AT_ONCE):
        yield from (f"{prefix}seen:{bucket}/{part}" for part in range(16))
    yield from (prefix + name for name in _NAMES)


def _keys_of_queues(client: Any, prefix: str, queues: Iterable[str]) -> Iterator[str]:
    for some in _chunks(queues):
        priorities = _of_each(client, "zrange", [f"{prefix}p:{queue}" for queue in some], 0, -1)
        for queue, found in zip(some, priorities, strict=True):
            yield from (f"{prefix}q:{queue}:{priority}" for priority in found)
            _host, _, group = queue.partition("\n")
            yield from (f"{prefix}p:{queue}", f"{prefix}b:{queue}", f"{prefix}g:{group}")


def _of_each(client: Any, command: str, names: Iterable[str], *arguments: int) -> list[Any]:
    together = client.pipeline(transaction=False)
    for name in names:
        getattr(together, command)(name, *arguments)
    return list(together.execute())


def _chunks(items: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(items)
    while some := list(islice(waiting, _AT_ONCE)):
        yield some
