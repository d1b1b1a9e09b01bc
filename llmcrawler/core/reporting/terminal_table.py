"""Tables that commands print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from llmcrawler.core.reporting.text import plain

_UNBOUND = 100_000  # columns: what is piped is cut or folded nowhere


def stdout_console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_UNBOUND, color_system=None)


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return a table. A column that is empty is left out; one whose header starts with ">" is set right."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    filled = [at for at in range(len(headers)) if any(str(row[at]) for row in rows)]
    for at in filled:
        right = headers[at].startswith(">")
        shown.add_column(
            headers[at].removeprefix(">"),
            justify="right" if right else "left",
            overflow="fold",
            header_style="dim",
            no_wrap=right,
        )
    for row in rows:
        shown.add_row(*(Text(plain(row[at])) for at in filled))
    return shown


def more(count: int, shown: int) -> list[Text]:
    """Return the line below a table that shows the first `shown` rows of `count`; none where these are all."""
    return [Text(f"... and {count - shown:,} more", style="dim")] if count > shown else []
