"""Tells what pages wait for whose work is not at an end: the model, or more pages of their template."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from llmcrawler.core.reporting.text import duration, many


@dataclass(frozen=True, slots=True)
class ModelWait:
    """Pages that wait: for the model's verdict, for a template that is being learned, or for one that has too few pages
    so far. `calls_due` are those that templates are known to need, `call_seconds` is what one takes, where one was
    answered. `fetched_bytes` (done, in total) and `is_starting` are about a model that is not there yet. `by_type`
    counts, by page type, the pages that wait for a template.
    """

    for_verdict: int = 0
    for_learning: int = 0
    for_template: int = 0
    calls_done: int = 0
    calls_due: int = 0
    call_seconds: float | None = None
    fetched_bytes: tuple[int, int] | None = None
    is_starting: bool = False
    by_type: Counter[str] = field(default_factory=Counter)

    @property
    def pages(self) -> int:
        return self.for_verdict + self.for_learning + self.for_template

    @property
    def seconds_left(self) -> float | None:
        """The time of the calls that are due; None where nothing is known about them, or there is no model yet."""
        if self.call_seconds is None or not self.calls_due or self.is_starting or self.fetched_bytes is not None:
            return None
        return (self.calls_due - self.calls_done) * self.call_seconds

    def parts(self) -> list[str]:
        """Return it as parts of one line; none where no page waits."""
        for_model = self.for_verdict + self.for_learning
        parts = [f"{_pages(for_model)} for the model{self._state()}"] if for_model else []
        if self.for_template:
            whose = "its" if self.for_template == 1 else "their"
            parts.append(f"{_pages(self.for_template)} for more pages of {whose} template")
        return parts

    def _state(self) -> str:
        if self.fetched_bytes is not None:
            done, total = self.fetched_bytes
            return f", which is being fetched: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB"
        if self.is_starting:
            return ", which is being started"
        if not self.calls_due:
            return ""
        about = "" if self.seconds_left is None else f", about {duration(self.seconds_left)}"
        return f": {self.calls_done:,} of {many(self.calls_due, 'call')}{about}"


def _pages(count: int) -> str:
    return f"{many(count, 'page')} wait{'s' if count == 1 else ''}"
