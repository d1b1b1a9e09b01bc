"""Pages with their truth: what a perfect reader would put into their records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self


class Shown(str):
    """A value as its page shows it.

    `value` is what a record holds of it: 12.5 for "£12.50", "2024-03-12" for "12 March 2024"; else the text itself.
    `parts` are the pieces that it stands in where no single element holds it: the paragraphs of a text.
    """

    __slots__ = ("parts", "value")
    value: Any
    parts: tuple[str, ...]

    def __new__(cls, text: str, value: Any = None, parts: tuple[str, ...] = ()) -> Self:
        self = super().__new__(cls, text)
        self.value = text if value is None else value
        self.parts = parts
        return self

    @classmethod
    def paragraphs(cls, parts: list[str]) -> Self:
        return cls("\n".join(parts), None, tuple(parts))


@dataclass(frozen=True, slots=True)
class SitePage:
    """`fields` holds strings (some of them `Shown`), lists of strings, lists of dicts of strings (objects), or None
    for what the page does not have."""

    path: str
    html: str
    page_type: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Site:
    """`page_type` is that of the pages that have records; `pages` stand in random order, the home page has path "/"."""

    name: str
    page_type: str
    pages: tuple[SitePage, ...]

    @property
    def records(self) -> tuple[SitePage, ...]:
        return tuple(page for page in self.pages if page.page_type == self.page_type)

    def routes(self) -> dict[str, str]:
        return {page.path: page.html for page in self.pages}

    def truth(self) -> dict[str, dict[str, Any]]:
        """Path -> page_type and fields, as the rows of a stored site's index have them."""
        return {page.path: {"page_type": page.page_type, "fields": page.fields} for page in self.pages}
