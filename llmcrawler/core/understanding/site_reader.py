"""Reads the pages of sites in this process or, where they are many, in worker processes."""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, Final, NamedTuple, Protocol

from llmcrawler.core.content import Boilerplate, PageReader, content_hash, joined, main_blocks, main_text, read_page
from llmcrawler.core.content.page_kinds import KindsOnDemand
from llmcrawler.core.content.reader import PackedContent, pack_content, seconds_for, unpack_content
from llmcrawler.core.content.render_features import THIN_WORDS, RenderFeatures, may_need_browser, read_page_and_features
from llmcrawler.core.frontier.list_patterns import BlockFacts, block_facts
from llmcrawler.core.processes.state_processes import StateProcesses, WorkersGone
from llmcrawler.core.understanding.templates.duplicates import sketch_page
from llmcrawler.core.urls import url_pattern
from llmcrawler.errors import ContentError, ReadingStopped
from llmcrawler.items import MainText, PageContent

logger = logging.getLogger(__name__)

# Workers are started when reading has taken more than this share of the last seconds: a polite crawl of one site, or a
# short one, needs none.
_BUSY_SHARE: Final = 0.05
_BUSY_SECONDS: Final = 1.0
_LONG_BLOCKS: Final = 2_000
_LONG_CHARS: Final = 200_000
_STATE_SECONDS: Final = 20.0  # of processor time, for what is done with a page that was read
# Kinds are worked out with a page, for a third of its time, where more than this share of the last pages with such a
# url were asked for theirs. The others are read again, here, if their kinds are asked for.
_KINDS_SHARE: Final = 1 / 8
_KINDS_PAGES: Final = 8
_MAX_PATTERNS: Final = 5_000  # of urls; of more, the one not met for longest goes

# What has become of a page since the last crawl.
NEW: Final = "new"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
GONE: Final = "gone"
GONE_STATUSES: Final = frozenset({404, 410})


class FetchedPage(NamedTuple):
    """A page as it came from `url`; `page_url` is that in the frontier, of which it may be the target."""

    html: str
    url: str
    page_url: str


class PageReading(NamedTuple):
    """Result of reading a page. A worker gives `facts` and, if it took it, `main`: then the content has no blocks."""

    content: PageContent
    features: RenderFeatures | None = None
    facts: list[BlockFacts] | None = None
    main: MainText | None = None


class PackedReading(NamedTuple):
    """A PageReading as a worker sends it; `kinds` where they were wanted."""

    content: PackedContent
    kinds: dict[str, float] | None
    features: RenderFeatures | None
    facts: list[BlockFacts]
    main: MainText | None


class PageVersion(NamedTuple):
    html: str
    content: PageContent


def read_for_site(boilerplate: Boilerplate, fetched: FetchedPage, *wishes: bool) -> PackedReading:
    """Read a page, in a worker. `wishes`: its features for rendering, its kinds, its main text, and the sketch of that;
    the main text is not taken where the page may be a shell, or withheld: the site does not learn from those.
    """
    with_features, with_kinds, with_main, with_sketch = wishes
    features = None
    if with_features:
        content, features = read_page_and_features(fetched.html, fetched.url)
        may_be_shell = features.may_be_more
    else:
        content = read_page(fetched.html, fetched.url)
        may_be_shell = may_need_browser(fetched.html) and content.cues.get("word_count", 0) <= THIN_WORDS
    main = None
    if with_main and not may_be_shell and not may_withhold(content.robots.values()):
        boilerplate.observe(content.blocks)
        main = main_text_of(boilerplate, content, fetched.url if with_sketch else None)
    kinds = dict(content.kinds) if with_kinds else None
    facts = block_facts(fetched.page_url, content.blocks)
    return PackedReading(pack_content(content, with_blocks=main is None), kinds, features, facts, main)


def may_withhold(directives: Iterable[str]) -> bool:
    """Tell whether any of a page's directives for robots may be one by which it is withheld."""
    return any(word in one.lower() for one in directives for word in ("noindex", "none", "unavailable_after"))


