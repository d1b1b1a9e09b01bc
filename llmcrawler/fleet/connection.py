"""Connects a worker to the Redis of its crawl, and waits for a server that is away."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha1
from typing import Any, Final

from redis import exceptions as faults

from llmcrawler.errors import StorageFailed
from llmcrawler.fleet.redis_address import close_client, redis_address, shown

logger = logging.getLogger(__name__)

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

# KEYS[2] tells this crawl from another of its name, which may have begun in a server that came back empty: the prefix,
# a colon and the crawl's identity, if it is known.
_GONE: Final = "NOCRAWL"
_GUARD: Final = f"""
if #KEYS[2] > #KEYS[1] + 1 and redis.call('HGET', KEYS[1] .. ':meta', 'id') ~= string.sub(KEYS[2], #KEYS[1] + 2) then
  return redis.error_reply('{_GONE} it is not here any more')
end
"""

# Grants a grace period after an absence of the server, in which no lease and no worker expires.
_GRANT_GRACE = """
if redis.call('EXISTS', KEYS[1] .. ':meta') == 0 then return 0 end
local time = redis.call('TIME')
redis.call('SET', KEYS[1] .. ':grace_until', time[1] + ARGV[1], 'EX', math.ceil(ARGV[1]) + 1)
return 1
"""

# name of a hash, then its fields and their values
_PUT: Final = "redis.call('HSET', KEYS[1] .. ':' .. ARGV[1], unpack(ARGV, 2))"


def key_prefix(crawl_id: str) -> str:
    """Return the prefix of a crawl's keys, without the colon that follows."""
    return f"llmcrawler:{{{crawl_id}}}"


class RedisConnection:
    """Runs Lua scripts, with the prefix of the crawl's keys as KEYS[1]. A script may run twice where a connection
    broke, so each has to be harmless then. `on_failure` is called when the server came back without the crawl.
    """

    def __init__(
        self,
        url: str,
        crawl_id: str,
        worker: str,
        *,
        grace_seconds: float = 30.0,
        on_failure: Callable[[StorageFailed], None] = lambda _failure: None,
    ) -> None:
        self.url = url
        self.worker = worker
        self.crawl_id = crawl_id
        self.prefix = key_prefix(crawl_id)
        self.identity = ""  # of the crawl, when it is known
        self.client = redis_address(url).async_client(TIMEOUT_SECONDS)
        self._grace_seconds = grace_seconds
        self._on_failure = on_failure
        self._digests: dict[str, str] = {}
        self._return: asyncio.Task[None] | None = None
        self._patience: tuple[float, float] | None = None  # since when, and seconds
        self.failure: StorageFailed | None = None  # see check()

    @property
    def is_away(self) -> bool:
        """Whether the server is known to be away just now."""
        return self._return is not None

    async def put(self, name: str, values: Mapping[str, str | bytes]) -> None:
        """Set fields of a hash of the crawl."""
        await self.run(_PUT, name, *(part for pair in values.items() for part in pair))

    async def run(self, script: str, *arguments: str | bytes | float) -> Any:
        """Run a script, and wait for a server that is away. Raises StorageFailed where it came back without the
        crawl.
        """
        return await self.call(lambda: self._evaluate(script, arguments))

    async def call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Await any work with a client; wait, try again and raise as `run` does."""
        while True:
            self.check()
            try:
                return await work()
            except _FAULTS as error:
                if _is_gone(error):
                    self._fail(self._without_crawl())
                elif _is_away(error):
                    await self._outlast(error)
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

    async def _evaluate(self, script: str, arguments: tuple[str | bytes | float, ...]) -> Any:
        digest = self._digests.get(script)
        if digest is None:
            digest = self._digests[script] = sha1((_GUARD + script).encode(), usedforsecurity=False).hexdigest()
        keys = self.prefix, f"{self.prefix}:{self.identity}"
        try:
            return await self.client.evalsha(digest, 2, *keys, *arguments)
        except faults.NoScriptError:
            return await self.client.eval(_GUARD + script, 2, *keys, *arguments)

    async def _outlast(self, error: Exception) -> None:
        if self._return is None:
            self._return = asyncio.ensure_future(self._until_returned(error))
        await asyncio.shield(self._return)

    async def _until_returned(self, error: Exception) -> None:
        logger.warning("Redis at %s is away (%s): the crawl waits until it is back", shown(self.url), said_by(error))
        left, tries = time.monotonic(), 0
        try:
            while not await self._is_back():
                if self._is_impatient(left):
                    raise StorageFailed(f"Redis at {shown(self.url)} is away: this worker's leases expire there")
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
            self._on_failure(failure)

    def _is_impatient(self, left: float) -> bool:
        if self._patience is None:
            return False
        since, seconds = self._patience
        return time.monotonic() > max(since, left) + seconds

    async def _is_back(self) -> bool:
        try:
            if await self._evaluate(_GRANT_GRACE, (self._grace_seconds,)):
                return True
        except _FAULTS as error:
            if _is_away(error):
                return False
            if not _is_gone(error):
                raise
        raise self._without_crawl()

    def _without_crawl(self) -> StorageFailed:
        return StorageFailed(
            f"Redis at {shown(self.url)} is without the crawl {self.crawl_id}: somebody has deleted it, or Redis came "
            "back without its data (let it keep them: appendonly yes)"
        )


def _look_at(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, StorageFailed):  # then the crawl is being closed, and logs why
        logger.error("Error in a worker's talk with Redis", exc_info=error)


def _is_away(error: Exception) -> bool:
    return isinstance(error, _AWAY) or _AWAY_WORDS.search(str(error)) is not None


def _is_gone(error: Exception) -> bool:
    return _GONE in str(error)


def said_by(error: Exception) -> str:
    """Return the text of an error, to be part of a message."""
    return str(error).strip().rstrip(".") or type(error).__name__
