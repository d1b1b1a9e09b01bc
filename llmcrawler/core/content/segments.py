"""Holds the pieces of a page, as one pass over its tokens finds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llmcrawler.core.content.elements import TAG_IDS

SKIP: Final = -2  # in place of a container: all of the element was read already


@dataclass(slots=True)
class RawBlock:
    """A run of inline content between two block boundaries. `unit` is that of `TextBlock`."""

    text: str
    markdown: str
    container: int
    tag: int
    words: int
    link_words: int
    emphasis: int
    unit: int = 0


@dataclass(slots=True)
class Segments:
    """The pieces of a page. Containers are block-level elements in document order: parents come before children.
    `has_hidden`: there is text in them that a reader does not see.
    """

    blocks: list[RawBlock] = field(default_factory=list)
    parents: list[int] = field(default_factory=lambda: [0])
    tags: list[int] = field(default_factory=lambda: [TAG_IDS["body"]])
    hints: list[int] = field(default_factory=lambda: [0])
    signatures: list[str] = field(default_factory=lambda: [""])
    attributes: list[str] = field(default_factory=lambda: [""])  # as they stand in the page
    links: list[tuple[str, str, int]] = field(default_factory=list)  # reference, text, container
    metas: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    html_attributes: dict[str, str] = field(default_factory=dict)
    title: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    controls: list[tuple[str, str]] = field(default_factory=list)
    has_hidden: bool = False
