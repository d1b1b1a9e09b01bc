"""Splits groups whose samples have different labels: finds what separates the labels, and keeps the parts apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Self

from llmcrawler.core.understanding.templates.page_sample import PageSample

_MAX_RULES = 32
_MAX_DISCRIMINATORS = 24
_MIN_DIFFERENCE = 0.6
# What separates the samples has to tell each label of so many of those that it was not found on.
_MIN_RECALL = 0.75

Labelled = Sequence[tuple[PageSample, str]]
Shares = Mapping[str, Mapping[str, float]]  # feature -> label -> share of the label's pages that have it, in 0..1


@dataclass(frozen=True, slots=True)
class _SplitRule:
    """The features that separate labels, and label -> id of the group that the label's pages went to."""

    shares: Shares
    groups: Mapping[str, str]


class Splits:
    """Remembers all splits of a site's groups. `resolve` gives the current id of a group."""

    def __init__(self, resolve: Callable[[str], str]) -> None:
        self._resolve = resolve
        self._apart: set[tuple[str, str]] = set()
        self._rules: list[_SplitRule] = []

    def add(self, shares: Shares, groups: Mapping[str, str]) -> None:
        """Remember a split, of which `groups` (label -> id) are the parts."""
        self._apart.update(combinations(groups.values(), 2))
        self._rules = [*self._rules, _SplitRule(shares, groups)][-_MAX_RULES:]

    def note_parts(self, old: str, parts: Iterable[str]) -> None:
        """Keep ids that left the group `old` apart from what `old` is kept apart from."""
        self._apart |= {(new, b if a == old else a) for a, b in self._apart if old in (a, b) for new in parts}

    def apart(self) -> frozenset[tuple[str, str]]:
        """Return the pairs of current ids that must not be merged."""
        pairs = {(self._resolve(one), self._resolve(other)) for one, other in self._apart}
        self._apart = {(one, other) for one, other in pairs if one != other}
        return frozenset(self._apart)

    def part_for(self, template: str, sample: PageSample) -> str:
        """Choose among groups that a split has parted: what separated them decides, not the whole page."""
        for rule in self._rules:
            ids = {label: self._resolve(group) for label, group in rule.groups.items()}
            if template in ids.values() and (label := _label_of(sample, rule.shares)) is not None:
                template = ids[label]
        return template

    def templates(self) -> set[str]:
        """Return every id that `part_for` may give."""
        return {template for rule in self._rules for template in rule.groups.values()}

    def to_json(self) -> dict[str, Any]:
        rules = [asdict(rule) for rule in self._rules]
        for rule in rules:
            rule["groups"] = {label: self._resolve(group) for label, group in rule["groups"].items()}
        return {"apart": sorted(list(pair) for pair in self.apart()), "rules": rules}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], resolve: Callable[[str], str]) -> Self:
        splits = cls(resolve)
        splits._apart = {(one, other) for one, other in value["apart"]}
        for rule in value["rules"]:
            shares = {
                name: {label: float(share) for label, share in by_label.items()}
                for name, by_label in rule["shares"].items()
            }
            splits._rules.append(_SplitRule(shares, dict(rule["groups"])))
        return splits


def separate(members: Sequence[PageSample], labels: Mapping[str, str]) -> tuple[Shares, dict[str, list[str]]] | None:
    """Find what separates pages of different labels (url -> label), and the urls of all members by label, biggest
    first. None where nothing does, or only what would not have told samples that it was not found on.
    """
    known = [(one, labels[one.url]) for one in members if one.url in labels]
    counts = Counter(label for _, label in known)
    if len(common := {label for label, count in counts.items() if count > 1}) > 1:
        # A label that one sample alone has, where two others have more, is an odd page, or a slip of the model.
        known = [one for one in known if one[1] in common]
        counts = Counter(label for _, label in known)
    shares = _discriminators(known)
    if not shares:
        return None
    if min(counts.values()) > 1:  # there are enough to leave each out in turn
        right = Counter[str]()
        for place, (sample, label) in enumerate(known):
            others = _discriminators([*known[:place], *known[place + 1 :]])
            right[label] += bool(others) and _label_of(sample, others) == label
        if any(right[label] < _MIN_RECALL * count for label, count in counts.items()):
            return None
    label_of = {member.url: label for member, label in known}
    sides: dict[str, list[str]] = {label: [] for label in sorted(counts)}
    undecided: list[str] = []
    for member in members:
        found = label_of.get(member.url) or _label_of(member, shares)
        (undecided if found is None else sides[found]).append(member.url)
    ranked = sorted(sides, key=lambda label: -len(sides[label]))
    sides[ranked[0]].extend(undecided)
    return shares, {label: sides[label] for label in ranked}


def _label_of(sample: PageSample, shares: Shares) -> str | None:
    """Return the label whose pages the sample resembles in what separates them; None on a tie."""
    present = sample.names
    scores: dict[str, float] = {}
    for name, by_label in shares.items():
        for label, share in by_label.items():
            scores[label] = scores.get(label, 0.0) + (share if name in present else 1 - share)
    best, second = sorted(scores.items(), key=lambda item: -item[1])[:2]
    return None if best[1] - second[1] < 1e-9 else best[0]


def _discriminators(labelled: Labelled) -> Shares:
    """Find the names whose frequency differs most between labels, smoothed by half a page: one page of a label against
    one of another is weak evidence.
    """
    pages = Counter(label for _, label in labelled)
    if len(pages) < 2:
        return {}
    counts: dict[str, Counter[str]] = {}
    for sample, label in labelled:
        for name in sample.names:
            counts.setdefault(name, Counter())[label] += 1
    ranked: list[tuple[float, str, dict[str, float]]] = []
    for name, by_label in counts.items():
        raw = [by_label[label] / number for label, number in pages.items()]
        if max(raw) - min(raw) >= _MIN_DIFFERENCE:
            smooth = {label: (by_label[label] + 0.5) / (number + 1) for label, number in pages.items()}
            ranked.append((min(smooth.values()) - max(smooth.values()), name, smooth))
    ranked.sort(key=lambda one: one[:2])
    return {name: smooth for _, name, smooth in ranked[:_MAX_DISCRIMINATORS]}
