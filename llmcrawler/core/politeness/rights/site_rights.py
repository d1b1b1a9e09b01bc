"""Keeps what hosts say of rights, in bounded memory. A host's files are asked for once, and all who need them wait for
the same answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from llmcrawler.core.politeness.rights.combined_signals import OFF, RSL, RightsPolicy, Signal, refusal_of
from llmcrawler.core.politeness.rights.rsl import rsl_signals
from llmcrawler.core.politeness.rights.scoped import ScopedSignals
from llmcrawler.core.politeness.rights.site_files import (
    AI_TXT_PATH,
    LLMS_TXT_PATH,
    ROBOTS_PATH,
    TDMREP_PATH,
    ai_txt_signals,
    licence_of,
    llms_txt_signals,
    robots_signals,
    tdmrep_signals,
)
from llmcrawler.core.politeness.robots import RobotsCache, parse_robots
from llmcrawler.core.politeness.robots.path_rules import path_of
from llmcrawler.core.urls import normalise, origin_of

MAX_FILE_BYTES: Final = 256 * 1024
_HOST_BYTES: Final = 1_000
_FILES: Final = (TDMREP_PATH, AI_TXT_PATH, LLMS_TXT_PATH)


class FileDownload(Protocol):
    """Fetches a file that `base` names or has. None: there is none, or it cannot be had; an exception: not now."""

    def __call__(self, url: str, base: str) -> Awaitable[bytes | None]: ...


@dataclass(slots=True)
class _Host:
    """What one origin says: in robots.txt, in its other files, and in the one licence that is read of it."""

    robots: list[ScopedSignals] = field(default_factory=list)
    files: list[ScopedSignals] = field(default_factory=list)
    licence_url: str = ""
    is_for_all: bool = False  # robots.txt names the licence: it is for all pages, and not only for those that name it
    licence: ScopedSignals | None = None
    knows_robots: bool = False
    is_read: bool = False

    @property
    def sources(self) -> list[ScopedSignals]:
        return [*self.robots, *self.files, *([self.licence] if self.licence and self.is_for_all else [])]

    @property
    def size_bytes(self) -> int:
        kept = [*self.robots, *self.files, *([self.licence] if self.licence else [])]
        return _HOST_BYTES + sum(one.size_bytes for one in kept)


class SiteRights:
    """`token`: the product token by which files know this crawler. `reads_files`: hosts are asked for the files that
    say something of rights, at most four of a host; else there is what robots.txt says. `reads_robots`: robots.txt is
    one more of them, as nobody else asks for it.
    """

    def __init__(
        self,
        policy: RightsPolicy,
        token: str = "",
        *,
        reads_files: bool = True,
        reads_robots: bool = False,
    ) -> None:
        self.policy = policy
        self._token = token
        self._reads_files = reads_files and policy.mode != OFF
        self._paths = (*_FILES, ROBOTS_PATH) if reads_robots else _FILES
        self._hosts: RobotsCache[_Host] = RobotsCache(time.monotonic)
        self._asked: dict[str, asyncio.Task[None]] = {}

    def note_robots(self, url: str, statements: Iterable[tuple[str, str]]) -> None:
        """Take the statements of the robots.txt that holds for a url; those of an older one are forgotten."""
        if self.policy.mode == OFF:
            return
        origin = origin_of(url)
        host, statements = self._host(origin), tuple(statements)
        host.knows_robots = True
        host.robots = robots_signals(statements, origin + ROBOTS_PATH)
        licence = licence_of(statements)
        named = normalise(licence, origin) if licence else None
        if named and named != host.licence_url:
            host.licence_url, host.licence, host.is_for_all = named, None, True
            if host.is_read or not self._reads_files:
                host.licence = _unread(named)
        self._keep(origin, host)

    def ask(self, url: str, download: FileDownload) -> None:
        """Begin to ask the url's host for its files, unless that was done."""
        origin = origin_of(url)
        host = self._hosts.get(origin)
        if self._reads_files and (host is None or not host.is_read):
            self._share(origin, lambda: self._read(origin, download))

    async def answers(self, url: str) -> None:
        """Wait until the files of the url's host are read. Raises what the download does; the next `ask` asks again."""
        task = self._asked.get(origin_of(url))
        if task is not None:
            await asyncio.shield(task)  # a cancelled waiter would cancel it for all

    def signals_for(self, url: str) -> list[Signal]:
        """Return what is known by now of what the host says about a url."""
        host, path = self._hosts.get(origin_of(url)), path_of(url)
        return [] if host is None else [signal for source in host.sources for signal in source.of(path)]

    def refusal_of(self, url: str) -> str | None:
        """Return why the host's own statements forbid the purpose of this crawl for a url; None where they do not."""
        purpose = self.policy.refusing_purpose
        return None if purpose is None else refusal_of(self.signals_for(url), purpose)

    def differs_by_path(self, url: str) -> bool:
        """Return whether the host says something of some paths only: pages there may be allowed where this is not."""
        host = self._hosts.get(origin_of(url))
        return host is not None and any(source.is_scoped for source in host.sources)

    def is_file_of(self, url: str, where: str) -> bool:
        """Return whether a signal that stands at `where` comes from a file of the url's host that has been read."""
        origin = origin_of(url)
        host = self._host(origin)
        paths = (*([ROBOTS_PATH] if host.knows_robots else []), *(_FILES if host.is_read else []))
        return any(where == origin + path for path in paths)

    async def licence_signals(self, url: str, named: str, download: FileDownload) -> list[Signal]:
        """Return what the RSL licence that a page names says of it. One licence of a host is read; of others it is only
        said that they are there.
        """
        origin, target = origin_of(url), normalise(named, url)
        host = self._host(origin)
        if target is None:
            return []
        if not self._reads_files or host.licence_url not in ("", target):
            return [Signal(RSL, target, {}, target)]
        if host.licence is None:
            host.licence_url = target
            self._keep(origin, host)
            key = f"{target} for {origin}"
            self._share(key, lambda: self._read_licence(origin, target, download))
            await asyncio.shield(self._asked[key])
            host = self._host(origin)
        return list(host.licence.of(path_of(url))) if host.licence is not None else []

    async def _read(self, origin: str, download: FileDownload) -> None:
        bodies = await asyncio.gather(*(download(origin + path, origin) for path in self._paths))
        found = {path: body for path, body in zip(self._paths, bodies, strict=True) if body is not None}
        if ROBOTS_PATH in found:
            robots = await asyncio.to_thread(parse_robots, found.pop(ROBOTS_PATH), self._token)
            self.note_robots(origin, robots.statements)
        files = await asyncio.to_thread(self._parsed, origin, found)
        host = self._host(origin)
        if host.licence_url and host.licence is None:
            await self._read_licence(origin, host.licence_url, download)
        host = self._host(origin)
        host.files, host.is_read = files, True
        self._keep(origin, host)

    async def _read_licence(self, origin: str, url: str, download: FileDownload) -> None:
        body = await download(url, origin) or b""
        licence = await asyncio.to_thread(rsl_signals, body[:MAX_FILE_BYTES], url, origin.partition("://")[2])
        host = self._host(origin)
        host.licence = licence or _unread(url)
        self._keep(origin, host)

    def _parsed(self, origin: str, bodies: dict[str, bytes]) -> list[ScopedSignals]:
        readers: dict[str, Callable[[bytes, str], ScopedSignals]] = {
            TDMREP_PATH: tdmrep_signals,
            AI_TXT_PATH: partial(ai_txt_signals, token=self._token),
            LLMS_TXT_PATH: llms_txt_signals,
        }
        read = (readers[path](body[:MAX_FILE_BYTES], origin + path) for path, body in bodies.items())
        return [one for one in read if one]

    def _host(self, origin: str) -> _Host:
        return self._hosts.get(origin) or _Host()

    def _keep(self, origin: str, host: _Host) -> None:
        self._hosts.keep(origin, host, host.size_bytes)

    def _share(self, key: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        if key not in self._asked:
            task = self._asked[key] = asyncio.ensure_future(work())
            task.add_done_callback(partial(self._forget, key))

    def _forget(self, key: str, task: asyncio.Task[None]) -> None:
        del self._asked[key]
        if not task.cancelled():
            task.exception()  # which asyncio would log where all who waited are gone


def _unread(url: str) -> ScopedSignals:
    """Return the statement that there is a licence, of which nothing more is known."""
    return ScopedSignals([("/", Signal(RSL, url, {}, url))])
