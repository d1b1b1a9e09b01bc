"""A JOBDIR as material for a report, also while its crawl runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llmcrawler.errors import ConfigError
from llmcrawler.reporting.html.material import Line, Material
from llmcrawler.storage import TemplatesFile
from llmcrawler.storage.keys import JobConnection
from llmcrawler.storage.ledger import read_lines
from llmcrawler.storage.runs import Run, read_runs
from llmcrawler.storage.status import job_status, reading

_LINES_AT_ONCE = 200


@contextmanager
def job_material(folder: Path, now: float) -> Iterator[Material]:
    """Raises ConfigError where there is no job, or none of ours."""
    status = job_status(folder, now)
    with reading(folder) as connection:
        runs = read_runs(connection)
        templates, gaps = ([], []) if _is_map(connection) else _templates(folder, runs)
        if not runs:
            gaps.append("The crawl has not written yet how it went over time; it does so every 5 seconds.")
        yield Material(str(folder), _lines(connection), templates, status, runs, gaps)


def _is_map(connection: JobConnection) -> bool:
    """Nothing is learned of a map's urls."""
    return any(line.get("kind") == "url" for _seq, line in read_lines(connection, 0, 2**62, 1))


def _lines(connection: JobConnection) -> Iterator[Line]:
    last = 0
    while some := read_lines(connection, last, 2**62, _LINES_AT_ONCE):
        last = some[-1][0]
        yield from (line for _seq, line in some)


def _templates(folder: Path, runs: list[Run]) -> tuple[list[dict[str, Any]], list[str]]:
    named = runs[-1].figures.get("settings", {}).get("TEMPLATES_FILE") if runs else None
    path = Path(named).expanduser() if named else folder / "templates.json"
    try:
        sites = TemplatesFile(path, "TEMPLATES_FILE" if named else "JOBDIR").load()
    except ConfigError as error:
        return [], [f"What was learned of the templates cannot be read: {error}."]
    if not sites:
        return [], [f"No file of learned templates ({path.name}): there are no schemas and selectors to show."]
    return [{**one, "site": site} for site, stored in sites.items() for one in stored.templates], []