def main_text_of(boilerplate: Boilerplate, content: PageContent, url: str | None) -> MainText:
    """Return the main text of a page from which the site has learned; with its url also its sketch."""
    main = main_blocks(content.blocks, boilerplate)
    text = joined(main)
    return MainText(text, content_hash(text), None if url is None else sketch_page(content, main, url))


def main_text_hash(boilerplate: Boilerplate, content: PageContent) -> str:
    return content_hash(main_text(content.blocks, boilerplate))


def main_texts_differ(boilerplate: Boilerplate, before: PageContent, after: PageContent) -> bool:
    """Tell whether a text is main content of one version of a page and nowhere in the other."""
    for here, there in ((before.blocks, after.blocks), (after.blocks, before.blocks)):
        known, main = {block.key for block in there}, main_blocks(here, boilerplate)
        for block, repeats in zip(main, boilerplate.repeated(main), strict=True):
            if block.key not in known and not repeats:
                return True
    return False


def observe_only(boilerplate: Boilerplate, content: PageContent) -> None:
    """Do nothing with a page from which the site has learned."""


def call_unpacked(
    boilerplate: Boilerplate,
    function: Callable[..., Any],
    packed: Sequence[PackedContent],
    learns: bool,
    *arguments: Any,
) -> Any:
    """Call a function of this module in a worker. `learns`: the site learns from the page before."""
    contents = [unpack_content(one) for one in packed]
    if learns:
        boilerplate.observe(contents[0].blocks)
    return function(boilerplate, *contents, *arguments)


