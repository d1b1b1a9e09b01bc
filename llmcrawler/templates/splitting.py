"""What separates the pages of a group whose samples have different labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llmcrawler.templates.values import Sample

_MAX_DISCRIMINATORS = 24
_MIN_DIFFERENCE = 0.6


@dataclass(frozen=True, slots=True)
class Evidence:
    """How often pages of each label have each separating feature; empty (falsy) when nothing separates."""

    shares: Mapping[str, Mapping[str, float]]  # feature -> label -> share of that label's pages, 0..1

    def __bool__(self) -> bool:
        return bool(self.shares)

    def label_of(self, sample: Sample) -> str | None:
        """The label whose labelled pages the page resembles in what separates them; None on a tie."""
        present = sample.features | sample.tokens
        scores: dict[str, float] = {}
        for name, by_label in self.shares.items():
            for label, share in by_label.items():
                scores[label] = scores.get(label, 0.0) + (share if name in present else 1 - share)
        best, second = sorted(scores.items(), key=lambda item: -item[1])[:2]
        return None if best[1] - second[1] < 1e-9 else best[0]


@dataclass(frozen=True, slots=True)
class Rule:
    """Which group each label of a split went to."""

    evidence: Evidence
    groups: Mapping[str, str]  # label -> template id when the group was parted


def discriminators(labelled: Sequence[tuple[Sample, str]]) -> Evidence:
    """The features and url tokens whose frequency differs most between labels.

    Frequencies are smoothed by half a page, so that one page of a label against one of another is weak
    evidence for each feature but still some.
    """
    pages = Counter(label for _, label in labelled)
    if len(pages) < 2:
        return Evidence({})
    counts: dict[str, Counter[str]] = {}
    for sample, label in labelled:
        for name in sample.features | sample.tokens:
            counts.setdefault(name, Counter())[label] += 1
    ranked: list[tuple[float, str]] = []
    for name, by_label in counts.items():
        raw = [by_label[label] / number for label, number in pages.items()]
        if max(raw) - min(raw) >= _MIN_DIFFERENCE:
            smooth = [(by_label[label] + 0.5) / (number + 1) for label, number in pages.items()]
            ranked.append((min(smooth) - max(smooth), name))
    best = sorted(ranked)[:_MAX_DISCRIMINATORS]
    return Evidence(
        {
            name: {label: (counts[name][label] + 0.5) / (number + 1) for label, number in pages.items()}
            for _, name in best
        }
    )


def sort_by_label(members: Sequence[Sample], evidence: Evidence, labelled: Mapping[str, str]) -> dict[str, list[str]]:
    """Label -> urls of the pages that go with it, biggest first; what cannot be told goes with the commonest label."""
    sides: dict[str, list[str]] = {
        label: [] for label in sorted({labelled[m.url] for m in members if m.url in labelled})
    }
    undecided: list[str] = []
    for member in members:
        label = labelled.get(member.url) or evidence.label_of(member)
        (undecided if label is None else sides[label]).append(member.url)
    ranked = sorted(sides, key=lambda label: -len(sides[label]))
    sides[ranked[0]].extend(undecided)
    return {label: sides[label] for label in ranked}
