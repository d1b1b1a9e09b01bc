"""Connects to what REDIS_URL names, checks that a crawl can be kept there, and waits for a server that is away."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

import redis
from redis import asyncio as aioredis
from redis import exceptions as faults
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from llmcrawler.errors import ConfigError, StorageFailed

logger = logging.getLogger(__name__)

ONE_REDIS: Final = "a crawl is kept in one Redis; split the sites over several crawls where one does not hold them"
_SENTINEL_PORT: Final = 26379
_NEXT_ADDRESS: Final = re.compile(r",\s*(?=[a-z+]+://)")  # hosts of one address are parted by commas, too

FORMAT: Final = 2  # of the keys: another number where workers of an older version would not do with them
BUCKETS: Final = 1 << 14  # of `seen`, to begin with: one that is full becomes sixteen (lua/common.lua)
CRAWLS: Final = "llmcrawler:crawls"  # set: the names of the crawls that this Redis has
TIMEOUT_SECONDS: Final = 5.0
_PAUSES_SECONDS: Final = (0.1, 0.2, 0.5, 1.0)
# Errors of a server that starts, fails over, is busy or has no room left: the same command will work a while later.
_AWAY: Final = (
    faults.ConnectionError,
    faults.TimeoutError,
    faults.ReadOnlyError,
    faults.MasterDownError,
    faults.OutOfMemoryError,
    OSError,
)
# The same by text: redis-py has no class for some, and Redis 6.2 wraps errors within a script.
_AWAY_WORDS: Final = re.compile(r"(?:^|: -)(?:BUSY|MISCONF|NOREPLICAS|OOM|READONLY|UNBLOCKED) ")
_FAULTS: Final = (faults.RedisError, OSError)
_GONE: Final = "NOCRAWL"  # what lua/guard.lua says where the crawl is not there
_INCLUDE: Final = re.compile(r"^-- include (\w+)$", re.MULTILINE)


def shown(url: str) -> str:
    """Return what REDIS_URL has, without passwords."""
    parts = map(urlsplit, _NEXT_ADDRESS.split(url))
    return ",".join(one._replace(netloc=one.netloc.rpartition("@")[2], query="").geturl() for one in parts)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """A server, or a `service` that Sentinels at the `hosts` watch; `options` of redis-py are those for its master."""

    url: str
    hosts: tuple[tuple[str, int], ...] = ()
    service: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    def async_client(self, timeout_seconds: float) -> Any:
        """Make a client to await, which does not try again on its own, for `close_client`."""
        limits: dict[str, Any] = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds}
        retry = AsyncRetry(NoBackoff(), 0)
        if not self.service:
            return aioredis.Redis.from_url(self.url, retry=retry, **limits)
        return self._master(AsyncSentinel, limits, retry)

    def client(self, timeout_seconds: float, **options: Any) -> Any:
        """Make a client that waits; the caller closes it."""
        limits = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds, **options}
        if not self.service:
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
    if scheme in ("redis+cluster", "rediss+cluster"):
        raise ConfigError(f"REDIS_URL={shown(url)}: it names a Redis Cluster: {ONE_REDIS}")
    is_watched = scheme in ("redis+sentinel", "rediss+sentinel")
    try:
        if len(_NEXT_ADDRESS.split(url)) > 1 or (not is_watched and "," in (urlsplit(url).hostname or "")):
            raise ConfigError(f"REDIS_URL={shown(url)}: it has several addresses: {ONE_REDIS}")
        if not is_watched:
            parse_url(url)
            return RedisAddress(url)
        parts = urlsplit(f"{scheme.removesuffix('+sentinel')}://{rest}")
        given, at, hosts = parts.netloc.rpartition("@")
        sentinels = []
        for text in hosts.split(","):
            place = urlsplit(f"//{text.strip()}")
            if not place.hostname:
                raise ValueError(f"{text!r} is not a host with a port")
            sentinels.append((place.hostname, place.port or _SENTINEL_PORT))
        service, _, database = parts.path.strip("/").partition("/")
        if not service:
            raise ValueError(
                "after the Sentinels, name the service they watch: redis+sentinel://host:26379,host2:26379/mymaster"
            )
        plain = parts._replace(netloc=f"{given}{at}localhost", path=f"/{database or 0}").geturl()
        options: dict[str, Any] = dict(parse_url(plain))
    except ValueError as error:
        raise ConfigError(f"REDIS_URL={shown(url)}: {error}") from error
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    if parts.scheme == "rediss":
        options["ssl"] = True
    return RedisAddress(url, tuple(sentinels), service, tuple(options.items()))


@cache
def lua(name: str) -> str:
    """Return the script lua/NAME.lua, with the files that its lines `-- include NAME` name in their places."""
    text = files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda found: lua(found[1]), text)


@cache
def _guarded(text: str) -> tuple[str, str]:
    """Return a script that does nothing where the crawl is gone, and its digest."""
    guarded = lua("guard") + text
    return guarded, sha1(guarded.encode(), usedforsecurity=False).hexdigest()


def key_prefix(crawl_id: str) -> str:
    """Return the prefix of a crawl's keys, without the colon that follows."""
    return f"llmcrawler:{crawl_id}"


