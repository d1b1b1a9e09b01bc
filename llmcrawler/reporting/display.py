"""Draws a progress report with rich: a panel that stays at the foot of the terminal."""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable
from functools import partial

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from llmcrawler.reporting.crawl_progress import ProgressReport
from llmcrawler.reporting.text import plain


def panel(report: ProgressReport, title: str) -> RenderableType:
    """Draw a report. All text goes in as Text: what a page says is never read as rich's markup."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
    for name, text in report.as_rows():
        grid.add_row(Text(name), Text(text))
    body = Table.grid(expand=True)
    if report.pages_left is not None:
        done = report.figures.counted_pages
        body.add_row(ProgressBar(total=max(done + report.pages_left, 1), completed=done))
    body.add_row(grid)
    return Panel(body, title=Text(plain(title, 80)), title_align="left")


class LiveDisplay:
    """Keeps a panel at the foot of the terminal, with the log running above it."""

    def __init__(self) -> None:
        # Log lines are as long as they are: the terminal folds them, and a copied line stays whole.
        console = Console(stderr=True, soft_wrap=True)
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
            self._live.update(panel(report, title), refresh=True)

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
