"""Reads the urls of sites from an index of web archives: from files, or from a CDX server page by page."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from llmcrawler.core.reporting.text import many
from llmcrawler.core.storage.archives.archived_pages import IndexEntry, entries_in, entries_of_file
from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.crawl.task_lists import CaptureIndex
from llmcrawler.engine.failures import failure_kind
from llmcrawler.engine.refusals import OVERLOAD_STATUSES, RefusalKind

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500  # entries, which are read in some milliseconds
_MAX_PAGES: Final = 10_000
_MAX_EMPTY: Final = 3  # pages in a row
_META: Final = {
    "download_timeout": 120.0,  # it looks through files of gigabytes
    "download_maxsize": 50 * 2**20,
    "autothrottle_dont_adjust_delay": True,
}
_LOOK_SECONDS: Final = 0.5
_CURES: Final = {
    RefusalKind.ROBOTS.value: "; -s ROBOTSTXT_OBEY=False asks it all the same, and nothing else is asked for here",
    "timeout": "; ask for less at once with ?pageSize=1 behind its url",
    "too_large": "; ask for less at once with ?pageSize=1 behind its url",
}


class IndexFault(Exception):
    """What is wrong with an index, in words, with what helps."""


@dataclass(eq=False)
class IndexReader:
    """Gives `take` the urls of pages that an index has, in portions, with the index's address. `send` sends a request,
    one at a time; `wants_more` is asked before each; nothing more is waited for once `is_closing`.
    """

    index: CaptureIndex
    send: Callable[[Request], object]
    take: Callable[[Sequence[str], str], Awaitable[int]]
    wants_more: Callable[[], bool]
    is_closing: Callable[[], bool]

    async def read(self, hosts: Sequence[str], *, subdomains: bool) -> None:
        """Read what is there of these hosts. Raises IndexFault where that is not all of it."""
        for file in self.index.files:
            await self._take(file, entries_of_file(file))
        for host in hosts if self.index.server else ():
            query = {"url": host, "matchType": "domain" if subdomains else "host", "output": "json"}
            mark = "&" if "?" in self.index.server else "?"
            await self._read_pages(f"{self.index.server}{mark}{urlencode(query)}", host)

    async def _read_pages(self, query: str, host: str) -> None:
        answer = await self._ask(f"{query}&showNumPages=true")
        count = _page_count(answer)
        if count is None:  # it has no pages, and has answered with all it has
            await self._take(query, _entries_of(answer))
            return
        if not count and self._goes_on():
            logger.warning("Index %s: it has nothing of %s", self.index, host)
        empty, before = 0, b""
        for number in range(min(count, _MAX_PAGES)):
            if not self._goes_on():
                return
            address = f"{query}&page={number}"
            answer = await self._ask(address)
            if answer and answer == before:
                raise IndexFault(f"its pages {number - 1:,} and {number:,} of {count:,} are the same")
            empty = 0 if await self._take(address, _entries_of(answer)) else empty + 1
            if empty == _MAX_EMPTY:
                told = f"Index {self.index}: {empty} pages in a row are empty: no more of its {count:,} are read"
                logger.warning(told)
                return
            before = answer
        if count > _MAX_PAGES:
            raise IndexFault(
                f"it has {count:,} pages, and {_MAX_PAGES:,} are read; ask for larger ones with ?pageSize=50"
            )

    def _goes_on(self) -> bool:
        return self.wants_more() and not self.is_closing()

    async def _take(self, address: str, entries: Iterator[IndexEntry]) -> int:
        """Return how many entries there are."""
        count = new = faults = 0
        first = ""
        try:
            while self._goes_on() and (some := await asyncio.to_thread(lambda: list(islice(entries, _AT_ONCE)))):
                for one in some:
                    faults += bool(one.fault)
                    first = first or (one.fault and f"line {one.line:,}: {one.fault}")
                count += len(some)
                pages = [page for one in some if (page := one.page()) is not None]
                new += await self.take([url for url, status in pages if status < 400], address)
        except (WarcFault, OSError) as error:
            raise IndexFault(f"{address}: {error}") from error
        if count and count == faults:
            raise IndexFault(f"{address}: it is no index: {first}")
        level = logging.WARNING if faults else logging.INFO
        wrong = f"; {many(faults, 'line')} cannot be read, such as {first}" if faults else ""
        logger.log(level, "Index %s: %s entries, %s new urls of the map%s", address, f"{count:,}", f"{new:,}", wrong)
        return count - faults

    async def _ask(self, url: str) -> bytes:
        """Return an answer; nothing where there are no captures."""
        got: asyncio.Future[Response | Failure] = asyncio.get_running_loop().create_future()
        self.send(Request(url, callback=got.set_result, errback=got.set_result, meta=dict(_META), dont_filter=True))
        while not got.done():
            await asyncio.wait([got], timeout=_LOOK_SECONDS)
            if self.is_closing() and not got.done():
                return b""
        answer = got.result()
        if isinstance(answer, Failure):
            kind, message = failure_kind(answer.value)
            raise IndexFault(f"{url}: {message}{_CURES.get(kind, '')}")
        if answer.status == 404 and b"no captures" in answer.body[:1000].lower():
            return b""
        if answer.status in OVERLOAD_STATUSES:
            raise IndexFault(f"{url}: it has no time ({answer.status}); the same command later, with a JOBDIR, goes on")
        if answer.status != 200:
            said = " ".join(answer.body[:200].decode("utf-8", "replace").split())
            raise IndexFault(
                f"{url}: it answers {answer.status} ({said}); the url of a CDX server is wanted, such as"
                " https://index.commoncrawl.org/CC-MAIN-2026-04-index or https://web.archive.org/cdx/search/cdx"
            )
        return answer.body


def _entries_of(answer: bytes) -> Iterator[IndexEntry]:
    return entries_in(io.BytesIO(answer).readline)


def _page_count(answer: bytes) -> int | None:
    """Return the number of pages that a server says it has; None where it says something else."""
    try:
        told: Any = json.loads(answer[:1000] or b"0")
    except (ValueError, RecursionError):
        return None
    count = told.get("pages") if isinstance(told, dict) else told
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None