@dataclass(eq=False)
class RedisConnection:
    """Runs the scripts of fleet/lua, each of which may run twice where a connection broke. `on_failure` is called when
    the server came back without the crawl.
    """

    url: str
    crawl_id: str
    worker: str
    _: KW_ONLY
    grace_seconds: float = 30.0
    on_failure: Callable[[StorageFailed], None] = lambda _failure: None

    def __post_init__(self) -> None:
        self.prefix = key_prefix(self.crawl_id)
        self.identity = ""  # of the crawl, when it is known
        self.client = redis_address(self.url).async_client(TIMEOUT_SECONDS)
        self._return: asyncio.Task[None] | None = None
        self._patience: tuple[float, float] | None = None  # since when, and seconds
        self.failure: StorageFailed | None = None  # see check()

    async def put(self, name: str, values: Mapping[str, str | bytes]) -> None:
        """Set fields of a hash of the crawl."""
        await self.run("put", name, *(part for pair in values.items() for part in pair))

    async def run(self, script: str, *arguments: str | bytes | float) -> Any:
        """Run lua/SCRIPT.lua, waiting for a server that is away. Raises StorageFailed where it came back without the
        crawl.
        """
        return await self.evaluate(lua(script), *arguments)

    async def evaluate(self, text: str, *arguments: str | bytes | float) -> Any:
        """Run Lua; wait, try again and raise as `run` does."""
        return await self.call(lambda: self._evaluate(text, arguments))

    async def call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Await any work with a client; wait, try again and raise as `run` does."""
        while True:
            self.check()
            try:
                return await work()
            except _FAULTS as error:
                if _GONE in str(error):
                    self._fail(self._without_crawl())
                elif _is_away(error):
                    self._return = self._return or asyncio.ensure_future(self._until_returned(error))
                    await asyncio.shield(self._return)
                else:
                    raise

    def check(self) -> None:
        """Raise StorageFailed where the crawl is lost in Redis, or was waited for too long."""
        if self.failure is not None:
            raise StorageFailed(str(self.failure))

    def post(self, work: Awaitable[Any], under_way: set[asyncio.Task[Any]] | None = None) -> asyncio.Task[Any]:
        """Start work without waiting for it. Its task is in `under_way` until it is done."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(_look_at)
        if under_way is not None:
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        return task

    def stop_waiting(self, seconds: float) -> None:
        """Wait for a server that is away for at most so many seconds from now on; then raise StorageFailed."""
        if self._patience is None:
            self._patience = (time.monotonic(), seconds)

    async def close(self) -> None:
        if self._return is not None:
            self._return.cancel()
        await close_client(self.client)

    async def _evaluate(self, text: str, arguments: tuple[str | bytes | float, ...]) -> Any:
        (guarded, digest), keys = _guarded(text), (self.prefix, f"{self.prefix}:{self.identity}")
        try:
            return await self.client.evalsha(digest, 2, *keys, *arguments)
        except faults.NoScriptError:
            return await self.client.eval(guarded, 2, *keys, *arguments)

    async def _until_returned(self, error: Exception) -> None:
        logger.warning(
            "Redis at %s is unavailable (%s): the crawl waits until it is back", shown(self.url), said_by(error)
        )
        left, tries = time.monotonic(), 0
        try:
            while not await self._is_back():
                since, seconds = self._patience or (left, float("inf"))
                if time.monotonic() > max(since, left) + seconds:
                    raise StorageFailed(f"Redis at {shown(self.url)} is unavailable: this worker's leases are expiring")
                await asyncio.sleep(_PAUSES_SECONDS[min(tries, len(_PAUSES_SECONDS) - 1)])
                tries += 1
            logger.info("Redis at %s is back after %.1f s", shown(self.url), time.monotonic() - left)
        except StorageFailed as failure:
            self._fail(failure)
            raise
        finally:
            self._return = None

    def _fail(self, failure: StorageFailed) -> None:
        if self.failure is None:
            self.failure = failure
            self.on_failure(failure)

    async def _is_back(self) -> bool:
        try:
            if await self._evaluate(lua("grant_grace"), (self.grace_seconds,)):
                return True
        except _FAULTS as error:
            if _is_away(error):
                return False
            if _GONE not in str(error):
                raise
        raise self._without_crawl()

    def _without_crawl(self) -> StorageFailed:
        return StorageFailed(
            f"Redis at {shown(self.url)} no longer has the crawl {self.crawl_id}: it was deleted, or Redis came "
            "back without its data (let it keep them: appendonly yes)"
        )


