"""Makes blocks of a page's elements: opens and closes them, and writes the Markdown of what stands between."""

from __future__ import annotations

import re
from typing import Final

from llmcrawler.core.content.code_blocks import CodeBlock, read_code
from llmcrawler.core.content.code_languages import plain_name
from llmcrawler.core.content.data_tables import CODE, DATA
from llmcrawler.core.content.definitions import is_definition_list
from llmcrawler.core.content.elements import FORMED, H1, H6, INLINE_MARKS
from llmcrawler.core.content.folding import folded, folded_markdown
from llmcrawler.core.content.formulas import NAMED_TEX, formula_of_image, named_tex, read_math
from llmcrawler.core.content.hints import REMARK, part_of
from llmcrawler.core.content.images import ImageReader
from llmcrawler.core.content.line_marks import LineMarks, paragraph
from llmcrawler.core.content.link_reader import LinkReader
from llmcrawler.core.content.marks import BREAK, CLOSE, OPEN
from llmcrawler.core.content.markup import Token
from llmcrawler.core.content.segments import SKIP, RawBlock, Segments
from llmcrawler.core.content.table_reader import TableReader, write_table

_OPENS: Final = {tag: OPEN + sign for tag, sign in INLINE_MARKS.items()}
_CLOSES: Final = {tag: CLOSE + sign for tag, sign in INLINE_MARKS.items()}
_STRONG_CLOSE: Final = f"{CLOSE}**"
_ID: Final = re.compile(r' id="([^"]*+)"')
_NUMBER: Final = re.compile(r' (?:start|value)="(\d{1,6})"')
_TASK: Final = re.compile(r' type="checkbox"')
_TITLE: Final = re.compile(r"(?i)title|heading")
_BRACKETS: Final = re.compile(r"[\[\]().\s]*")
# Elements deeper than this are taken as one container.
_MAX_DEPTH: Final = 400


