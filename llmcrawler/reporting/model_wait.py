"""Tells what pages wait for whose work is not at an end: the model, or more pages of their template."""

from __future__ import annotations

from dataclasses import dataclass

from llmcrawler.reporting.text import duration


@dataclass(frozen=True, slots=True)
class ModelWait:
    """Pages that wait: for the model's verdict, for a template that is being learned, or for one that has too few pages
    so far. `calls_due` are those that templates are known to need, `call_seconds` is what one takes, where one was
    answered. `fetched_bytes` (done, in total) and `is_starting` are about a model that is not there yet.
    """

    for_verdict: int = 0
    for_learning: int = 0
    for_template: int = 0
    calls_done: int = 0
    calls_due: int = 0
    call_seconds: float | None = None
    fetched_bytes: tuple[int, int] | None = None
    is_starting: bool = False

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
        left = self.calls_due - self.calls_done
        about = f", about {duration(left * self.call_seconds)}" if self.call_seconds is not None else ""
        return f": {self.calls_done:,} of {self.calls_due:,} calls{about}"


def _pages(count: int) -> str:
    return f"{count:,} page{'' if count == 1 else 's'} wait{'s' if count == 1 else ''}"
