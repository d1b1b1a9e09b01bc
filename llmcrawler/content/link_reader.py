"""Reads the links of a page, while its blocks are read."""

from __future__ import annotations

import re
from typing import Final

from .elements import H1, H6
from .folding import folded
from .marks import LINK, LINK_END, TARGET
from .markup import Token, attributes, plain
from .references import BACK, NOTE, OTHER, OWN, PERMALINK, edits, note_label, role_of
from .segments import Segments

_HREF: Final = re.compile(r' href="([^"]*+)"')
_NOFOLLOW: Final = re.compile(r' rel="[^"]*nofollow', re.IGNORECASE)
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_MAX_TEXT_CHARS: Final = 300
_LOOKED_AHEAD: Final = 60  # tokens of a link around blocks, for a heading in it
_ANY, _HEADING, _NONE = range(3)  # the block of a link around blocks that is to be marked


class LinkReader:
    """Holds the link that is open; `text` and `markdown` are the pieces of the block that is being read."""

    def __init__(self, page: list[Token], out: Segments, text: list[str], markdown: list[str]) -> None:
        self._page = page
        self._out = out
        self._text = text
        self._markdown = markdown
        self.is_open = False
        self._open = ("", 0, 0, -1)  # attributes, where its pieces begin, and its place in the page
        self._before = ""  # its text in earlier blocks
        self._marked = _ANY
        self.words = 0  # in links of the block
        self.notes: dict[str, str] = {}  # labels of notes by their ids

    def open(self, source: str, position: int) -> None:
        """Begin a link at a token."""
        self._open = (source, len(self._text), len(self._markdown), position)
        self._marked = _ANY
        self.is_open = True

    def end_block(self, container: int) -> None:
        """Count the text of a link around blocks: what follows is link text too, of the next block. In the Markdown its
        first heading is the link, or its first text.
        """
        source, start, markdown_start, position = self._open
        if position >= 0 and self._has_heading(position):
            self._marked = _HEADING
        inside, words = folded("".join(self._text[start:]))
        if inside:
            self.words += words
            self._before = f"{self._before} {inside}".strip()[:_MAX_TEXT_CHARS]
            if self._marked == _ANY or (self._marked == _HEADING and self._is_heading(container)):
                self._marked = _NONE
                self._mark(markdown_start, _target(source)[0])
        self._open = (source, 0, 0, -1)

    def _has_heading(self, position: int) -> bool:
        for slash, tag, _, _ in self._page[position + 1 : position + _LOOKED_AHEAD]:
            if tag in _HEADINGS:
                return not slash
            if tag == "a":
                break
        return False

    def _is_heading(self, container: int) -> bool:
        return H1 <= self._out.tags[container] <= H6

    def _role(self, source: str, text: str, href: str, container: int) -> int:
        if href.startswith("#"):
            heading = self._out.attributes[container] if self._is_heading(container) else None
            return role_of(source, text, href, heading)
        is_control = "edit" in source and self._is_heading(container) and edits(source)
        return PERMALINK if is_control else OTHER

    def _mark(self, start: int, href: str) -> None:
        if href and start < len(self._markdown):
            self._markdown.insert(start, LINK)
            self._markdown.append(f"{TARGET}{href}{LINK_END}")

    def close(self, container: int) -> None:
        """End a link, and mark it in the Markdown if it leads elsewhere."""
        if not self.is_open:
            return
        source, text_start, markdown_start, _ = self._open
        self.is_open = False
        text, words = folded("".join(self._text[text_start:]))
        href, is_followed = _target(source)
        role = self._role(source, text, href, container)
        if role not in {OTHER, OWN}:
            if role == PERMALINK:
                del self._text[text_start:]
                text, words = "", 0
            if role in {PERMALINK, BACK}:
                del self._markdown[markdown_start:]
            elif role == NOTE:
                self.notes[href[1:]] = note_label(text)
                self._markdown[markdown_start:] = [f"[^{note_label(text)}]"]
        self.words += words
        whole, self._before = f"{self._before} {text}".strip() if self._before else text, ""
        if not href:
            return
        if is_followed:
            self._out.links.append((href, whole, container))
        if text and role == OTHER and self._marked != _NONE:
            self._mark(markdown_start, href)

    def add(self, source: str, text: str, container: int) -> None:
        """Note a link that is not marked: nobody sees it, or it stands in code."""
        found = attributes(source)
        if "href" in found and "nofollow" not in found.get("rel", ""):
            self._out.links.append((found["href"], text, container))


def _target(source: str) -> tuple[str, bool]:
    """Return the address of a link, "" if it has none, and whether it is to be followed."""
    target = _HREF.search(source)
    is_followed = "nofollow" not in source.lower() or not _NOFOLLOW.search(source)
    return plain(target[1]).strip() if target else "", is_followed
