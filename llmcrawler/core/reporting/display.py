"""Draws a progress report with rich: a panel that stays at the foot of the terminal."""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from llmcrawler.core.reporting.progress import ProgressReport
from llmcrawler.core.reporting.text import plain

_FRAME_LINES = 5  # the frame, the bar, and a line of the log above
_FRAME_CELLS = 6  # the frame and the gap between the columns
_MORE = ", …"


def panel(report: ProgressReport, title: str, columns: int, lines: int) -> RenderableType:
    """Draw a report for a terminal of this size. No row is folded, the last ones are left out where there are too many.
    All text is Text: nothing from a page is read as rich's markup.
    """
    rows = report.as_rows()[: max(1, lines - _FRAME_LINES)]
    cells = max(len(name) for name, _ in rows)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True, min_width=cells)
    grid.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
    for name, parts in rows:
        grid.add_row(Text(name), Text(fitted(parts, columns - cells - _FRAME_CELLS)))
    body = Table.grid(expand=True)
    if report.pages_left is not None:
        total = max(report.fetched + report.pages_left, 1)
        body.add_row(ProgressBar(total=total, completed=report.fetched))
    body.add_row(grid)
    return Panel(body, title=Text(plain(title, max(1, columns - 8))), title_align="left")


def fitted(parts: Sequence[str], width: int) -> str:
    """Return as many whole parts as there is room for, and dots for the others; the first one is cut if it must be."""
    shown = plain(parts[0], width)
    for at, part in enumerate(parts[1:], 2):
        longer = f"{shown}, {part}"
        if cell_len(longer) + (len(_MORE) if at < len(parts) else 0) > width:
            return shown + _MORE if cell_len(shown) + len(_MORE) <= width else shown
        shown = longer
    return shown


class LiveDisplay:
    """Keeps a panel at the foot of the terminal, with the log running above it."""

    def __init__(self) -> None:
        console = Console(stderr=True, soft_wrap=True)  # the log's lines are folded already
        self._live = Live(
            console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=True, transient=True
        )
        self._restore: Callable[[], object] | None = None

    def start(self, log_handler: logging.Handler | None) -> None:
        self._live.start()
        # A second Ctrl-C ends the process with no signal to extensions; the cursor must come back all the same.
        atexit.register(self.stop)
        # A FileHandler is a StreamHandler too, and writes to no terminal.
        if isinstance(log_handler, logging.StreamHandler) and not isinstance(log_handler, logging.FileHandler):
            # The handler holds the stderr of before: its lines would go through the middle of the panel.
            before = log_handler.setStream(sys.stderr)
            self._restore = partial(log_handler.setStream, before)

    def show(self, report: ProgressReport, title: str) -> None:
        if self._live.is_started:
            columns, lines = self._live.console.size
            self._live.update(panel(report, title, columns, lines), refresh=True)

    def stop(self) -> None:
        if self._restore is not None:
            self._restore()
            self._restore = None
        self._live.stop()
        atexit.unregister(self.stop)


def terminal_is_free() -> bool:
    """Tell whether stderr is a terminal that can move its cursor, and no other display of this process draws on it."""
    return (
        sys.stderr.isatty()
        and not hasattr(sys.stderr, "rich_proxied_file")
        and not Console(stderr=True).is_dumb_terminal
    )
