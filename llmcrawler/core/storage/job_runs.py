"""The runs of a job: their figures, and their course over time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.storage.keys import JobConnection

_MAX_KEPT = 60  # runs: two months of nights, some 3 MB at most


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of one run. `number` counts the job's runs from 1; moments are seconds since 1970; `reason` is Scrapy's
    finish_reason, None for a run that has not said how it ended. `figures` are stats by name; `timeline` is
    Timeline.as_json.
    """

    number: int
    started: float
    ended: float
    reason: str | None
    figures: Mapping[str, Any]
    timeline: Mapping[str, Any]


def write_run(connection: JobConnection, run: Run) -> None:
    """Write a run in place of its earlier figures, and drop the oldest runs."""
    connection.execute(
        "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)",
        (run.number, run.started, run.ended, run.reason, _text(run.figures), _text(run.timeline)),
    )
    connection.execute("DELETE FROM runs WHERE number <= ?", (run.number - _MAX_KEPT,))


def read_runs(connection: JobConnection) -> list[Run]:
    """Return the runs that are kept, oldest first."""
    rows = connection.execute("SELECT number, started, ended, reason, figures, timeline FROM runs ORDER BY number")
    return [
        Run(number, started, ended, reason, json.loads(figures), json.loads(timeline))
        for number, started, ended, reason, figures, timeline in rows
    ]


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
