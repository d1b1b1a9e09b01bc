"""What sites say of the use of their pages, as a table for people who judge it: a row for each page, with a column for
each use and for each signal, in which it stands literally.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from llmcrawler.core.politeness.rights import SIGNALS, USES
from llmcrawler.core.storage.feeds.tables import clean_text, neutral
from llmcrawler.core.storage.rights_marks import said_in, signals_of, uses_of

_MAX_CHARS = 32_000  # of a cell: spreadsheets cut there, or go on in the next row
RIGHTS_COLUMNS: Final = (
    *("host", "url", "final_url", "fetched_at", "status", "content_hash", "error.kind", "error.message"),
    *("purpose", "verdict", "conflicts"),
    *(*USES, *SIGNALS, "robots", "duplicate_of"),
)


def rights_row(line: Mapping[str, Any], purpose: str = "", *, neutralises: bool = True) -> dict[str, str]:
    """Return the cells of a page's line, which may have come from anyone's file. A signal is `where: value`, a line of
    the cell for each place. `purpose`: the one that the crawl declared, for which the verdict is.
    """
    rights, error = said_in(line), line.get("error")
    values: dict[str, Any] = {**uses_of(line), **rights, **line, "purpose": purpose if rights.get("verdict") else None}
    try:
        values["host"] = urlsplit(str(line.get("url"))).netloc
    except ValueError:
        values["host"] = ""
    if isinstance(error, dict):
        values |= {f"error.{name}": error.get(name) for name in ("kind", "message")}
    for name in SIGNALS:
        signals = [one for one in signals_of(line) if one.get("name") == name]
        values[name] = [f"{_one_line(one.get('where'))}: {_one_line(one.get('value'))}" for one in signals]
    cells = {}
    for name in RIGHTS_COLUMNS:
        value = values.get(name)
        parts = value if isinstance(value, list) else [value]
        text = clean_text("\n".join(map(_one_line, parts)))[:_MAX_CHARS]
        cells[name] = neutral(text) if neutralises else text
    return cells


def _one_line(value: Any) -> str:
    return " ".join(str("" if value is None else value).split())
