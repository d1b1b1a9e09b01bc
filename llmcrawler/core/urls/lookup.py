"""Looks up the addresses of host names, beside the event loop and not more often than needed."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

_MAX_NAMES: Final = 10_000
_KEPT_SECONDS: Final = 30.0
_THREADS: Final = 8  # of its own: name servers that do not answer must not hold up what else works in threads


class NameLookup:
    """Looks up names, and keeps the answers for half a minute: what was judged should be what is used."""

    def __init__(
        self,
        *,
        timeout_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        resolve: Callable[..., list[Any]] = socket.getaddrinfo,
    ) -> None:
        """Take `resolve`, a function with the signature of socket.getaddrinfo that may block."""
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._resolve = resolve
        self._threads = ThreadPoolExecutor(_THREADS, "names")
        self._found: dict[str, tuple[float, asyncio.Task[tuple[str, ...]]]] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """Return all addresses of a host; () where no name service here knows it, or none answers in time."""
        now = self._clock()
        until, looking = self._found.get(host, (now, None))
        if looking is None or (until <= now and looking.done()):
            self._found.pop(host, None)
            if len(self._found) >= _MAX_NAMES:
                del self._found[next(iter(self._found))]
            looking = asyncio.ensure_future(self._look_up(host))
            self._found[host] = now + _KEPT_SECONDS, looking
        return await asyncio.shield(looking)

    def close(self) -> None:
        """End at once, without the look-ups that are under way."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, host: str) -> tuple[str, ...]:
        resolve = partial(self._resolve, host, None, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                found = await asyncio.get_running_loop().run_in_executor(self._threads, resolve)
        except (OSError, UnicodeError, ValueError, RuntimeError):  # RuntimeError: it is closed
            return ()
        return tuple(dict.fromkeys(str(place[4][0]) for place in found))
