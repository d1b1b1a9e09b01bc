"""What a report is made of, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.storage.runs import Run
from llmcrawler.storage.status import JobStatus

Line = Mapping[str, Any]


@dataclass(slots=True)
class Material:
    """`lines` are page lines as in a feed, to be gone through once; `templates` are template lines with their `site`,
    complete when the lines are at their end. `status` and `runs` are a job's. `gaps` says what is missing, and why;
    `cure` what to do about it.
    """

    name: str
    lines: Iterable[Line]
    templates: list[dict[str, Any]]
    status: JobStatus | None = None
    runs: Sequence[Run] = ()
    gaps: list[str] = field(default_factory=list)
    cure: str = ""

    @property
    def is_job(self) -> bool:
        return self.status is not None