class ReadSite(Protocol):
    name: str
    boilerplate: Boilerplate


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """Limits of the worker pool. `at_once`: workers start with the first page, otherwise when reading takes much of the
    time.
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


@dataclass(slots=True)
class _AskedShare:
    """The share of pages that were asked for their kinds, the latest counting most."""

    share: float = 1.0

    def are_wanted(self) -> bool:
        self.share -= self.share / _KINDS_PAGES
        return self.share > _KINDS_SHARE

    def note(self) -> None:
        self.share = min(1.0, self.share + 1 / _KINDS_PAGES)


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
    ) -> None:
        self.pages = pages
        self.most_workers = rules.most
        self.pages_of_workers = 0
        self._at_once = rules.at_once
        self._with_sketches = with_sketches
        self._workers = StateProcesses((__name__,), count=rules.most) if rules.most else None
        self._start: asyncio.Task[None] | None = None
        self._clock = clock
        self._noted_at = clock()
        self._noted_seconds = 0.0
        self._recent_seconds = 0.0  # spent on reading, the latest counting most
        self._kinds_asked: OrderedDict[tuple[str, str], _AskedShare] = OrderedDict()

    def figures(self) -> dict[str, int]:
        """Return the workers that run, the pages that they have read and their restarts; nothing without any."""
        workers = self._workers
        if workers is None or not self.pages_of_workers:
            return {}
        return {"processes": workers.started, "pages": self.pages_of_workers, "restarts": workers.restarts}

    async def read(self, site: ReadSite, fetched: FetchedPage, *, with_features: bool, with_main: bool) -> PageReading:
        """Read a page. `with_main`: the site may learn from it. Raises ContentError where it cannot be read."""
        is_apart = False
        if self.pages.is_cheap(fetched.html) and (workers := await self._running_workers()) is not None:
            asked = self._kinds_of(site, fetched)
            wishes = (with_features, asked.are_wanted(), with_main, self._with_sketches)
            seconds = seconds_for(fetched.html)
            try:
                packed = await workers.call(_Owner(site), read_for_site, fetched, *wishes, seconds=seconds)
                self.pages_of_workers += 1
                return self._unpacked(packed, fetched, asked)
            except ReadingStopped:
                raise
            except ContentError as error:  # perhaps the worker was killed, and it is not the page's fault
                logger.debug("%s: %s; it is read once more", fetched.url, error)
                is_apart = True
            except WorkersGone:
                pass
        read_by = self.pages.apart if is_apart else self.pages.apply
        if with_features:
            reading = PageReading(*await read_by(read_page_and_features, fetched.html, fetched.url, url=fetched.url))
        else:
            reading = PageReading(await read_by(read_page, fetched.html, fetched.url, url=fetched.url))
        if not is_apart:
            now, spent = self._clock(), self.pages.seconds_here
            self._recent_seconds *= exp((self._noted_at - now) / _BUSY_SECONDS)
            self._recent_seconds += spent - self._noted_seconds
            self._noted_at, self._noted_seconds = now, spent
        return reading

    async def main_text(self, site: ReadSite, content: PageContent, url: str) -> MainText:
        """Let the site learn from a page, and return its main text."""
        found = await self._at_site(site, main_text_of, (content,), url if self._with_sketches else None, learns=True)
        assert isinstance(found, MainText)
        return found

    async def observe(self, site: ReadSite, content: PageContent) -> None:
        await self._at_site(site, observe_only, (content,), learns=True)

    async def main_hash(self, site: ReadSite, content: PageContent) -> str:
        """Return the hash of a page's main text by what is known of the site, which does not learn from it."""
        return str(await self._at_site(site, main_text_hash, (content,)))

    async def says_the_same(
        self,
        site: ReadSite,
        old: PageVersion,
        new: PageVersion,
        record_of: Callable[[PageVersion], Awaitable[dict[str, Any] | None]],
    ) -> bool:
        """Return whether nothing that counts has changed, by what is known now of the site's texts and fields.

        A text counts when it is main content of one version and nowhere in the other: neither a new menu, nor a token
        in a form, nor a block that is only judged otherwise is a change; and a price is one though the main text leaves
        it out.
        """
        before, after = old.content, new.content
        if (before.title, before.lang) != (after.title, after.lang) or before.structured_data != after.structured_data:
            return False
        if await self._at_site(site, main_texts_differ, (before, after)):
            return False
        return await record_of(old) == await record_of(new)

    def close(self) -> None:
        self.pages.close()
        if self._workers is not None:
            self._workers.close()

    async def _running_workers(self) -> StateProcesses | None:
        workers = self._workers
        if workers is None or workers.is_broken:
            return None
        if not workers.started:
            is_busy = self._recent_seconds > _BUSY_SHARE * _BUSY_SECONDS
            if self._start is None and (self._at_once or is_busy):
                self._start = asyncio.ensure_future(workers.start(self.most_workers if self._at_once else 1))
        if self._at_once and self._start is not None:  # until all have started: no page overtakes one that waits
            await asyncio.shield(self._start)
        return workers if workers.started else None

    async def _at_site(
        self,
        site: ReadSite,
        function: Callable[..., Any],
        contents: tuple[PageContent, ...],
        *arguments: Any,
        learns: bool = False,
    ) -> Any:
        """Call a function with a site's boilerplate, contents of its pages and arguments, where the site is kept."""
        is_long = any(map(_is_long, contents))
        if self._workers is not None and self._workers.has(site.name):
            packed = [await asyncio.to_thread(pack_content, one) if is_long else pack_content(one) for one in contents]
            try:
                return await self._workers.call(
                    _Owner(site), call_unpacked, function, packed, learns, *arguments, seconds=_STATE_SECONDS
                )
            except ReadingStopped:
                raise
            except (ContentError, WorkersGone):
                pass
        if learns:
            site.boilerplate.observe(contents[0].blocks)
        if learns and not is_long:
            return function(site.boilerplate, *contents, *arguments)
        return await asyncio.to_thread(function, site.boilerplate, *contents, *arguments)

    def _unpacked(self, packed: PackedReading, fetched: FetchedPage, asked: _AskedShare) -> PageReading:
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


def _is_long(content: PageContent) -> bool:
    blocks = content.blocks
    return len(blocks) > _LONG_BLOCKS or sum(len(block.markdown) for block in blocks) > _LONG_CHARS