def _look_at(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, StorageFailed):  # then the crawl is being closed, and logs why
        logger.error("Error in a worker's connection to Redis", exc_info=error)


def _is_away(error: Exception) -> bool:
    return isinstance(error, _AWAY) or _AWAY_WORDS.search(str(error)) is not None


def said_by(error: Exception) -> str:
    """Return the text of an error, to be part of a message."""
    return str(error).strip().rstrip(".") or type(error).__name__


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
                said = client.info("memory")
                policy = str(said.get("maxmemory_policy"))
                if said.get("maxmemory") and policy.startswith("allkeys"):
                    raise ConfigError(
                        f"{where}: with maxmemory-policy {policy} it throws urls away when it is full; a crawl needs "
                        "noeviction"
                    )
                client.set(f"{key_prefix(crawl_id)}:check", 1, px=1)
    except (faults.AuthenticationError, faults.NoPermissionError, faults.AuthorizationError) as error:
        raise ConfigError(f"{where}: it rejects the user or the password ({said_by(error)})") from error
    except MasterNotFoundError as error:
        raise ConfigError(f"{where}: no Sentinel there names a master ({said_by(error)})") from error
    except faults.ResponseError as error:
        raise ConfigError(f"{where}: no crawl can be stored there ({said_by(error)})") from error
    except (faults.RedisError, OSError) as error:
        raise ConfigError(f"{where}: no Redis responds there ({said_by(error)})") from error


def check_server(url: str, said: Mapping[str, Any]) -> None:
    """Raise ConfigError for a server that will not do, by the section `server` of its INFO."""
    version = str(said.get("valkey_version") or said.get("redis_version") or "0")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        raise ConfigError(f"REDIS_URL={shown(url)}: it is version {version}; 6.2 or newer is required")
    mode = str(said.get("server_mode") or said.get("redis_mode"))
    if mode in _MODES:
        raise ConfigError(f"REDIS_URL={shown(url)}: {_MODES[mode]}")


def check_format(crawl_id: str, found: str | None) -> None:
    """Raise ConfigError where the keys of a crawl have another format (None: there is no number)."""
    if found != str(FORMAT):
        raise ConfigError(
            f"CRAWL_ID={crawl_id}: another version of llmcrawler started it; its keys in Redis are of format "
            f"{found or 'unknown'}, those of this version are of format {FORMAT}. Let that version finish, name "
            f"another CRAWL_ID, or delete it: scrapy workers delete --force REDIS_URL {crawl_id}"
        )