class BlockWriter:
    """Holds the block that is being read and what is open around it."""

    def __init__(self, page: list[Token]) -> None:
        self._page = page
        self.out = Segments()
        self.stack: list[tuple[str, int]] = []
        self.text: list[str] = []
        self.markdown: list[str] = []
        self.is_in_row = False
        self._container = 0
        self._links = LinkReader(page, self.out, self.text, self.markdown)
        self._tables = TableReader(page, self.text, self.markdown)
        self._lines = LineMarks()
        self._images = ImageReader(self.out)
        self._boxes: list[int] = []  # the containers that are remarks or notes
        self._has_untitled_box = False
        self._definitions: list[bool] = []  # whether each open `dl` is a list of definitions
        self._units = 0
        self._open_units = 0  # the outermost of them counts

    def open(self, tag: str, source: str, position: int) -> int:  # noqa: C901, PLR0911, PLR0912 - one branch a tag
        """Return the container to go back to at the element's end, -1 for inline elements, -2 if all of it is read."""
        if tag == "a":
            self._links.open(source, position)
            return -1
        if tag in _OPENS:
            self.markdown.append(_OPENS[tag])
            return -1
        if tag == "math":
            self._formula(read_math(self._page, position))
            return SKIP
        if source in NAMED_TEX and (formula := named_tex(self._page, position)):
            return self._paragraph_of_tex(tag, source, formula)
        if self.is_in_row:
            return self._tables.open_in_row(tag, source, position)
        if self.text or self.markdown:
            self.flush()
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
            self._definitions.append(is_definition_list(self._page, position))
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
            self.is_in_row = self._tables.open_row()
        return before

    def _open_unit(self) -> None:
        self._units += not self._open_units
        self._open_units += 1

    def _push(self, tag: str, source: str) -> None:
        if len(self.stack) > _MAX_DEPTH:
            return
        out = self.out
        out.parents.append(self._container)
        self._container = len(out.tags)
        out.attributes.append(source)
        number, signature, bits = part_of(tag, source)
        out.tags.append(number)
        out.signatures.append(signature)
        out.hints.append(bits & ~REMARK)
        if not source:
            return
        if bits & REMARK:
            self._boxes.append(self._container)
            self._has_untitled_box = True
            self._lines.open_quote()
        elif self._links.notes and " id=" in source and (found := _ID.search(source)) and found[1] in self._links.notes:
            self._boxes.append(self._container)
            self._lines.open(f"[^{self._links.notes.pop(found[1])}]: ", "  ")

    def close(self, tag: str, container: int) -> None:  # noqa: C901, PLR0912 - one branch a tag
        if tag == "a":
            self._links.close(self._container)
            return
        if container < 0:
            if tag in _CLOSES:
                self.markdown.append(_CLOSES[tag])
            elif self.is_in_row:
                self._tables.close_in_row(tag)
            return
        if tag == "tr" and self.is_in_row:
            blocks = len(self.out.blocks)
            self._tables.read_cells()
            self.flush()
            self._tables.close_row(blocks if len(self.out.blocks) > blocks else -1)
        elif self.text or self.markdown:
            self.flush()
        self.is_in_row = False
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
                self.out.blocks[block].markdown = self._lines.mark(markdown)

    def _code(self, code: CodeBlock) -> None:
        blocks = self.out.blocks
        folded = " ".join(code.text.split())
        if not folded:
            return
        if blocks and code.language and blocks[-1].words <= 2 and plain_name(blocks[-1].text) == code.language:
            blocks[-1].markdown = ""  # the language's name above the code
        for source, text in code.links:
            self._links.add(source, text, self._container)
        words = folded.count(" ") + 1
        linked = sum(len(text.split()) for _, text in code.links)
        self._add(folded, self._lines.mark(code.markdown()), words, min(linked, words), 0)

    def _formula(self, formula: str) -> None:
        if formula and formula not in self.markdown[-4:]:
            self.text.append(formula.strip("$"))
            line = [BREAK, BREAK] if formula.startswith("$$") and not self.is_in_row else []
            self.markdown += [*line, formula, *line]

    def _paragraph_of_tex(self, tag: str, source: str, formula: str) -> int:
        before = self._container
        if not self.is_in_row:
            self.flush()
            self._push(tag, source)
        self._formula(formula)
        if not self.is_in_row:
            self.flush()
        self._container = before
        return SKIP

    def inline(self, tag: str, source: str, position: int) -> bool:
        """Begin an inline element without a mark of its own; tell whether all of it is read."""
        if tag == "span":
            if source in NAMED_TEX and (formula := named_tex(self._page, position)):
                self._formula(formula)
                return True
            return "editsection" in source  # the controls of a heading of MediaWiki
        slash, before, _, text = self._page[position - 1]
        if slash and before == tag and self.text and not text.strip():
            # labels of tabs
            self.text.append(" ")
            self.markdown.append(" " if self.is_in_row else " | ")
        return False

    def hidden_link(self, source: str) -> None:
        """Note a link that nobody sees."""
        self._links.add(source, "", self._container)

    def void(self, tag: str, source: str) -> None:  # noqa: C901 - one branch a tag
        """Read an element without content."""
        if tag == "br":
            self.text.append("\n")
            self.markdown.append(BREAK)
        elif tag == "hr":
            if not self.is_in_row:
                self.flush()
        elif tag == "area":
            self.hidden_link(source)
        elif tag == "input":
            if self.is_in_row or not self.text:
                self._task(source)
            self.text.append(" ")
        elif tag == "img" and "alt=" in source:
            if ("tex" in source or "math" in source) and (formula := formula_of_image(source)):
                self._formula(formula)
            elif self.is_in_row:
                self._tables.show_image(source)
            elif not self._links.is_open:
                self.markdown.append(self._images.read(source, self.text, self._container, self._lines))

    def _task(self, source: str) -> None:
        if _TASK.search(source) and (" disabled" in source or "task-list" in source):
            self.markdown.append("[x] " if " checked" in source else "[ ] ")

    def flush(self) -> None:
        """End the block that is being read."""
        if not self.text:
            self.markdown.clear()
            return
        links = self._links
        shown = "".join(self.text)
        text, words = folded(shown)
        if links.is_open:
            links.end_block(self._container)
        self.text.clear()
        if words:
            source = "".join(self.markdown)
            is_plain = source == shown and "\\" not in text
            markdown = "" if self.is_in_row else self._render(source, text if is_plain else None)
            self._add(text, markdown, words, min(links.words, words), 0 if is_plain else source.count(_STRONG_CLOSE))
        self.markdown.clear()
        links.words = 0

    def _add(self, text: str, markdown: str, words: int, linked: int, strong: int) -> None:
        unit = self._units if self._open_units else 0
        tag = self.out.tags[self._container]
        self.out.blocks.append(RawBlock(text, markdown, self._container, tag, words, linked, strong, unit))
        if self._images.waiting:
            self._images.place(self._lines)

    def _render(self, source: str, plain_text: str | None) -> str:
        """Return the Markdown of a block; `plain_text` is its text where that is all of it."""
        tag = self.out.tags[self._container]
        is_heading = H1 <= tag <= H6
        markdown = folded_markdown(source, is_heading) if plain_text is None else plain_text
        if is_heading:
            return self._lines.heading(tag - H1 + 1, markdown)
        if self._boxes:
            if _BRACKETS.fullmatch(markdown):
                return ""  # the sign of a note, whose link back is gone
            if self._has_untitled_box and _TITLE.search(self.out.signatures[self._container]):
                markdown = f"**{markdown}**" if "*" not in markdown else markdown
            self._has_untitled_box = False
        if markdown.startswith("#"):
            markdown = paragraph(markdown)
        return self._lines.mark(markdown) if self._lines.is_open else markdown
