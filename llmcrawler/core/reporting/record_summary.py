"""Tells what came of a crawl's records: how many, how full their fields are, and why some could not be learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence

from llmcrawler.core.reporting.figures import Figures
from llmcrawler.core.reporting.tally import Tally
from llmcrawler.core.reporting.text import column, fold, listed, many, percent, plain
from llmcrawler.core.understanding.extraction import LearningOutcome

_TYPES = 10
_FIELDS = 60
_REASONS = 3  # why pages of one type have no record
_NAME_CELLS = 30


def goal_words(figures: Figures) -> str:
    """Say how far the crawl is with what was wanted first."""
    of = f" of {figures.max_records:,}" if figures.max_records else ""
    pages = sum(figures.page_types[name] for name in figures.goal.split(","))
    records = f"{figures.goal_records:,}{of} records" if of else many(figures.goal_records, "record")
    return f"{figures.goal}: {records}, {pages:,} of {many(figures.counted_pages, 'page')}"


def goal_progress(figures: Figures, by_type: Mapping[str, int]) -> list[str]:
    """Say the same while the crawl runs: until there is a first record, what the pages of the goal wait for. `by_type`
    counts the pages that wait for their template.
    """
    names = figures.goal.split(",")
    waiting, pages = sum(by_type.get(name, 0) for name in names), sum(figures.page_types[name] for name in names)
    if waiting and not figures.goal_records:
        most = [f"0 of {many(figures.max_records, 'record')}"] if figures.max_records else []
        return [f"learning {figures.goal}: {many(waiting, 'page')} wait{'s' if waiting == 1 else ''}", *most]
    if not pages and not figures.goal_records:
        return [f"{figures.goal}: no page of it yet"]
    return [goal_words(figures), *([f"{waiting:,} more wait"] if waiting else [])]


def record_lines(
    tally: Tally, outcomes: Sequence[LearningOutcome], record_types: Container[str], width: int
) -> list[str]:
    """Return a block for each page type that has records, or should have: those with most pages first."""
    pages = tally.pages_by_type
    shown = sorted((name for name in pages if name in record_types or tally.records[name]), key=lambda one: -pages[one])
    if not shown:
        return ["Records: none, as no page is of a type that has any"] if pages else []
    names = ["Records", *(plain(name, _NAME_CELLS) for name in shown[:_TYPES])]
    cells = max(len(name) for name in names)
    lines = [f"{column('Records', cells)}  pages  records"]
    for name in shown[:_TYPES]:
        lines.append(f"{column(plain(name, cells), cells)}  {pages[name]:>5,}  {tally.records[name]:>7,}")
        lines += _fields(name, tally, [one for one in outcomes if one.page_type == name], width)
    if len(shown) > _TYPES:
        lines.append(f"... and {len(shown) - _TYPES:,} more page types")
    return lines


def _fields(page_type: str, tally: Tally, outcomes: Sequence[LearningOutcome], width: int) -> list[str]:
    records = tally.records[page_type]
    missing = _missing(outcomes)
    shares = {
        name: count / records
        for (of_type, name), count in tally.filled.items()
        if of_type == page_type and records and (count or name not in missing)
    }
    parts = [f"{plain(name, _NAME_CELLS)} {percent(share)}" for name, share in list(shares.items())[:_FIELDS]]
    if len(shares) > _FIELDS:
        parts.append(f"{len(shares) - _FIELDS:,} more")
    lines = fold(["filled:", *listed(parts)], width, "    ") if parts else []
    reasons: dict[str, list[str]] = {}
    for name, why in list(missing.items())[:_FIELDS]:
        reasons.setdefault(why, []).append(plain(name, _NAME_CELLS))
    for why, names in reasons.items():
        lines += fold(["not learned:", *f"{', '.join(names)} ({why})".split()], width, "    ")
    for why, count in _unserved(outcomes).most_common(_REASONS):
        lines += fold(f"without a record: {count:,} ({why})".split(), width, "    ")
    return lines


def _missing(outcomes: Sequence[LearningOutcome]) -> dict[str, str]:
    """Return why a field has no selector in any template, in the words of one that was learned otherwise. Where none
    was, it is said once for all fields.
    """
    learned = [one for one in outcomes if one.learned]
    known = frozenset().union(*(one.learned for one in learned))
    return {name: why for one in learned for name, why in one.missing.items() if name not in known}


def _unserved(outcomes: Sequence[LearningOutcome]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for one in outcomes:
        if one.unserved:
            counted[one.reason or "they are unlike those that their template was learned from"] += one.unserved
    return counted
