"""Reads the pages of sites in this process or, where they are many and a core is free, in worker processes."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import exp
from typing import Any, Final, NamedTuple, Protocol

from llmcrawler.core.content import Boilerplate, PageReader, read_page
from llmcrawler.core.content.page_kinds import KindsOnDemand
from llmcrawler.core.content.reader import seconds_for
from llmcrawler.core.content.render_features import RenderFeatures, read_page_and_features
from llmcrawler.core.content.transport import pack_content, unpack_content
from llmcrawler.core.frontier.site_views import BlockFacts
from llmcrawler.core.processes.cores import has_idle_core
from llmcrawler.core.processes.state_processes import StateProcesses, WorkersGone
from llmcrawler.core.urls import url_pattern
from llmcrawler.crawl.site_content import (
    MODULES,
    FetchedPage,
    PackedReading,
    chosen_main_text,
    hash_of_packed,
    main_text_hash,
    main_text_of_packed,
    main_texts_differ,
    observe_packed,
    packed_differ,
    read_for_site,
)
from llmcrawler.errors import ContentError, ReadingStopped
from llmcrawler.items import MainText, PageContent

# Workers are started when reading has taken more than this share of the last seconds: a polite crawl of one site, or a
# short one, needs none.
_BUSY_SHARE: Final = 0.15
_BUSY_SECONDS: Final = 1.0
_LONG_BLOCKS: Final = 2_000
_LONG_CHARS: Final = 200_000
_STATE_SECONDS: Final = 20.0  # of processor time, for what is done with a page that was read
# Kinds are worked out with a page, for a third of its time, where more than this share of the last pages with such a
# url were asked for theirs. The others are read again, here, if somebody asks.
_KINDS_SHARE: Final = 1 / 8
_KINDS_PAGES: Final = 8
_MAX_PATTERNS: Final = 5_000  # of urls; of more, the one not met for longest goes

logger = logging.getLogger(__name__)


class ReadSite(Protocol):
    """A site as its pages are read."""

    name: str
    boilerplate: Boilerplate


class PageReading(NamedTuple):
    """What was read of a page. `features` where they were wanted; `facts` and `main` where a worker has found them with
    the content, which has no blocks where the main text is taken.
    """

    content: PageContent
    features: RenderFeatures | None = None
    facts: list[BlockFacts] | None = None
    main: MainText | None = None


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """How many workers there may be. `at_once`: they start with the first page, which waits for them; else when reading
    takes much of the crawl's time.
    """

    most: int = 0
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class _Owner:
    """A site's boilerplate while no worker has it."""

    site: ReadSite

    @property
    def name(self) -> str:
        return self.site.name

    def pack(self) -> bytes:
        return pickle.dumps(self.site.boilerplate, pickle.HIGHEST_PROTOCOL)

    def keep(self, state: bytes) -> None:
        self.site.boilerplate = pickle.loads(state)  # noqa: S301 - from a process of ours


