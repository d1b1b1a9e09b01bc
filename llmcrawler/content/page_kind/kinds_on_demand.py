"""Works out the kind of a page when somebody asks for it: most pages of a settled template are never asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llmcrawler.content.page_kind.kind_evidence import KindEvidence
from llmcrawler.content.page_kind.kind_model import kind_probabilities
from llmcrawler.items import PageContent


class KindsOnDemand(Mapping[str, float]):
    """The probability of each kind, by name. It holds on to what was parsed of the page until it is asked, or told to
    forget; from then on a page that was not asked has no kinds. It is pickled as what it gives.
    """

    def __init__(self, evidence: KindEvidence) -> None:
        self._evidence: KindEvidence | None = evidence
        self._kinds: dict[str, float] = {}

    def forget(self) -> None:
        """Let go of the page."""
        self._evidence = None

    def _known(self) -> dict[str, float]:
        if self._evidence is not None:
            self._kinds = kind_probabilities(self._evidence)
            self._evidence = None
        return self._kinds

    def __getitem__(self, kind: str) -> float:
        return self._known()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._known(),)


def forget_kinds(content: PageContent) -> None:
    """Let go of what was parsed of the page, where its kinds have not been asked for and no longer will be."""
    if isinstance(content.kinds, KindsOnDemand):
        content.kinds.forget()
