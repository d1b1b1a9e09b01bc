"""Tells at its start what a crawl is going to do, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmcrawler.core.reporting.text import plain

_SHOWN = 3  # urls, feeds
_CHARS = 200  # of each


@dataclass(frozen=True, slots=True)
class CrawlStart:
    """What is known at the start. `limits` are words such as "at most 500 pages"; `feeds` are where lines go, `chosen`
    where the user named none; `job` is a JOBDIR. `pace` is None where the spider is not ours.
    """

    spider: str
    targets: Sequence[str]
    limits: Sequence[str]
    model: str
    obeys_robots: bool
    pace: str
    feeds: Sequence[str]
    is_feed_chosen: bool = True
    job: str = ""
    signed_as: str = ""

    def as_line(self) -> str:
        parts = [
            f"{self.spider} {_some(self.targets)}".rstrip(),
            ", ".join(self.limits),
            self.model,
            f"robots.txt {'obeyed' if self.obeys_robots else 'NOT obeyed'}",
            f"signed as {self.signed_as}" if self.signed_as else "",
            self.pace,
            f"job {self.job}" if self.job else "",
            self._output(),
        ]
        return plain(" | ".join(part for part in parts if part))

    def _output(self) -> str:
        if not self.feeds:
            return "output: none but the job, -O FILE writes it" if self.job else "output: none, -O FILE writes one"
        return f"output: {_some(self.feeds)}{'' if self.is_feed_chosen else ' (chosen, as there is no -O)'}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(plain(name, _CHARS) for name in names[:_SHOWN]) + more
