"""Cuts a page into blocks of text, the containers they stand in, links, controls and metadata, in one pass."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from llmcrawler.core.content.block_writer import BlockWriter
from llmcrawler.core.content.elements import BARE, CONTROLS, HEAD, SKIPPED, SKIPPED_ALWAYS
from llmcrawler.core.content.hints import asks_for_consent, part_names
from llmcrawler.core.content.markup import VOID, Token, attributes, plain
from llmcrawler.core.content.segments import SKIP, Segments

# Hidden parts that a click shows: tabs, accordions. Their text is content like any other.
_UNFOLDS: Final = re.compile(r"(?i)tab|panel|accordion|collaps|toggle|desc|content|faq")
_HIDDEN: Final = re.compile(
    r' hidden(?:=""|="hidden"|="true"|(?= |$))| aria-hidden="true"| style="[^"]*display: ?none', re.IGNORECASE
)
_COPY_NAMES: Final = re.compile(r'(?i) (?:class|title|aria-label|data-[\w-]+)="[^"]*(?:copy|clipboard)')
_COPY_WORDS: Final = frozenset(("copy", "copy code", "copied", "copied!", "copy to clipboard"))
_LABELS: Final = frozenset(("button", "label"))
_NOTED: Final = CONTROLS | {"title", "html"}
_MAX_TITLE_CHARS: Final = 2000


class Segmenter:
    """Reads tokens once, in time linear in their number."""

    def __init__(self, *, lenient: bool = False) -> None:
        self._skipped = SKIPPED_ALWAYS if lenient else SKIPPED
        self._lenient = lenient
        self.has_skipped = False  # something that would be read if it were lenient

    # A flat loop: one call per token would cost more than all the work in it.
    def read(self, page: list[Token]) -> Segments:  # noqa: C901, PLR0912, PLR0915 - speed, see above
        writer = BlockWriter(page)
        out, stack, skipped = writer.out, writer.stack, self._skipped
        block_text, text_append, markdown_append = writer.text, writer.text.append, writer.markdown.append
        skip_until = -1
        for position, (slash, tag, source, text) in enumerate(page):
            if slash:
                if stack:
                    name, container = stack.pop()
                    if skip_until >= 0:
                        if len(stack) <= skip_until:
                            skip_until = -1
                    elif container >= 0 or name not in BARE:
                        writer.close(name, container)
            elif tag in VOID:
                if tag in HEAD:
                    out.metas.append((tag, attributes(source)))
                elif tag == "input" and source:
                    out.controls.append((tag, source))
                if skip_until < 0:
                    writer.void(tag, source)
            elif tag:
                if skip_until < 0 and (
                    tag in skipped
                    or (
                        source
                        and (
                            (("hidden" in source or "none" in source) and self._is_hidden(tag, source))
                            or (("ookie" in source or "onsent" in source) and self._lies_over_page(tag, source))
                        )
                    )
                ):
                    skip_until = len(stack)
                    self.has_skipped = self.has_skipped or tag not in SKIPPED_ALWAYS
                if skip_until >= 0:
                    stack.append((tag, -1))
                    if tag == "a":
                        writer.hidden_link(source)
                elif tag in BARE:
                    if tag == "span":
                        if ("math" in source or "edit" in source) and writer.inline(tag, source, position):
                            skip_until = len(stack)
                    elif tag in _LABELS and (writer.inline(tag, source, position) or _copies(source, text)):
                        skip_until = len(stack)
                    stack.append((tag, -1))
                else:
                    container = writer.open(tag, source, position)
                    if container == SKIP:
                        skip_until = len(stack)
                    stack.append((tag, container))
                if tag in _NOTED:
                    if tag in CONTROLS:
                        out.controls.append((tag, source))
                    elif tag == "title":
                        out.title = out.title or " ".join(plain(text[:_MAX_TITLE_CHARS]).split())
                    else:
                        out.html_attributes = attributes(source)
            if text and skip_until < 0:
                # White space before a block's first word is nothing; it stands behind most tags.
                if not block_text and text.isspace():
                    continue
                shown = plain(text) if "&" in text else text
                text_append(shown)
                markdown_append(shown)
        writer.flush()
        out.counts = Counter([tag for slash, tag, _, _ in page if tag and not slash])
        return out

    def _is_hidden(self, tag: str, source: str) -> bool:
        if self._lenient or tag in {"body", "html"} or not _HIDDEN.search(source):
            return False
        return _UNFOLDS.search(part_names(source)) is None

    def _lies_over_page(self, tag: str, source: str) -> bool:
        return not self._lenient and tag not in {"body", "html", "main", "article"} and asks_for_consent(source)


def _copies(source: str, text: str) -> bool:
    """Tell whether a button copies what stands beside it."""
    return text.strip().lower() in _COPY_WORDS or (
        ("opy" in source or "lipboard" in source) and _COPY_NAMES.search(source) is not None
    )


# With less text than this a page may keep its content where only a reader without scripts looks.
FEW_WORDS: Final = 100


def segment(page: list[Token]) -> Segments:
    """Cut a page up; where next to no text is visible, `noscript`, `template` and hidden parts are read too."""
    segmenter = Segmenter()
    found = segmenter.read(page)
    words = sum([block.words for block in found.blocks])
    if words >= FEW_WORDS or not segmenter.has_skipped:
        return found
    lenient = Segmenter(lenient=True).read(page)
    lenient.has_hidden = True
    return lenient if sum(block.words for block in lenient.blocks) > 2 * words + 20 else found
