"""Reads pages without holding up the event loop: ordinary ones in this process, costly ones in another; and packs what
was read for its way between processes, as pickling it unchanged takes ten times as long.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

from llmcrawler.core.content.markup import is_cheap
from llmcrawler.core.content.page import read_page
from llmcrawler.core.processes.bounded_processes import BoundedProcesses
from llmcrawler.items import Link, PageContent, TextBlock

_BLOCKS_AT_ONCE: Final = 500  # pickling holds the interpreter's lock, so that no more is done in one call
_BLOCK_FIELDS: Final = ("markdown", "word_count", "score", "key", "unit", "region")
_PLAIN_FIELDS: Final = ("title", "lang", "metadata", "structured_data", "features", "cues", "robots")


class PackedContent(NamedTuple):
    """Everything of a PageContent but its kinds, in columns. `blocks` are pickled, some hundred at a time."""

    plain: tuple[Any, ...]
    links: tuple[list[str], list[str], list[str]]
    blocks: tuple[bytes, ...]


def pack_content(content: PageContent, *, with_blocks: bool = True) -> PackedContent:
    links = content.links
    blocks = content.blocks if with_blocks else ()
    parts = [
        [[getattr(block, name) for block in blocks[start : start + _BLOCKS_AT_ONCE]] for name in _BLOCK_FIELDS]
        for start in range(0, len(blocks), _BLOCKS_AT_ONCE)
    ]
    return PackedContent(
        tuple(getattr(content, name) for name in _PLAIN_FIELDS),
        ([one.url for one in links], [one.text for one in links], [one.place for one in links]),
        tuple(pickle.dumps(part, pickle.HIGHEST_PROTOCOL) for part in parts),
    )


def unpack_content(packed: PackedContent) -> PageContent:
    """Return the content that `pack_content` was given, without kinds."""
    blocks: list[TextBlock] = []
    for part in packed.blocks:
        blocks += map(TextBlock, *pickle.loads(part))  # noqa: S301 - from a process of ours
    plain = dict(zip(_PLAIN_FIELDS, packed.plain, strict=True))
    return PageContent(links=tuple(map(Link, *packed.links)), blocks=tuple(blocks), **plain)


T = TypeVar("T")

# Processor time: ten times what an ordinary page of the size takes.
_SECONDS: Final = 2.0
_SECONDS_PER_CHAR: Final = 4e-6
_MAX_KEPT: Final = 1_000
_TURN_SECONDS: Final = 0.005
_MODULES: Final = ("llmcrawler.core.content", "llmcrawler.core.content.render_features", "llmcrawler.core.urls")


class PageReader:
    """Reads pages of up to `inline_chars` characters in this process, where all else waits meanwhile."""

    def __init__(self, inline_chars: int = 150_000) -> None:
        self._inline_chars = inline_chars
        self.processes = BoundedProcesses(_MODULES)
        self.seconds_here = 0.0  # that pages have taken in this process
        self._cheap: dict[int, bool] = {}  # by the hash of a page, which is worked out once for each string

    def is_cheap(self, html: str) -> bool:
        """Tell whether the page is read in this process. The answer is kept, as each stage of a page asks for it."""
        if len(html) > self._inline_chars:
            return False
        key = hash(html)
        if key not in self._cheap:
            if len(self._cheap) >= _MAX_KEPT:
                del self._cheap[next(iter(self._cheap))]
            self._cheap[key] = is_cheap(html)
        return self._cheap[key]

    async def read(self, html: str, url: str) -> PageContent:
        """Return what `read_page` returns. Raises ContentError as `apply` does."""
        return await self.apply(read_page, html, url, url=url)

    async def apply(self, function: Callable[..., T], html: str, *arguments: Any, url: str) -> T:
        """Call a function with the page's text, here if the page is cheap, else through `BoundedProcesses.run`, which
        says what function it may be. Raises ContentError where it takes too long or too much memory.
        """
        if self.is_cheap(html):
            started = time.perf_counter()
            result = function(html, *arguments)
            seconds = time.perf_counter() - started
            self.seconds_here += seconds
            if seconds > _TURN_SECONDS:
                await asyncio.sleep(0)  # what is next may take as long: all else goes on in between
            return result
        return await self.apart(function, html, *arguments, url=url)

    async def apart(self, function: Callable[..., T], html: str, *arguments: Any, url: str) -> T:
        """Call a function as `apply` does, in another process whatever the page costs."""
        return await self.processes.run(function, html, *arguments, seconds=seconds_for(html), share=_host(url))

    def close(self) -> None:
        self.processes.close()


def seconds_for(html: str) -> float:
    """Return the processor time that the work on a page may take."""
    return _SECONDS + _SECONDS_PER_CHAR * len(html)


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""
