"""Cuts a page into blocks of text, the containers they stand in, links, controls and metadata, in one pass."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from llmcrawler.core.content.block_markdown import (
    BREAK,
    CLOSE,
    LINK,
    LINK_END,
    OPEN,
    RULE,
    TARGET,
    LineMarks,
    folded,
    folded_markdown,
    is_code,
    paragraph,
)
from llmcrawler.core.content.code_blocks import CodeBlock, plain_name, read_code
from llmcrawler.core.content.data_tables import CODE, DATA, SKIP, TableReader, write_table
from llmcrawler.core.content.formulas import NAMED_TEX, formula_of_image, named_tex, read_math
from llmcrawler.core.content.markup import (
    BARE,
    CONTROLS,
    FORMED,
    H1,
    H6,
    HEAD,
    INLINE_MARKS,
    SKIPPED,
    SKIPPED_ALWAYS,
    TAG_IDS,
    VOID,
    Token,
    attributes,
    plain,
)
from llmcrawler.core.content.part_names import REMARK, asks_for_consent, names_in_attributes, part_of


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
    part_bits: list[int] = field(default_factory=lambda: [0])
    signatures: list[str] = field(default_factory=lambda: [""])
    attributes: list[str] = field(default_factory=lambda: [""])  # as they stand in the page
    links: list[tuple[str, str, int]] = field(default_factory=list)  # reference, text, container
    metas: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    html_attributes: dict[str, str] = field(default_factory=dict)
    title: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    controls: list[tuple[str, str]] = field(default_factory=list)
    has_hidden: bool = False


# Roles of links. OWN is a heading's text that leads to the heading itself, or to its line in the table of contents.
OTHER, PERMALINK, NOTE, BACK, OWN = range(5)

_SIGNS: Final = frozenset(("", "¶", "#", "§", "🔗", "\u200b", "⚓", "⚓︎", "🔗︎", "##", "link", "[link]"))
_PERMALINK: Final = re.compile(r"header-?(?:link|anchor)|permalink|hash-link|heading-?(?:link|anchor)|self-link|anchor")
_PERMALINK_TEXT: Final = re.compile(
    r"(?i)(?:copy |direct |permanent )?(?:link|permalink|anchor)(?:\b.{0,80}(?:heading|section|this)|\s*$)"
    r"|permalink\b|section titled\b|direct link to\b|link for\b|skip to"
)
# By their names or addresses; an address that only has such a word in it may lead to what a page says of notes.
_NOTE: Final = re.compile(
    r' (?:class|role|rel|id)="[^"]*(?:footnote|noteref)| data-footnote-ref'
    r'| href="#(?:user-content-)?(?:_?fn(?:[:_-]|\d)|_?footnote(?:def)?[:_-]|cite_note|_?ftnt?\d|note-?\d|sdfootnote)'
)
_BACK: Final = re.compile(
    r' (?:class|role|rel|id)="[^"]*back(?:ref|link)| data-footnote-backref'
    r'| href="#(?:user-content-)?(?:_?fnref(?:[:_-]|\d)|cite_ref|_footnoteref|_?ftnt?_?ref|ref-?\d)'
)
_BACK_SIGNS: Final = frozenset(("↩", "↩︎", "↩️", "↑", "^", "⤴", "⏎", "⮐"))
_EDIT: Final = re.compile(r'(?i) class="(?:[^"]*[ _-])?edit(?:[ _-][^"]*)?"| href="[^"]*[?&]action=edit')
_LABEL: Final = re.compile(r"\[?([^\s\[\]|]{1,20})\]?")
_HREF: Final = re.compile(r' href="([^"]*+)"')
_NOFOLLOW: Final = re.compile(r' rel="[^"]*nofollow', re.IGNORECASE)
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_MAX_LINK_TEXT_CHARS: Final = 300
_LOOKED_AHEAD: Final = 60  # tokens of a link around blocks, for a heading in it
_ANY, _HEADING, _NONE = range(3)  # the block of a link around blocks that is to be marked

_ORNAMENT: Final = re.compile(
    r'(?i) (?:class|src|role)="[^"]*(?:icon|emoji|avatar|logo|badge|smil|spacer|pixel|presentation)|="data:'
    r'| (?:width|height)="[0-4]?\d(?:px)?"'
)
_ADDRESS: Final = re.compile(r"[^\s()<>\x00-\x1f]{1,2000}")
_UNSAID: Final = re.compile(r"[\[\]\\`$*|<>]")
# One of the three elements around an image is one of these.
_PARTS: Final = frozenset((TAG_IDS["p"], TAG_IDS["figure"]))
_MIN_ALT_CHARS, _MAX_ALT_CHARS = 4, 300

_NOT_IN_DEFINITIONS: Final = frozenset(
    "dl table pre h1 h2 h3 h4 h5 h6 section article nav header footer aside form iframe".split()
)
_OPENS: Final = {tag: OPEN + sign for tag, sign in INLINE_MARKS.items()} | {"q": "“", "rt": "("}
_CLOSES: Final = {tag: CLOSE + sign for tag, sign in INLINE_MARKS.items()} | {"q": "”", "rt": ")"}
_SIGNED: Final = frozenset(("q", "rt"))  # their signs are read too
_STRONG_CLOSE: Final = f"{CLOSE}**"
_ID: Final = re.compile(r' id="([^"]*+)"')
_NUMBER: Final = re.compile(r' (?:start|value)="(\d{1,6})"')
_TASK: Final = re.compile(r' type="checkbox"')
_TITLE: Final = re.compile(r"(?i)title|heading")
_BRACKETS: Final = re.compile(r"[\[\]().\s]*")
# Elements deeper than this are taken as one container.
_MAX_DEPTH: Final = 400

# Hidden parts that a click shows: tabs, accordions. Their text is content like any other; that of a table of contents
# only repeats the headings.
_UNFOLDS: Final = re.compile(r"(?i)tab|panel|accordion|collaps|toggle|desc|content|faq")
_CONTENTS: Final = re.compile(r"(?i)(?<![a-z])toc(?![a-z])|table[-_]?of[-_]?contents")
_HIDDEN: Final = re.compile(
    r' hidden(?:=""|="hidden"|="true"|(?= |$))| aria-hidden="true"| style="[^"]*display: ?none', re.IGNORECASE
)
_COPY_NAMES: Final = re.compile(r'(?i) (?:class|title|aria-label|data-[\w-]+)="[^"]*(?:copy|clipboard)')
_COPY_WORDS: Final = frozenset(("copy", "copy code", "copied", "copied!", "copy to clipboard"))
_LABELS: Final = frozenset(("button", "label"))
_NOTED: Final = CONTROLS | {"title", "html"}
_MAX_TITLE_CHARS: Final = 2000


class Segmenter:
    """Reads tokens once, in time linear in their number; holds the block that is read and what is open around it."""

    def __init__(self, page: list[Token], *, lenient: bool = False) -> None:
        self._page = page
        self._lenient = lenient
        self.has_skipped = False  # something that would be read if it were lenient
        self._out = Segments()
        self._stack: list[tuple[str, int]] = []
        self._container = 0
        self._text: list[str] = []
        self._markdown: list[str] = []
        self._tables = TableReader(page, self._text, self._markdown)
        self._is_in_row = False
        self._lines = LineMarks()
        self._link: tuple[str, int, int, int] | None = None  # attributes, where its pieces begin, place in the page
        self._link_before = ""  # the open link's text in earlier blocks
        self._link_marks = _ANY
        self._link_words = 0  # in links of the block
        self._notes: dict[str, str] = {}  # labels of notes by their ids
        self._image = ""  # one without text beside it, until the block behind it is known
        self._boxes: list[int] = []  # the containers that are remarks or notes
        self._has_untitled_box = False
        self._definitions: list[bool] = []  # whether each open `dl` is a list of definitions
        self._units = 0
        self._open_units = 0  # the outermost of them counts

    # A flat loop: one call per token would cost more than all the work in it.
    def read(self) -> Segments:  # noqa: C901, PLR0912, PLR0915 - speed, see above
        page, out, stack = self._page, self._out, self._stack
        skipped = SKIPPED_ALWAYS if self._lenient else SKIPPED
        block_text, text_append, markdown_append = self._text, self._text.append, self._markdown.append
        skip_until = -1
        for position, (slash, tag, source, text) in enumerate(page):
            if slash:
                if stack:
                    name, container = stack.pop()
                    if skip_until >= 0:
                        if len(stack) <= skip_until:
                            skip_until = -1
                    elif container >= 0 or name not in BARE:
                        self._close(name, container)
            elif tag in VOID:
                if tag in HEAD:
                    out.metas.append((tag, attributes(source)))
                elif tag == "input" and source:
                    out.controls.append((tag, source))
                if skip_until < 0:
                    self._void(tag, source)
            elif tag:
                if skip_until < 0 and (
                    tag in skipped
                    or (
                        source
                        and (
                            (("hidden" in source or "none" in source) and self._is_hidden(tag, source))
                            or (
                                ("ookie" in source or "onsent" in source)
                                and not self._lenient
                                and tag not in {"body", "html", "main", "article"}
                                and asks_for_consent(source)
                            )
                        )
                    )
                ):
                    skip_until = len(stack)
                    self.has_skipped = self.has_skipped or tag not in SKIPPED_ALWAYS
                if skip_until >= 0:
                    stack.append((tag, -1))
                    if tag == "a":
                        self._add_link(source, "")
                elif tag in BARE:
                    if tag == "span":
                        if ("math" in source or "edit" in source) and self._inline(tag, source, position):
                            skip_until = len(stack)
                    elif tag in _LABELS and (self._inline(tag, source, position) or _copies(source, text)):
                        skip_until = len(stack)
                    stack.append((tag, -1))
                else:
                    container = self._open(tag, source, position)
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
        self._flush()
        out.counts = Counter([tag for slash, tag, _, _ in page if tag and not slash])
        return out

    def _is_hidden(self, tag: str, source: str) -> bool:
        if self._lenient or tag in {"body", "html"} or not _HIDDEN.search(source):
            return False
        names = names_in_attributes(source)
        return _UNFOLDS.search(names) is None or _CONTENTS.search(names) is not None

    def _open(self, tag: str, source: str, position: int) -> int:  # noqa: C901, PLR0911, PLR0912, PLR0915 - by tag
        """Return the container to go back to at the element's end, -1 for inline elements, -2 if all of it is read."""
        if tag == "a":
            self._link = (source, len(self._text), len(self._markdown), position)
            self._link_marks = _ANY
            return -1
        if tag in _OPENS:
            self._markdown.append(_OPENS[tag])
            if tag in _SIGNED:
                self._text.append(_OPENS[tag])
            return -1
        if tag == "math":
            self._formula(read_math(self._page, position))
            return SKIP
        if source in NAMED_TEX and (formula := named_tex(self._page, position)):
            self._paragraph_of_tex(tag, source, formula)
            return SKIP
        if self._is_in_row:
            return self._tables.open_in_row(tag, source, position)
        if self._text or self._markdown:
            self._flush()
        before = self._container
        self._push(tag, source)
        if tag not in FORMED:
            if tag != "pre":
                return before
            self._code(read_code(self._page, position))
            self._container = before
            return SKIP
        if tag in {"ul", "ol"}:
            number = _NUMBER.search(source) if source else None
            self._lines.open_list(0 if tag == "ul" else int(number[1]) if number else 1)
        elif tag == "li":
            if self._boxes and self._boxes[-1] == self._container:
                self._lines.open("", "")  # a note
            else:
                self._lines.open_item()
        elif tag == "blockquote":
            self._lines.open_quote()
        elif tag == "dl":
            self._definitions.append(self._is_definition_list(position))
            if self._definitions[-1]:
                self._open_unit()
        elif tag == "dd":
            is_definition = bool(self._definitions) and self._definitions[-1]
            self._lines.open(*((": ", "  ") if is_definition else ("", "")))
        elif tag == "table":
            kind = self._tables.kind(position)
            if kind == CODE:
                self._push("pre", "")
                self._code(read_code(self._page, position))
                self._container = before
                return SKIP
            self._tables.open(kind)
            if kind == DATA:
                self._open_unit()
        elif tag == "thead":
            self._tables.set_head(is_in_head=True)
        elif tag == "tr":
            self._is_in_row = self._tables.open_row()
        return before

    def _open_unit(self) -> None:
        self._units += not self._open_units
        self._open_units += 1

    def _push(self, tag: str, source: str) -> None:
        if len(self._stack) > _MAX_DEPTH:
            return
        out = self._out
        out.parents.append(self._container)
        self._container = len(out.tags)
        out.attributes.append(source)
        number, signature, bits = part_of((tag, source))
        out.tags.append(number)
        out.signatures.append(signature)
        out.part_bits.append(bits & ~REMARK)
        if not source:
            return
        if bits & REMARK:
            self._boxes.append(self._container)
            self._has_untitled_box = True
            self._lines.open_quote()
        elif self._notes and " id=" in source and (found := _ID.search(source)) and found[1] in self._notes:
            self._boxes.append(self._container)
            self._lines.open(f"[^{self._notes.pop(found[1])}]: ", "  ")

    def _close(self, tag: str, container: int) -> None:  # noqa: C901, PLR0912 - one branch a tag
        if tag == "a":
            self._close_link()
            return
        if container < 0:
            if tag in _CLOSES:
                self._markdown.append(_CLOSES[tag])
                if tag in _SIGNED:
                    self._text.append(_CLOSES[tag])
            elif self._is_in_row:
                self._tables.close_in_row(tag)
            return
        if tag == "tr" and self._is_in_row:
            blocks = len(self._out.blocks)
            self._tables.read_cells()
            self._flush()
            self._tables.close_row(blocks if len(self._out.blocks) > blocks else -1)
        elif self._text or self._markdown:
            self._flush()
        self._is_in_row = False
        if self._boxes and self._boxes[-1] == self._container:
            self._boxes.pop()
            self._has_untitled_box = False
            self._lines.close()
        self._container = container
        if tag not in FORMED:
            return
        if tag in {"ul", "ol", "li", "blockquote", "dd"}:
            self._lines.close()
        elif tag == "dl":
            self._open_units -= bool(self._definitions) and self._definitions.pop()
        elif tag == "thead":
            self._tables.set_head(is_in_head=False)
        elif tag == "table" and (table := self._tables.close()) is not None:
            self._open_units -= 1
            for block, markdown in write_table(table):
                self._out.blocks[block].markdown = self._lines.mark(markdown)

    def _paragraph_of_tex(self, tag: str, source: str, formula: str) -> None:
        if self._is_in_row:
            self._formula(formula)
            return
        before = self._container
        self._flush()
        self._push(tag, source)
        self._formula(formula)
        self._flush()
        self._container = before

    def _is_definition_list(self, position: int) -> bool:
        """Tell whether the list that begins at a token holds terms and texts only; tokens are looked at once for each
        list, as another list ends the look.
        """
        for index in range(position + 1, len(self._page)):
            slash, tag, _, _ = self._page[index]
            if tag in _NOT_IN_DEFINITIONS:
                return bool(slash)
        return False

    def _close_link(self) -> None:
        """End a link, and mark it in the Markdown if it leads elsewhere."""
        if self._link is None:
            return
        source, text_start, markdown_start, _ = self._link
        self._link = None
        text, words = folded("".join(self._text[text_start:]))
        href = _address_of(source)
        role = self._role(source, text, href)
        if role == PERMALINK:
            del self._text[text_start:]
            text, words = "", 0
        if role in {PERMALINK, BACK}:
            del self._markdown[markdown_start:]
        elif role == NOTE:
            label = _LABEL.fullmatch(text)
            self._notes[href[1:]] = label[1] if label else text
            self._markdown[markdown_start:] = [f"[^{self._notes[href[1:]]}]"]
        self._link_words += words
        whole, self._link_before = f"{self._link_before} {text}".strip() if self._link_before else text, ""
        if href:
            if "nofollow" not in source.lower() or not _NOFOLLOW.search(source):
                self._out.links.append((href, whole, self._container))
            if text and role == OTHER and self._link_marks != _NONE:
                self._mark_link(markdown_start, href)

    def _role(self, source: str, text: str, href: str) -> int:
        """Tell what a link is, by its attributes, its text, and those of the heading around it."""
        heading = self._out.attributes[self._container] if self._is_in_heading() else None
        if not href.startswith("#"):
            return PERMALINK if heading is not None and "edit" in source and _EDIT.search(source) else OTHER
        if heading is None and (text in _BACK_SIGNS or (_LABEL.fullmatch(text) and _BACK.search(source))):
            return BACK
        if text in _SIGNS:
            return PERMALINK if heading is not None or not text or _PERMALINK.search(source) else OTHER
        if heading is None:
            return NOTE if _LABEL.fullmatch(text) and _NOTE.search(source) else OTHER
        if _PERMALINK.search(source) and _PERMALINK_TEXT.match(text):
            return PERMALINK
        own = (f' id="{href[1:]}"', f' name="{href[1:]}"')
        is_own = _PERMALINK.search(names_in_attributes(source)) or _BACK.search(source) or own[0] in heading
        return OWN if is_own or own[0] in source or own[1] in source else OTHER

    def _is_in_heading(self) -> bool:
        return H1 <= self._out.tags[self._container] <= H6

    def _end_block_of_link(self, link: tuple[str, int, int, int]) -> None:
        """Count the text of a link around blocks: what follows is link text too, of the next block. In the Markdown its
        first heading is the link, or its first text.
        """
        source, start, markdown_start, position = link
        for slash, tag, _, _ in self._page[position + 1 : position + _LOOKED_AHEAD] if position >= 0 else ():
            if tag in _HEADINGS and not slash:
                self._link_marks = _HEADING
            if tag in _HEADINGS or tag == "a":
                break
        inside, words = folded("".join(self._text[start:]))
        if inside:
            self._link_words += words
            self._link_before = f"{self._link_before} {inside}".strip()[:_MAX_LINK_TEXT_CHARS]
            if self._link_marks == _ANY or (self._link_marks == _HEADING and self._is_in_heading()):
                self._link_marks = _NONE
                if href := _address_of(source):
                    self._mark_link(markdown_start, href)
        self._link = (source, 0, 0, -1)

    def _mark_link(self, start: int, href: str) -> None:
        if start < len(self._markdown):
            self._markdown.insert(start, LINK)
            self._markdown.append(f"{TARGET}{href}{LINK_END}")

    def _add_link(self, source: str, text: str) -> None:
        """Note a link that is not marked: nobody sees it, or it stands in code."""
        found = attributes(source)
        if "href" in found and "nofollow" not in found.get("rel", ""):
            self._out.links.append((found["href"], text, self._container))

    def _image_markdown(self, source: str) -> str:
        """Return the Markdown of an image within a text; "" for one that stands alone, which waits, or says nothing."""
        parents, tags = self._out.parents, self._out.tags
        above = parents[self._container]
        around = {tags[self._container], tags[above], tags[parents[above]]}
        if _ORNAMENT.search(source) or _PARTS.isdisjoint(around):
            return ""
        found = attributes(source)
        alt = " ".join(_UNSAID.sub(" ", found.get("alt", "")).split())[:_MAX_ALT_CHARS]
        if len(alt) < _MIN_ALT_CHARS or not _ADDRESS.fullmatch(found.get("src", "")):
            return ""
        image = f"![{alt}]({found['src']})"
        beside = "".join(self._text)
        if beside and not beside.isspace():
            return "" if alt.lower() in beside.lower() else f" {image} "
        self._image = "" if self._lines.is_open else image
        return ""

    def _place_image(self) -> None:
        """Put the image that waits above the block behind it if that is a paragraph, else below the one before it. A
        caption may be no main text: the image is put below what stands before it.
        """
        image, self._image = self._image, ""
        block, before = self._out.blocks[-1], self._out.blocks[-2:-1]
        is_caption = block.tag == TAG_IDS["figcaption"]
        alt = image[2 : image.index("](")].lower()
        if any(alt in one.text.lower() for one in (*before, *([] if is_caption else [block]))):
            return
        if before and _is_paragraph(before[0]) and (is_caption or self._lines.is_open or not _is_paragraph(block)):
            before[0].markdown += f"\n\n{image}"
        elif not self._lines.is_open and _is_paragraph(block):
            block.markdown = f"{image}\n\n{block.markdown}"

    def _code(self, code: CodeBlock) -> None:
        blocks = self._out.blocks
        folded = " ".join(code.text.split())
        if not folded:
            return
        if blocks and code.language and blocks[-1].words <= 2 and plain_name(blocks[-1].text) == code.language:
            blocks[-1].markdown = ""  # the language's name above the code
        for source, text in code.links:
            self._add_link(source, text)
        words = folded.count(" ") + 1
        linked = sum(len(text.split()) for _, text in code.links)
        self._add(folded, self._lines.mark(code.markdown()), words, min(linked, words), 0)

    def _formula(self, formula: str) -> None:
        if formula and formula not in self._markdown[-4:]:
            self._text.append(formula.strip("$"))
            line = [BREAK, BREAK] if formula.startswith("$$") and not self._is_in_row else []
            self._markdown += [*line, formula, *line]

    def _inline(self, tag: str, source: str, position: int) -> bool:
        """Begin an inline element without a mark of its own; tell whether all of it is read."""
        if tag == "span":
            if source in NAMED_TEX and (formula := named_tex(self._page, position)):
                self._formula(formula)
                return True
            return "editsection" in source  # the controls of a heading of MediaWiki
        slash, before, _, text = self._page[position - 1]
        if slash and before == tag and self._text and not text.strip():
            # labels of tabs
            self._text.append(" ")
            self._markdown.append(" " if self._is_in_row else " | ")
        return False

    def _void(self, tag: str, source: str) -> None:  # noqa: C901 - one branch a tag
        if tag == "br":
            self._text.append("\n")
            self._markdown.append(BREAK)
        elif tag == "hr":
            if not self._is_in_row:
                self._flush()
                blocks, parents = self._out.blocks, self._out.parents
                is_between = blocks and self._container in {blocks[-1].container, parents[blocks[-1].container]}
                if is_between and not self._lines.is_open and "note" not in source and _is_paragraph(blocks[-1]):
                    blocks[-1].markdown += RULE
        elif tag == "area":
            self._add_link(source, "")
        elif tag == "input":
            is_task = " disabled" in source or "task-list" in source
            if (self._is_in_row or not self._text) and is_task and _TASK.search(source):
                self._markdown.append("[x] " if " checked" in source else "[ ] ")
            self._text.append(" ")
        elif tag == "img" and "alt=" in source:
            if ("tex" in source or "math" in source) and (formula := formula_of_image(source)):
                self._formula(formula)
            elif self._is_in_row:
                self._tables.show_image(source)
            elif self._link is None:
                self._markdown.append(self._image_markdown(source))

    def _flush(self) -> None:
        if not self._text:
            self._markdown.clear()
            return
        shown = "".join(self._text)
        text, words = folded(shown)
        if self._link is not None:
            self._end_block_of_link(self._link)
        self._text.clear()
        if words:
            source = "".join(self._markdown)
            is_plain = source == shown and "\\" not in text
            markdown = "" if self._is_in_row else self._render(source, text if is_plain else None)
            self._add(
                text, markdown, words, min(self._link_words, words), 0 if is_plain else source.count(_STRONG_CLOSE)
            )
        self._markdown.clear()
        self._link_words = 0

    def _add(self, text: str, markdown: str, words: int, linked: int, strong: int) -> None:
        unit = self._units if self._open_units else 0
        tag = self._out.tags[self._container]
        self._out.blocks.append(RawBlock(text, markdown, self._container, tag, words, linked, strong, unit))
        if self._image:
            self._place_image()

    def _render(self, source: str, plain_text: str | None) -> str:
        """Return the Markdown of a block; `plain_text` is its text where that is all of it."""
        tag = self._out.tags[self._container]
        is_heading = H1 <= tag <= H6
        markdown = folded_markdown((is_heading, source)) if plain_text is None else plain_text
        if is_heading:
            return self._lines.heading(tag - H1 + 1, markdown)
        if self._boxes:
            if _BRACKETS.fullmatch(markdown):
                return ""  # the sign of a note, whose link back is gone
            if self._has_untitled_box and _TITLE.search(self._out.signatures[self._container]):
                markdown = f"**{markdown}**" if "*" not in markdown else markdown
            self._has_untitled_box = False
        if markdown[:1] in {"#", "`", "~"} or "\n" in markdown:
            markdown = paragraph(markdown)
        return self._lines.mark(markdown) if self._lines.is_open else markdown


