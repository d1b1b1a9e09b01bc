"""A report in a few sentences."""

from __future__ import annotations

from collections import Counter

from llmcrawler.reporting.html.costs import Costs
from llmcrawler.reporting.html.digest import UNKNOWN, Digest
from llmcrawler.reporting.html.material import Material
from llmcrawler.reporting.html.pace import Pace
from llmcrawler.reporting.html.structure import page_types
from llmcrawler.reporting.words import counts, duration, percent


def findings(material: Material, digest: Digest, templates: int, pace: Pace, costs: Costs) -> list[str]:
    """What matters most first."""
    queued = material.status.urls.get("queued") if material.status is not None else 0
    candidates = [
        _what(digest, templates),
        _errors(digest),
        _pace(pace, digest.noun),
        _model(digest, costs),
        f"{queued:,} more urls are known and wait in the queue." if queued else "",
        f"Since the last time: {counts(digest.changes, 4)}." if digest.changes else "",
    ]
    return [one for one in candidates if one]


def _what(digest: Digest, templates: int) -> str:
    types = Counter({name: count for name, count in page_types(digest) if name != UNKNOWN})
    words = f"{digest.pages:,} {digest.noun}"
    if templates:
        words += f" from {templates:,} templates"
    if types:
        words += f", of {len(types)} page types: {counts(types, 4)}"
    return f"{words}."


def _errors(digest: Digest) -> str:
    if not digest.errors:
        return ""
    (stage, kind), worst = max(digest.errors.items(), key=lambda pair: pair[1].pages)
    share = percent(digest.failed / digest.pages)
    return f"{digest.failed:,} of them have an error ({share}); most often {stage}/{kind}, {worst.pages:,} times."


def _pace(pace: Pace, noun: str) -> str:
    if not pace.seconds or not pace.total.pages:
        return ""
    rate = f"{pace.total.pages:,} {noun} in {duration(pace.seconds)}, {pace.pages_per_second:.1f} a second"
    return f"{rate}; {pace.bound}." if pace.bound else f"{rate}."


def _model(digest: Digest, costs: Costs) -> str:
    if not costs.calls:
        return ""
    pages = digest.pages / costs.calls
    return f"The model was asked {costs.calls:,} times: one call for {pages:.0f} pages, {costs.tokens:,} tokens in all."
