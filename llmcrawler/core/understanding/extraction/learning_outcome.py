"""Says what came of learning a template's records, and why a field or all of them could not be learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmcrawler.core.understanding.extraction.learner import Learner
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema


@dataclass(frozen=True, slots=True)
class LearningOutcome:
    """What is known of one template. `learned` are the names of the fields that have a selector, `missing` has the
    others that were asked for or named, and why. `unserved` pages got no record, for `reason`.
    """

    page_type: str
    learned: frozenset[str]
    missing: Mapping[str, str]
    unserved: int = 0
    reason: str = ""


def outcome_of(learner: Learner, min_pages: int | None, requested: RequestedSchema | None) -> LearningOutcome:
    """`min_pages`: a template with fewer is not learned; None where no model can learn any."""
    known = frozenset(one.key for one in learner.fields)
    reason = "" if known else _reason(learner, min_pages)
    wanted = () if requested is None else tuple(one.key for one in requested.fields)
    unexplained = "not among what was learned before" if learner.was_restored else "pointed at on none of the samples"
    missing = dict.fromkeys(wanted, reason or unexplained) | learner.missing
    missing = {name: why for name, why in missing.items() if name not in known}
    return LearningOutcome(learner.key.page_type, known, missing, learner.unserved, reason)


def _reason(learner: Learner, min_pages: int | None) -> str:
    if learner.error is not None:
        return f"{learner.error.kind}: {learner.error.message}"
    if learner.fruitless:
        return learner.fruitless
    if learner.was_restored:
        return "an earlier crawl found nothing to learn"
    if min_pages is None:
        return "no structured data, and no model to learn from their text"
    if learner.unserved < min_pages:
        return f"no structured data, fewer than RECORD_MIN_PAGES={min_pages} pages of its template"
    return "the crawl ended before its template was learned"
