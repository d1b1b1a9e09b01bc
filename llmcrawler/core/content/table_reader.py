"""Reads the tables of data of a page, while its blocks are read: a row is a block, and its Markdown is written when the
whole table is known.
"""

from __future__ import annotations

from typing import Final

from llmcrawler.core.content.code_blocks import read_code
from llmcrawler.core.content.data_tables import CODE, DATA, Cell, Row, Table, table_kinds
from llmcrawler.core.content.elements import CELL_LINES
from llmcrawler.core.content.formulas import dollars
from llmcrawler.core.content.marks import BREAK, CELL, code_span, inline_markdown
from llmcrawler.core.content.markup import Token, attributes
from llmcrawler.core.content.segments import SKIP

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
        """Begin a table of layout or data."""
        self._open.append(Table() if kind == DATA else None)

    def close(self) -> Table | None:
        """End a table; return it if it is one of data."""
        return self._open.pop() if self._open else None

    def set_head(self, *, is_in_head: bool) -> None:
        """Begin or end the head of the table."""
        if self._open and (table := self._open[-1]) is not None:
            table.is_in_head = is_in_head

    def open_row(self) -> bool:
        """Begin a row; tell whether it is one of data."""
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
        """End an element within a row of data."""
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
        """Take the texts of the row's cells."""
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
