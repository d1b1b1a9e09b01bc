"""What page lines are counted for besides type and error: what their sites say of the use of pages, and noindex. A job
keeps it beside the packed lines, so that status need not read these.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from llmcrawler.core.politeness.rights import ANSWERS, SIGNALS, USES, VERDICTS
from llmcrawler.core.storage.job_file import JobConnection


@dataclass(frozen=True, slots=True)
class RightsCounts:
    """Counts of pages. `verdicts`: for the crawl's purpose; `uses`: by what holds for a use, as "ai-train: no";
    `signals`: by what said something, as "tdmrep"; `conflicts`: those with signals that contradict each other.
    """

    verdicts: Mapping[str, int] = field(default_factory=dict)
    uses: Mapping[str, int] = field(default_factory=dict)
    signals: Mapping[str, int] = field(default_factory=dict)
    conflicts: int = 0
    noindex: int = 0

    @classmethod
    def of(cls, marks: Mapping[str, int]) -> Self:
        """Return the counts that these marks make, each with its number of pages."""
        ordered = sorted(marks.items(), key=lambda pair: (-pair[1], pair[0]))

        def named(kind: str) -> dict[str, int]:
            return {mark.removeprefix(kind): pages for mark, pages in ordered if mark.startswith(kind)}

        said = named("verdicts/"), named("uses/"), named("signals/")
        return cls(*said, marks.get("conflicts", 0), marks.get("noindex", 0))


def marks_of(line: Mapping[str, Any]) -> list[str]:
    """Return what a line counts for: "verdicts/forbidden", "uses/ai-train: no", "noindex": a small, known set."""
    rights, uses, robots = said_in(line), uses_of(line), line.get("robots")
    named = [one.get("name") for one in signals_of(line)]
    return [
        *(f"verdicts/{one}" for one in VERDICTS if one == rights.get("verdict")),
        *(f"uses/{use}: {answer}" for use in USES for answer in ANSWERS if answer == uses.get(use)),
        *(f"signals/{name}" for name in SIGNALS if name in named),
        *(["conflicts"] if rights.get("conflicts") else []),
        *(["noindex"] if isinstance(robots, list) and "noindex" in robots else []),
    ]


def said_in(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the field `rights` of a line, which may have come from anyone's file; empty where nothing is said."""
    rights = line.get("rights")
    return rights if isinstance(rights, dict) else {}


def signals_of(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what was said of the use of the page, with `name`, `where`, `value` and `uses`."""
    signals = said_in(line).get("signals")
    return [one for one in signals if isinstance(one, dict)] if isinstance(signals, list) else []


def uses_of(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what holds for each use of the page: yes, no or conditions."""
    uses = said_in(line).get("uses")
    return uses if isinstance(uses, dict) else {}


def write_marks(connection: JobConnection, url_id: int, line: Mapping[str, Any]) -> None:
    if marks := marks_of(line):
        text = json.dumps(marks)
        connection.execute("INSERT OR IGNORE INTO mark_sets (marks) VALUES (?)", (text,))
        connection.execute("INSERT OR REPLACE INTO marks SELECT ?, id FROM mark_sets WHERE marks = ?", (url_id, text))


def read_marks(connection: JobConnection) -> Counter[str]:
    """Count the pages that have each mark."""
    found: Counter[str] = Counter()
    query = (
        "SELECT s.marks, n FROM (SELECT mark_set, count(*) AS n FROM marks GROUP BY mark_set) "
        "JOIN mark_sets s ON s.id = mark_set"
    )
    for text, pages in connection.execute(query):
        for mark in json.loads(text):
            found[mark] += pages
    return found
