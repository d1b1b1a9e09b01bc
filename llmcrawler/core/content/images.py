"""Writes the images of a page's text as Markdown: those of its figures and paragraphs that say what they show."""

from __future__ import annotations

import re
from typing import Final

from llmcrawler.core.content.elements import H1, H6, TAG_IDS
from llmcrawler.core.content.line_marks import LineMarks, is_code
from llmcrawler.core.content.markup import attributes
from llmcrawler.core.content.segments import RawBlock, Segments

_ORNAMENT: Final = re.compile(
    r'(?i) (?:class|src|role)="[^"]*(?:icon|emoji|avatar|logo|badge|smil|spacer|pixel|presentation)|="data:'
    r'| (?:width|height)="[0-4]?\d(?:px)?"'
)
_ADDRESS: Final = re.compile(r"[^\s()<>\x00-\x1f]{1,2000}")
_UNSAID: Final = re.compile(r"[\[\]\\`$*|<>]")
_AROUND: Final = 3  # elements of an image, one of which is a figure or a paragraph
_PARTS: Final = frozenset((TAG_IDS["p"], TAG_IDS["figure"]))
_MIN_CHARS, _MAX_CHARS = 4, 300


class ImageReader:
    """Holds an image that has no text beside it until the block behind it is known: it stands above that if it is a
    paragraph, else below the one before it.
    """

    def __init__(self, out: Segments) -> None:
        self._out = out
        self.waiting = ""

    def read(self, source: str, text: list[str], container: int, lines: LineMarks) -> str:
        """Return the Markdown of an image within a text, "" for one that stands alone or says nothing."""
        if _ORNAMENT.search(source) or not self._is_content(container):
            return ""
        found = attributes(source)
        alt = " ".join(_UNSAID.sub(" ", found.get("alt", "")).split())[:_MAX_CHARS]
        if len(alt) < _MIN_CHARS or not _ADDRESS.fullmatch(found.get("src", "")):
            return ""
        image = f"![{alt}]({found['src']})"
        beside = "".join(text)
        if beside and not beside.isspace():
            return "" if alt.lower() in beside.lower() else f" {image} "
        self.waiting = "" if lines.is_open else image
        return ""

    def _is_content(self, container: int) -> bool:
        for _ in range(_AROUND):
            if self._out.tags[container] in _PARTS:
                return True
            container = self._out.parents[container]
        return False

    def place(self, lines: LineMarks) -> None:
        """Put the image that waits beside a block that was read after it."""
        image, self.waiting = self.waiting, ""
        blocks = self._out.blocks
        alt = image[2 : image.index("](")].lower()
        if any(alt in block.text.lower() for block in blocks[-2:]):
            return
        if not lines.is_open and _is_paragraph(blocks[-1]):
            blocks[-1].markdown = f"{image}\n\n{blocks[-1].markdown}"
        elif len(blocks) > 1 and _is_paragraph(blocks[-2]):
            blocks[-2].markdown += f"\n\n{image}"


def _is_paragraph(block: RawBlock) -> bool:
    markdown = block.markdown
    return (
        not block.unit
        and not H1 <= block.tag <= H6
        and markdown[:1].isalnum()
        and block.tag != TAG_IDS["li"]
        and not is_code(markdown)
    )
