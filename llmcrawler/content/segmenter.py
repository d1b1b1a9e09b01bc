"""Cuts a page into blocks of text, the containers they stand in, links, controls and metadata, in one pass."""

from __future__ import annotations

import re
from typing import Final

from .elements import BARE, CONTROLS, FORMED, HEAD, INLINE_MARKS, LAYOUT, SKIPPED, SKIPPED_ALWAYS, TAG_IDS, TAGS
from .hints import asks_for_consent, hint_bits, part_names
from .marks import CELL, CLOSE, LINK, LINK_END, OPEN, TARGET, inline_markdown
from .markup import VOID, Token, attributes, plain
from .segments import RawBlock, Segments

_STRONG_CLOSE: Final = f"{CLOSE}**"

# Hidden parts that a click shows: tabs, accordions. Their text is content like any other.
_UNFOLDS: Final = re.compile(r"(?i)tab|panel|accordion|collaps|toggle|desc|content|faq")
_HREF: Final = re.compile(r' href="([^"]*+)"')
_NOFOLLOW: Final = re.compile(r' rel="[^"]*nofollow', re.IGNORECASE)
_HIDDEN: Final = re.compile(
    r' hidden(?:=""|="hidden"|="true"|(?= |$))| aria-hidden="true"| style="[^"]*display: ?none', re.IGNORECASE
)
# Elements deeper than this are taken as one container.
_MAX_DEPTH: Final = 400
_MAX_TITLE_CHARS: Final = 2000
_MAX_TAG_CHARS: Final = 40  # of a container's name; that of a custom element may have a million


