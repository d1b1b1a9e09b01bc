"""Tells tables of data from tables that lay a page out, and writes the former as Markdown.

A row of a table is a row of its Markdown. A cell that spans several places stands in each of them, as it holds for
each, but for one that spans the whole row, or is long: that stands in its first place, and the others are blank. A
table within a cell is flattened: its rows are lines of the cell, its cells have commas between. The header is the
first row if it is in `thead`, or if its cells are `th` or bold; GitHub's Markdown needs one, so it is blank elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from llmcrawler.core.content.block_markdown import BREAK, CELL, code_span, inline_markdown
from llmcrawler.core.content.code_blocks import CODE_CELL, CODE_TABLE, NUMBERED, read_code
from llmcrawler.core.content.formulas import dollars
from llmcrawler.core.content.markup import CELL_LINES, Token, attributes

LAYOUT, DATA, CODE = range(3)
SKIP: Final = -2  # in place of a container: all of the element was read already

_PARTS: Final = frozenset("article section nav header footer iframe main aside".split())
_HEADINGS: Final = frozenset("h1 h2 h3".split())
_LISTS: Final = frozenset("ul ol pre blockquote form".split())
# Of layout. Older docutils write each footnote as a table of one row.
_PRESENTATION: Final = re.compile(r' role="(?:presentation|none)"| class="(?:[^"]* )?footnote[ "]')
_LONG_CELL: Final = 1500  # characters of a cell that make a table without headers one of layout
_LONG_HEADED_CELL: Final = 8000  # of one with headers
_LONG_TABLED_CELL: Final = 400  # of one with headers, and other tables in its cells

_SPANS: Final = re.compile(r' (col|row)span="\s*+(\d{1,5})')
_MAX_SPAN: Final = 1000
_MAX_ROWS: Final = 65_534  # so many has a cell of 0 rows: all that are left
_MAX_COLUMNS: Final = 200
_LONG_REPEATED: Final = 200  # characters


@dataclass(slots=True)
class _Found:
    """State of a table while it is read."""

    position: int
    rows: int = 0
    cells: int = 0  # of the row that is read
    most_cells: int = 0
    headers: int = 0
    chars: int = 0  # of the cell that is read
    most_chars: int = 0
    is_named_code: bool = False
    has_code: bool = False  # a cell that is named so
    has_numbers: bool = False  # a cell that is named for numbers of lines
    is_laid_out: bool = False
    has_lists: bool = False
    has_tables: bool = False
    is_in_header: bool = False

    def cell_ends(self) -> None:
        self.most_chars = max(self.most_chars, self.chars)
        self.chars = 0

    def kind(self) -> int:
        if self.has_code and (self.has_numbers or self.is_named_code):
            return CODE
        if self.is_laid_out or not self.rows:
            return LAYOUT
        if not self.headers and (self.most_cells < 2 or self.has_tables or self.has_lists):
            return LAYOUT
        longest = _LONG_TABLED_CELL if self.has_tables else _LONG_HEADED_CELL if self.headers else _LONG_CELL
        return DATA if self.most_chars <= longest else LAYOUT


def table_kinds(page: list[Token], position: int) -> dict[int, int]:  # noqa: C901, PLR0912 - one flat loop
    """Return what the table that begins at a token is (LAYOUT, DATA or CODE), and the tables in it, by their places."""
    kinds: dict[int, int] = {}
    stack: list[_Found] = []
    for index in range(position, len(page)):
        slash, tag, source, text = page[index]
        if tag == "table":
            if slash:
                done = stack.pop()
                done.cell_ends()
                kinds[done.position] = done.kind()
                if not stack:
                    return kinds
                stack[-1].has_tables = True
                stack[-1].chars += done.most_chars * done.rows
                stack[-1].is_laid_out = stack[-1].is_laid_out or done.is_laid_out
            else:
                stack.append(
                    _Found(
                        index,
                        is_named_code=CODE_TABLE.search(source) is not None,
                        is_laid_out=_PRESENTATION.search(source) is not None,
                    )
                )
        elif tag and not slash:
            found = stack[-1]
            if tag in {"td", "th"}:
                found.cells += 1
                found.most_cells = max(found.most_cells, found.cells)
                found.is_in_header = tag == "th"
                found.headers += found.is_in_header
                found.cell_ends()
                if source:
                    found.has_code = found.has_code or CODE_CELL.search(source) is not None
                    found.has_numbers = found.has_numbers or NUMBERED.search(source) is not None
            elif tag == "tr":
                found.rows += 1
                found.cells = 0
            elif tag in {"thead", "caption"}:
                found.headers += 1
            elif tag in _LISTS:
                found.has_lists = True
            elif tag in _PARTS or (tag in _HEADINGS and not found.is_in_header):
                found.is_laid_out = True
        if text and stack and not text.isspace():
            stack[-1].chars += len(text)
    for left in stack:
        kinds[left.position] = LAYOUT
    return kinds


@dataclass(slots=True)
class Cell:
    """A cell as it stands in the page."""

    is_header: bool
    columns: int = 1
    rows: int = 1
    text: str = ""
    image: str = ""  # what its image shows

    @classmethod
    def of(cls, tag: str, source: str) -> Cell:
        cell = cls(tag == "th")
        if "span=" in source:
            for name, number in _SPANS.findall(source):
                if name == "col":
                    cell.columns = min(_MAX_SPAN, int(number)) or 1
                else:
                    cell.rows = int(number) or _MAX_ROWS
        return cell


@dataclass(slots=True)
class Row:
    """A row; `block` is the number of the page's block that has its text, -1 where it has none."""

    cells: list[Cell]
    block: int
    is_in_head: bool

    def is_header(self) -> bool:
        filled = [cell for cell in self.cells if cell.text]
        return bool(filled) and (self.is_in_head or all(cell.is_header for cell in filled))

    def is_bold(self) -> bool:
        filled = [cell.text for cell in self.cells if cell.text]
        return len(filled) > 1 and all(text.startswith("**") and text.endswith("**") for text in filled)

    def is_blank(self) -> bool:
        return not any(cell.text for cell in self.cells)


