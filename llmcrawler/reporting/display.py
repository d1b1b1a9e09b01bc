"""A progress report as something that rich can draw."""

from __future__ import annotations

from rich.console import RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from llmcrawler.reporting.plain_text import plain
from llmcrawler.reporting.progress import Report


def panel(report: Report, title: str) -> RenderableType:
    """All text goes in as Text: what a page says is never read as rich's markup."""
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