class SiteReader:
    """Reads pages and takes their main text, by what is known of their sites; that is kept where they are read.

    `with_sketches`: duplicates are looked for.
    """

    def __init__(
        self,
        pages: PageReader,
        rules: WorkerRules = WorkerRules(),
        *,
        with_sketches: bool = False,
        clock: Callable[[], float] = time.monotonic,
        has_idle_core: Callable[[], bool] = has_idle_core,
    ) -> None:
        self.pages = pages
        self.most_workers = rules.most
        self.pages_of_workers = 0
        self._at_once = rules.at_once
        self._with_sketches = with_sketches
        self._workers = StateProcesses(MODULES, count=rules.most) if rules.most else None
        self._start: asyncio.Task[None] | None = None
        self._share = _BusyShare(clock)
        self._has_idle_core = has_idle_core
        self._kinds_asked: OrderedDict[tuple[str, str], _AskedShare] = OrderedDict()

    def figures(self) -> dict[str, int]:
        """Return how many workers run, the pages that they have read, and how often one was replaced; nothing where
        none was needed.
        """
        workers = self._workers
        if workers is None or not self.pages_of_workers:
            return {}
        return {"processes": workers.started, "pages": self.pages_of_workers, "restarts": workers.restarts}

    async def read(self, site: ReadSite, fetched: FetchedPage, *, with_features: bool, with_main: bool) -> PageReading:
        """Read a page. `with_main`: the site may learn from it. Raises ContentError where it cannot be read."""
        if self.pages.is_cheap(fetched.html) and (workers := await self._running_workers()) is not None:
            wishes = (with_features, self._kinds_of(site, fetched).are_wanted(), with_main, self._with_sketches)
            seconds = seconds_for(fetched.html)
            try:
                packed = await workers.call(_Owner(site), read_for_site, fetched, *wishes, seconds=seconds)
                self.pages_of_workers += 1
                return self._unpacked(site, packed, fetched)
            except ReadingStopped:
                raise
            except ContentError as error:  # perhaps the worker was killed, and it is not the page's fault
                logger.debug("%s: %s; it is read once more", fetched.url, error)
                return await _read_by(self.pages.apart, fetched, with_features=with_features)
            except WorkersGone:
                pass
        reading = await _read_by(self.pages.apply, fetched, with_features=with_features)
        self._share.note(self.pages.seconds_here)
        return reading

    async def main_text(self, site: ReadSite, content: PageContent, url: str) -> MainText:
        """Let the site learn from a page, and return its main text."""
        sketch_url = url if self._with_sketches else None
        found = await self._in_worker(site, main_text_of_packed, (content,), sketch_url)
        if isinstance(found, MainText):
            return found
        site.boilerplate.observe(content.blocks)
        if _is_long(content):
            return await asyncio.to_thread(chosen_main_text, site.boilerplate, content, sketch_url)
        return chosen_main_text(site.boilerplate, content, sketch_url)

    async def observe(self, site: ReadSite, content: PageContent) -> None:
        """Let the site learn from a page of an earlier run."""
        if await self._in_worker(site, observe_packed, (content,)) is _NOT_THERE:
            site.boilerplate.observe(content.blocks)

    async def main_hash(self, site: ReadSite, content: PageContent) -> str:
        """Do what `main_text_hash` does by what is known of the site."""
        found = await self._in_worker(site, hash_of_packed, (content,))
        if found is _NOT_THERE:
            return await asyncio.to_thread(main_text_hash, site.boilerplate, content)
        return str(found)

    async def texts_differ(self, site: ReadSite, before: PageContent, after: PageContent) -> bool:
        """Do what `main_texts_differ` does by what is known of the site."""
        found = await self._in_worker(site, packed_differ, (before, after))
        if found is _NOT_THERE:  # in a thread: a page may have a hundred thousand blocks
            return await asyncio.to_thread(main_texts_differ, site.boilerplate, before, after)
        return bool(found)

    def close(self) -> None:
        """End all processes at once, whatever they do."""
        self.pages.close()
        if self._workers is not None:
            self._workers.close()

    async def _running_workers(self) -> StateProcesses | None:
        """Return the workers if they are to read the next page."""
        workers = self._workers
        if workers is None or workers.is_broken:
            return None
        if not workers.started:
            if self._start is None and (self._at_once or (self._share.is_high and self._has_idle_core())):
                self._start = asyncio.ensure_future(workers.start(self.most_workers if self._at_once else 1))
            if self._at_once and self._start is not None:
                await asyncio.shield(self._start)
        return workers if workers.started else None

    async def _in_worker(
        self, site: ReadSite, function: Callable[..., Any], contents: tuple[PageContent, ...], *arguments: Any
    ) -> Any:
        """Call a function where the site is kept; return _NOT_THERE if that is here."""
        workers = self._workers
        if workers is None or not workers.has(site.name):
            return _NOT_THERE
        packed = [
            await asyncio.to_thread(pack_content, one) if _is_long(one) else pack_content(one) for one in contents
        ]
        try:
            return await workers.call(_Owner(site), function, *packed, *arguments, seconds=_STATE_SECONDS)
        except ReadingStopped:
            raise
        except (ContentError, WorkersGone):
            return _NOT_THERE

    def _unpacked(self, site: ReadSite, packed: PackedReading, fetched: FetchedPage) -> PageReading:
        asked = self._kinds_of(site, fetched)

        def kinds() -> Mapping[str, float]:
            asked.note()
            return read_page(fetched.html, fetched.url).kinds if packed.kinds is None else packed.kinds

        content = replace(unpack_content(packed.content), kinds=KindsOnDemand(kinds))
        return PageReading(content, packed.features, packed.facts, packed.main)

    def _kinds_of(self, site: ReadSite, fetched: FetchedPage) -> _AskedShare:
        key = (site.name, url_pattern(fetched.url))
        asked = self._kinds_asked.setdefault(key, _AskedShare())
        self._kinds_asked.move_to_end(key)
        if len(self._kinds_asked) > _MAX_PATTERNS:
            self._kinds_asked.popitem(last=False)
        return asked


_NOT_THERE: Final = object()


async def _read_by(place: Callable[..., Any], fetched: FetchedPage, *, with_features: bool) -> PageReading:
    if with_features:
        return PageReading(*await place(read_page_and_features, fetched.html, fetched.url, url=fetched.url))
    return PageReading(await place(read_page, fetched.html, fetched.url, url=fetched.url))


class _BusyShare:
    """Tells what share of the last seconds was spent on reading, the latest counting most."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at = clock()
        self._spent = 0.0
        self._recent = 0.0

    def note(self, spent_seconds: float) -> None:
        """Note all the time that reading has taken so far."""
        now = self._clock()
        self._recent = self._recent * exp((self._at - now) / _BUSY_SECONDS) + spent_seconds - self._spent
        self._at, self._spent = now, spent_seconds

    @property
    def is_high(self) -> bool:
        return self._recent > _BUSY_SHARE * _BUSY_SECONDS


@dataclass(slots=True)
class _AskedShare:
    """The share of pages that were asked for their kinds, the latest counting most."""

    share: float = 1.0

    def are_wanted(self) -> bool:
        self.share -= self.share / _KINDS_PAGES
        return self.share > _KINDS_SHARE

    def note(self) -> None:
        self.share = min(1.0, self.share + 1 / _KINDS_PAGES)


def _is_long(content: PageContent) -> bool:
    """Tell whether the page's text is more than some milliseconds of work."""
    blocks = content.blocks
    return len(blocks) > _LONG_BLOCKS or sum(len(block.markdown) for block in blocks) > _LONG_CHARS
