"""Reads the links of a page, while its blocks are read.

Those within the page are told apart: permalinks of headings, references to notes, and the ways back from notes; and the
links of headings that edit what is below.
"""

from __future__ import annotations

import re
from typing import Final

from llmcrawler.core.content.elements import H1, H6
from llmcrawler.core.content.folding import folded
from llmcrawler.core.content.hints import part_names
from llmcrawler.core.content.marks import LINK, LINK_END, TARGET
from llmcrawler.core.content.markup import Token, attributes, plain
from llmcrawler.core.content.segments import Segments

# OWN is the text of a heading that leads to the heading itself, or to its line in the table of contents.
OTHER, PERMALINK, NOTE, BACK, OWN = range(5)

_SIGNS: Final = frozenset(("", "¶", "#", "§", "🔗", "\u200b", "⚓", "⚓︎", "🔗︎", "##", "link", "[link]"))
_PERMALINK: Final = re.compile(r"header-?(?:link|anchor)|permalink|hash-link|heading-?(?:link|anchor)|self-link|anchor")
_PERMALINK_TEXT: Final = re.compile(
    r"(?i)(?:copy |direct |permanent )?(?:link|permalink|anchor)(?:\b.{0,80}(?:heading|section|this)|\s*$)"
    r"|permalink\b|section titled\b|direct link to\b|link for\b|skip to"
)
_NOTE: Final = re.compile(
    r'footnote|noteref|data-footnote-ref|href="#(?:user-content-)?(?:_?fn|cite_note|_footnotedef|ftnt?\d|note-?\d|sdfootnote)'
)
_BACK: Final = re.compile(
    r'backref|backlink|href="#(?:user-content-)?(?:_?fnref|cite_ref|_footnoteref|ftnt_ref|ref-?\d)'
)
_BACK_SIGNS: Final = frozenset(("↩", "↩︎", "↩️", "↑", "^", "⤴", "⏎", "⮐"))
_EDIT: Final = re.compile(r'(?i) class="(?:[^"]*[ _-])?edit(?:[ _-][^"]*)?"| href="[^"]*[?&]action=edit')
_LABEL: Final = re.compile(r"\[?([^\s\[\]|]{1,20})\]?")


def role_of(source: str, text: str, href: str, heading: str | None) -> int:
    """Tell what a link to a place in the page is, by its attributes, its text, and those of the heading around it."""
    is_in_heading = heading is not None
    if not is_in_heading and (text in _BACK_SIGNS or (_BACK.search(source) and _LABEL.fullmatch(text))):
        return BACK
    if text in _SIGNS:
        return PERMALINK if is_in_heading or not text or _PERMALINK.search(source) else OTHER
    if heading is not None:
        if _PERMALINK.search(source) and _PERMALINK_TEXT.match(text):
            return PERMALINK
        own = (f' id="{href[1:]}"', f' name="{href[1:]}"')
        is_own = _PERMALINK.search(part_names(source)) or _BACK.search(source) or own[0] in heading
        return OWN if is_own or own[0] in source or own[1] in source else OTHER
    return NOTE if _NOTE.search(source) and _LABEL.fullmatch(text) else OTHER


def edits(source: str) -> bool:
    """Tell whether a link of a heading edits what is below it."""
    return _EDIT.search(source) is not None


def note_label(text: str) -> str:
    """Return the label of a reference to a note, without brackets."""
    match = _LABEL.fullmatch(text)
    return match[1] if match else text


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
