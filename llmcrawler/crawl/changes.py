"""Compares a page with what it was when it was last crawled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

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
    texts_differ: Callable[[PageContent, PageContent], Awaitable[bool]],
    record_of: Callable[[PageVersion], Awaitable[dict[str, Any] | None]],
) -> bool:
    """Return whether nothing that counts has changed, by what is known now of the site's texts and fields.

    A text counts when it is main content of one version and nowhere in the other: neither a new menu, nor a token in a
    form, nor a block that is only judged otherwise is a change; and a price is one though the main text leaves it out.
    """
    before, after = old.content, new.content
    if (before.title, before.lang) != (after.title, after.lang) or before.structured_data != after.structured_data:
        return False
    if await texts_differ(before, after):
        return False
    return await record_of(old) == await record_of(new)
