"""Puts what sites say of the use of their pages into words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from llmcrawler.core.reporting.figures import Figures
from llmcrawler.core.storage import RightsCounts


def rights_lines(figures: Figures) -> list[str]:
    """Return the line of the summary; none where nothing was said."""
    said = rights_words(RightsCounts.of(figures.rights))
    return [f"Use of the pages: {said}"] if said else []


def rights_words(rights: RightsCounts) -> str:
    """Return the counts as one line; "" where nothing was said."""
    groups = {
        "": rights.uses,
        "said by ": rights.signals,
        "for the declared purpose ": rights.verdicts,
        "signals ": {"in conflict": rights.conflicts} if rights.conflicts else {},
    }
    return "; ".join(f"{words}{_counts(group)}" for words, group in groups.items() if group)


def rights_rows(rights: RightsCounts) -> Iterator[tuple[str, str]]:
    """Yield what is said, and of how many pages."""
    said = {f"{name} for the declared purpose": pages for name, pages in rights.verdicts.items()} | {**rights.uses}
    said |= {f"said by {name}": pages for name, pages in rights.signals.items()}
    said |= {"signals in conflict": rights.conflicts, "noindex": rights.noindex}
    yield from ((name, f"{pages:,}") for name, pages in said.items() if pages)


def _counts(group: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {pages:,}" for name, pages in group.items())