@dataclass(slots=True)
class Table:
    """A table of data that is being read."""

    rows: list[Row] = field(default_factory=list)
    is_in_head: bool = False

    def lines(self) -> list[tuple[int, str]]:
        """Return the Markdown of each row that is not blank, with the number of the row's block."""
        rows = self.rows
        places = _places(rows)
        shown = [index for index, row in enumerate(rows) if not row.is_blank() or any(places[index])]
        if not shown:
            return []
        width = max(len(places[index]) for index in shown)
        if width * len(shown) > 4 * sum(len(row.cells) for row in rows) + 2000:
            width = 0  # blanks would be far more than what the table says
        found: list[tuple[int, str]] = []
        first = shown[0]
        is_title = len(rows[first].cells) == 1 and rows[first].cells[0].columns >= max(2, width)
        if is_title and len(shown) > 1 and rows[shown[1]].is_header():
            found.append((rows[first].block, next(text for text in places[first] if text)))
            shown = shown[1:]
        head = rows[shown[0]]
        is_headed = head.is_header() or (
            len(shown) > 1 and head.is_bold() and not any(rows[index].is_bold() for index in shown[1:])
        )
        rule = "|" + " --- |" * max(1, width or len(places[shown[0]]))
        for index in shown:
            line = _line(places[index], width)
            if index == shown[0]:
                line = f"{line}\n{rule}" if is_headed else f"{_line([], width or len(places[index]))}\n{rule}\n{line}"
            found.append((rows[index].block, line))
        return found


def _line(texts: list[str], width: int) -> str:
    return "| " + " | ".join([*texts, *[""] * (width - len(texts))]) + " |"


def _places(rows: list[Row]) -> list[list[str]]:
    """Return the texts of each row by column, spans filled, while that takes no more room than the table itself."""
    width = min(_MAX_COLUMNS, max((sum(cell.columns for cell in row.cells) for row in rows), default=0))
    left = 2000 + sum(2 + len(cell.text) for row in rows for cell in row.cells)
    waiting: dict[int, tuple[int, str]] = {}  # column -> rows that its cell still spans, its text
    found = []
    for row in rows:
        line: list[str] = []
        for cell in row.cells:
            left = _fill(line, waiting, left)
            is_repeated = cell.columns < width and len(cell.text) <= min(_LONG_REPEATED, left)
            repeated = cell.text if is_repeated else ""
            for at in range(min(cell.columns, width - len(line)) if left > 0 else 1):
                line.append(repeated if at else cell.text)
                left -= len(repeated) + 1 if at else 0
                if cell.rows > 1:
                    waiting[len(line) - 1] = (cell.rows - 1, repeated)
        left = _fill(line, waiting, left)
        found.append(line)
    return found


