"""Compares a page with what it was when it was last crawled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from llmcrawler.content import Boilerplate, main_blocks
from llmcrawler.items import PageContent

NEW: Final = "new"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
GONE: Final = "gone"

GONE_STATUSES: Final = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class PageVersion:
    """A page at one point in time."""

    html: str
    content: PageContent


async def says_the_same(
    old: PageVersion,
    new: PageVersion,
    boilerplate: Boilerplate,
    record_of: Callable[[PageVersion], Awaitable[dict[str, Any] | None]],
) -> bool:
    """Return whether nothing that counts has changed, by the boilerplate and the fields (`record_of`) known now.

    A text counts when it is main content of one version and nowhere in the other: neither a new menu, nor a token in a
    form, nor a block that is only judged otherwise is a change; and a price is one though the main text leaves it out.
    """
    before, after = old.content, new.content
    if (before.title, before.lang) != (after.title, after.lang) or before.structured_data != after.structured_data:
        return False
    # In a thread: a page may have a hundred thousand blocks.
    if await asyncio.to_thread(_texts_differ, before, after, boilerplate):
        return False
    return await record_of(old) == await record_of(new)


def _texts_differ(before: PageContent, after: PageContent, boilerplate: Boilerplate) -> bool:
    return _main_only_here(before, after, boilerplate) or _main_only_here(after, before, boilerplate)


def _main_only_here(here: PageContent, there: PageContent, boilerplate: Boilerplate) -> bool:
    known = {block.key for block in there.blocks}
    return any(
        block.key not in known and not boilerplate.is_repeated(block.key)
        for block in main_blocks(here.blocks, boilerplate)
    )
