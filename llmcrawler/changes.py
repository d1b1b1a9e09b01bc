"""Whether a page says something else than when it was last crawled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from llmcrawler.content import Boilerplate, main_text
from llmcrawler.items import PageContent

NEW: Final = "new"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
GONE: Final = "gone"

GONE_STATUSES: Final = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Version:
    """A page as it was, or is."""

    html: str
    content: PageContent


def says_the_same(
    old: Version,
    new: Version,
    boilerplate: Boilerplate,
    record_of: Callable[[Version], dict[str, Any] | None],
) -> bool:
    """Both are looked at with the same eyes: what is known now of the site's boilerplate and of the template's fields.
    So neither a new menu nor a token in a form is a change, and a price is one that the main text leaves out.
    """
    if _told(old.content, boilerplate) != _told(new.content, boilerplate):
        return False
    return record_of(old) == record_of(new)


def _told(content: PageContent, boilerplate: Boilerplate) -> tuple[Any, ...]:
    return content.title, content.lang, main_text(content.blocks, boilerplate), content.structured_data