def _fill(line: list[str], waiting: dict[int, tuple[int, str]], left: int) -> int:
    """Add to a row what spans its next places from rows above; return the room that is left for that."""
    while (column := len(line)) in waiting:
        count, text = waiting.pop(column)
        if left <= 0:
            waiting.clear()
            break
        if count > 1:
            waiting[column] = (count - 1, text)
        line.append(text)
        left -= len(text) + 1
    return left


_MAX_IMAGE_CHARS: Final = 100  # of its text, where it stands in a cell alone


class TableReader:
    """Holds the tables that are open; `text` and `markdown` are the pieces of the block that is being read."""

    def __init__(self, page: list[Token], text: list[str], markdown: list[str]) -> None:
        self._page = page
        self._text = text
        self._markdown = markdown
        self._kinds: dict[int, int] = {}
        self._open: list[Table | None] = []  # None for those of layout
        self._cells: list[Cell] = []  # of the row that is being read
        self._inner = 0  # tables that are open in a cell

    def kind(self, position: int) -> int:
        """Tell what the table that begins at a token is: LAYOUT, DATA or CODE."""
        if position not in self._kinds:
            self._kinds.update(table_kinds(self._page, position))
        return self._kinds[position]

    def open(self, kind: int) -> None:
        self._open.append(Table() if kind == DATA else None)

    def close(self) -> Table | None:
        """End a table; return it if it is one of data."""
        return self._open.pop() if self._open else None

    def set_head(self, *, is_in_head: bool) -> None:
        if self._open and (table := self._open[-1]) is not None:
            table.is_in_head = is_in_head

    def open_row(self) -> bool:
        """Tell whether the row is one of data."""
        self._cells = []
        return bool(self._open) and self._open[-1] is not None

    def open_in_row(self, tag: str, source: str, position: int) -> int:
        """Begin an element within a row of data. Return SKIP if all of it is read, else -1."""
        self._text.append(" ")
        if tag == "pre" or (tag == "table" and self.kind(position) == CODE):
            code = read_code(self._page, position)
            self._text.append(code.text)
            lines = [code_span(line) for line in code.text.split("\n") if line.strip()]
            self._markdown.append(BREAK + BREAK.join(lines) + BREAK)
            return SKIP
        if tag == "table":
            self._inner += 1
        elif tag in {"td", "th"} and not self._inner:
            self._cells.append(Cell.of(tag, source))
        self._markdown.append(BREAK + "- " if tag == "li" else BREAK if tag in CELL_LINES else " ")
        return -1

    def close_in_row(self, tag: str) -> None:
        self._text.append(" ")
        if tag == "table":
            self._inner -= 1
        if tag in {"td", "th"}:
            self._markdown.append(", " if self._inner else CELL)
        else:
            self._markdown.append(BREAK if tag in CELL_LINES else " ")

    def show_image(self, source: str) -> None:
        """Take what an image says for a cell that has nothing else."""
        if self._cells:
            self._cells[-1].image = attributes(source).get("alt", "")[:_MAX_IMAGE_CHARS]

    def read_cells(self) -> None:
        source = "".join(self._markdown)
        texts = inline_markdown(dollars(source) if "\\" in source else source).split(CELL)
        for cell, text in zip(self._cells, texts, strict=False):
            lines = [" ".join(line.split()).rstrip(",") for line in text.split(BREAK)]
            cell.text = ("<br>".join(filter(None, lines)) or cell.image).replace("|", "\\|")

    def close_row(self, block: int) -> None:
        """End a row, whose text has become a block of that number, or none (-1)."""
        if self._open and (table := self._open[-1]) is not None:
            table.rows.append(Row(self._cells, block, table.is_in_head))
        self._cells = []


def write_table(table: Table) -> list[tuple[int, str]]:
    """Return the Markdown of the blocks of a table by their numbers; rows without a block stand with one that has."""
    written: list[tuple[int, str]] = []
    waiting = ""
    for block, line in table.lines():
        if block >= 0:
            written.append((block, waiting + line))
            waiting = ""
        elif written:
            written[-1] = (written[-1][0], f"{written[-1][1]}\n{line}")
        else:
            waiting += line + "\n"
    return written
