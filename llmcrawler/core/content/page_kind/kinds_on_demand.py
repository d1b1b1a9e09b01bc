"""Works out the kind of a page when somebody asks for it: most pages of a settled template are never asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from llmcrawler.items import PageContent


class KindsOnDemand(Mapping[str, float]):
    """The probability of each kind, by name. `work_out` holds on to what was parsed of the page until somebody asks, or
    tells it to forget; from then on a page that was not asked has no kinds. It is pickled as what it gives.
    """

    def __init__(self, work_out: Callable[[], Mapping[str, float]]) -> None:
        self._work_out: Callable[[], Mapping[str, float]] | None = work_out
        self._kinds: Mapping[str, float] = {}

    def forget(self) -> None:
        """Let go of the page."""
        self._work_out = None

    def _known(self) -> Mapping[str, float]:
        if self._work_out is not None:
            self._kinds = self._work_out()
            self._work_out = None
        return self._kinds

    def __getitem__(self, kind: str) -> float:
        return self._known()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self._known()),)


def forget_kinds(content: PageContent) -> None:
    """Let go of what was parsed of the page, where its kinds have not been asked for and no longer will be."""
    if isinstance(content.kinds, KindsOnDemand):
        content.kinds.forget()