def _address_of(source: str) -> str:
    """Return the address of a link, "" if it has none."""
    target = _HREF.search(source)
    return plain(target[1]).strip() if target else ""


def _is_paragraph(block: RawBlock) -> bool:
    markdown = block.markdown
    return (
        not block.unit
        and not H1 <= block.tag <= H6
        and markdown[:1].isalnum()
        and block.tag != TAG_IDS["li"]
        and not is_code(markdown)
    )


def _copies(source: str, text: str) -> bool:
    """Tell whether a button copies what stands beside it."""
    return text.strip().lower() in _COPY_WORDS or (
        ("opy" in source or "lipboard" in source) and _COPY_NAMES.search(source) is not None
    )


# With less text than this a page may keep its content where only a reader without scripts looks.
FEW_WORDS: Final = 100


def segment(page: list[Token]) -> Segments:
    """Cut a page up; where next to no text is visible, `noscript`, `template` and hidden parts are read too."""
    segmenter = Segmenter(page)
    found = segmenter.read()
    words = sum([block.words for block in found.blocks])
    if words >= FEW_WORDS or not segmenter.has_skipped:
        return found
    lenient = Segmenter(page, lenient=True).read()
    lenient.has_hidden = True
    return lenient if sum(block.words for block in lenient.blocks) > 2 * words + 20 else found