class Segmenter:
    """Reads tokens once, in time linear in their number."""

    def __init__(self, *, lenient: bool = False) -> None:
        self._skipped = SKIPPED_ALWAYS if lenient else SKIPPED
        self._lenient = lenient
        self.out = Segments()
        self._stack: list[tuple[str, int]] = []
        self._container = 0
        self._text: list[str] = []
        self._markdown: list[str] = []
        self._link: tuple[str, int, int] | None = None
        self._link_text = ""
        self._link_words = 0
        self._lists: list[int] = []  # the next number of each open list, 0 where it has none
        self._prefix = ""
        self._quotes = 0
        self._pre = 0
        self._table_rows: list[int] = []
        self._is_in_row = False

    # A flat loop: one call per token would cost more than all the work in it.
    def read(self, page: list[Token]) -> Segments:  # noqa: C901, PLR0912 - speed, see above
        out, stack, counts, skipped = self.out, self._stack, self.out.counts, self._skipped
        block_text, text_append, markdown_append = self._text, self._text.append, self._markdown.append
        skip_until = -1
        for position, (slash, tag, source, text) in enumerate(page):
            if slash:
                if stack:
                    name, container = stack.pop()
                    if skip_until >= 0:
                        if len(stack) <= skip_until:
                            skip_until = -1
                    elif container >= 0 or name not in BARE or self._is_in_row:
                        self._close(name, container)
            elif tag in VOID:
                counts[tag] = counts.get(tag, 0) + 1
                if tag in HEAD:
                    out.metas.append((tag, attributes(source)))
                elif tag == "input" and source:
                    out.controls.append((tag, source))
                if skip_until < 0:
                    self._void(tag, source)
            elif tag:
                counts[tag] = counts.get(tag, 0) + 1
                if skip_until < 0 and (
                    tag in skipped
                    or (("hidden" in source or "none" in source) and self._is_hidden(tag, source))
                    or (("ookie" in source or "onsent" in source) and self._lies_over_page(tag, source))
                ):
                    skip_until = len(stack)
                if skip_until >= 0:
                    stack.append((tag, -1))
                    if tag == "a":
                        self._hidden_link(source)
                elif tag in BARE:
                    stack.append((tag, -1))
                else:
                    stack.append((tag, self._open(tag, source, page, position)))
                if tag in CONTROLS:
                    out.controls.append((tag, source))
                elif tag == "title":
                    out.title = out.title or " ".join(plain(text[:_MAX_TITLE_CHARS]).split())
                elif tag == "html":
                    out.html_attributes = attributes(source)
            if text and skip_until < 0:
                # White space before a block's first word is nothing; it stands behind most tags.
                if text.isspace() and not block_text and not self._pre:
                    continue
                shown = plain(text) if "&" in text else text
                text_append(shown)
                markdown_append(shown)
        self._flush()
        return out

    def _is_hidden(self, tag: str, source: str) -> bool:
        if self._lenient or tag in {"body", "html"} or not _HIDDEN.search(source):
            return False
        return _UNFOLDS.search(part_names(source)) is None

    def _lies_over_page(self, tag: str, source: str) -> bool:
        return not self._lenient and tag not in {"body", "html", "main", "article"} and asks_for_consent(source)

    def _hidden_link(self, source: str) -> None:
        found = attributes(source)
        if "href" in found and "nofollow" not in found.get("rel", ""):
            self.out.links.append((found["href"], "", self._container))

    def _open(self, tag: str, source: str, page: list[Token], position: int) -> int:  # noqa: C901 - a tag a branch
        """Return the container to go back to at the element's end, or -1 for inline elements."""
        if tag == "a":
            self._link = (source, len(self._text), len(self._markdown))
            return -1
        if tag in INLINE_MARKS:
            if not self._pre:
                self._markdown.append(OPEN + INLINE_MARKS[tag])
            return -1
        if self._is_in_row:
            self._text.append(" ")
            self._markdown.append(" ")
            return -1
        if self._text or self._markdown:
            self._flush()
        before = self._container
        self._push(tag, source)
        if tag not in FORMED:
            return before
        if tag in {"ul", "ol"}:
            self._lists.append(1 if tag == "ol" else 0)
        elif tag == "li":
            self._item()
        elif tag == "pre":
            self._pre += 1
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "table":
            self._table_rows.append(0 if _is_data_table(page, position) else -1)
        elif tag == "tr" and self._table_rows and self._table_rows[-1] >= 0:
            self._is_in_row = True
        return before

    def _push(self, tag: str, source: str) -> None:
        out = self.out
        if len(self._stack) > _MAX_DEPTH:
            return
        out.parents.append(self._container)
        out.tags.append(TAG_IDS.get(tag, 0))
        out.hints.append(hint_bits(source) if source else 0)
        name = tag[:_MAX_TAG_CHARS]
        out.signatures.append(name + source[:60] if source.startswith(" class=") else name)
        self._container = len(out.tags) - 1

    def _item(self) -> None:
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        self._prefix = "  " * min(len(self._lists) - 1, 8) + (f"{number}. " if number else "- ")

    def _close(self, tag: str, container: int) -> None:  # noqa: C901, PLR0912 - one branch a tag
        if tag == "a":
            self._close_link()
            return
        if container < 0:
            if tag in INLINE_MARKS:
                if not self._pre:
                    self._markdown.append(CLOSE + INLINE_MARKS[tag])
            elif self._is_in_row:
                if tag in {"td", "th"}:
                    self._markdown.append(CELL)
                self._text.append(" ")
                self._markdown.append(" ")
            return
        if self._text or self._markdown:
            self._flush()
        self._is_in_row = False
        self._container = container
        if tag not in FORMED:
            return
        if tag in {"ul", "ol"}:
            del self._lists[-1:]
        elif tag == "li":
            self._prefix = ""
        elif tag == "pre":
            self._pre -= 1
        elif tag == "blockquote":
            self._quotes -= 1
        elif tag == "table":
            del self._table_rows[-1:]

    def _close_link(self) -> None:
        if self._link is None:
            return
        source, text_start, markdown_start = self._link
        self._link = None
        text = " ".join("".join(self._text[text_start:]).split())
        target = _HREF.search(source)
        href = plain(target[1]).strip() if target else ""
        self._link_words += text.count(" ") + 1 if text else 0
        whole, self._link_text = f"{self._link_text} {text}".strip(), ""
        if not href:
            return
        if "nofollow" not in source.lower() or not _NOFOLLOW.search(source):
            self.out.links.append((href, whole, self._container))
        if text and not self._pre and markdown_start < len(self._markdown):
            self._markdown.insert(markdown_start, LINK)
            self._markdown.append(f"{TARGET}{href}{LINK_END}")

    def _void(self, tag: str, source: str) -> None:
        if tag == "br":
            self._text.append("\n")
            self._markdown.append("\n")
        elif tag == "hr":
            if not self._is_in_row:
                self._flush()
        elif tag == "area":
            self._hidden_link(source)
        elif tag == "input":
            self._text.append(" ")

    def _flush(self) -> None:
        """End the block that is being read."""
        if not self._text:
            self._markdown.clear()
            self._is_in_row = False
            return
        raw = "".join(self._text)
        if self._link is not None:
            # A link around blocks: what follows is link text too, of the next block.
            inside = " ".join("".join(self._text[self._link[1] :]).split())
            self._link_words += len(inside.split())
            self._link_text = f"{self._link_text} {inside}".strip()[:300]
            self._link = (self._link[0], 0, 0)
        self._text.clear()
        if self._pre:
            text = raw.strip("\n")
            folded = " ".join(text.split())
        else:
            text = folded = " ".join(raw.split())
        if folded:
            name = self.out.tags[self._container]
            words = folded.count(" ") + 1
            source = "".join(self._markdown)
            markdown = self._render(source, text, TAGS[name])
            linked, strong = min(self._link_words, words), source.count(_STRONG_CLOSE)
            self.out.blocks.append(RawBlock(folded, markdown, self._container, name, words, linked, strong))
            self._prefix = " " * len(self._prefix) if self._prefix else ""
        self._markdown.clear()
        self._link_words = 0
        self._is_in_row = False

    def _render(self, source: str, text: str, tag: str) -> str:
        if self._pre:
            fence = "````" if "```" in text else "```"
            return f"{fence}\n{text}\n{fence}"
        markdown = inline_markdown(source)
        if self._is_in_row:
            cells = [" ".join(cell.split()).replace("|", "\\|") for cell in markdown.split(CELL)][:-1] or [markdown]
            row = "| " + " | ".join(cells) + " |"
            self._table_rows[-1] += 1
            return row if self._table_rows[-1] > 1 else row + "\n|" + " --- |" * len(cells)
        markdown = " ".join(markdown.replace(CELL, " ").split())
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            markdown = "#" * int(tag[1]) + " " + markdown
        elif self._prefix:
            markdown = self._prefix + markdown
        return "> " * min(self._quotes, 5) + markdown if self._quotes > 0 else markdown


def _is_data_table(page: list[Token], position: int) -> bool:
    """Tell whether a table holds cells of text, not the page's layout: no table, heading, form or list is in it."""
    for slash, tag, _, _ in page[position + 1 : position + 4000]:
        if tag == "table":
            return bool(slash)
        if tag in LAYOUT:
            return False
    return False


# With less text than this a page may keep its content where only a reader without scripts looks.
_FEW_WORDS: Final = 100


def segment(page: list[Token]) -> Segments:
    """Cut a page up; where next to no text is visible, `noscript`, `template` and hidden parts are read too."""
    found = Segmenter().read(page)
    words = sum(block.words for block in found.blocks)
    if words >= _FEW_WORDS:
        return found
    lenient = Segmenter(lenient=True).read(page)
    return lenient if sum(block.words for block in lenient.blocks) > 2 * words + 20 else found
