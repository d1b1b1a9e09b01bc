"""Tells links within a page apart: permalinks of headings, references to notes, and the ways back from notes; and the
links of headings that edit what is below.
"""

from __future__ import annotations

import re
from typing import Final

from .hints import part_names

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
