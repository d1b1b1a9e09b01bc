"""What the grouper takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """One page of the reservoir: enough to cluster it again."""

    url: str
    features: frozenset[str]
    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The reservoir at one moment, in a fixed order, with the group each page is in.

    `apart` holds pairs of groups that labels have shown to be different; they are never merged again.
    """

    samples: tuple[Sample, ...]
    groups: tuple[str, ...]
    apart: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Clustering:
    """What a re-clustering found: a cluster number per sample of the snapshot, and how it measured.

    `weights` holds the weight of every feature and url token that a page of this site may show; one that is
    not in it weighs `unknown_weight` or `unknown_url_weight`. `url_share` in 0..1 is the part of the similarity
    that the url has; pages above `threshold` belong together. `floors` gives, per cluster, the similarity of its
    least typical page.
    """

    samples: tuple[Sample, ...]
    groups: tuple[str, ...]
    clusters: tuple[int, ...]
    weights: Mapping[str, float]
    unknown_weight: float
    unknown_url_weight: float
    url_share: float
    threshold: float
    floors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where a page was put.

    `member` counts the pages of the group, this one included. `is_sample` says that this page is one of the few,
    spread over the group (1, 4, 16, 64, ...), whose label should be asked; these are the group's votes.
    `settled` is False when the group is not trusted for this page: nothing was clustered yet, the page opens the
    group, or it is unlike all that is known of it. Then ask about the page itself, and use that answer for
    `split_by` but, unless `is_sample`, not as a vote: odd pages do not represent a group. `similarity` is in 0..1.
    `rivals` are other groups that it may as well belong to (a close second, the group of the single nearest
    page): where a rival's verdict is another, ask too. `is_known` says that an earlier crawl has put the page there:
    it is no new member, and what was found out about it then still holds.
    """

    template: str
    member: int
    is_sample: bool
    settled: bool
    similarity: float = 0.0
    rivals: tuple[str, ...] = ()
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of the groups: `aliases` old id -> the id it was merged into, `splits` old id -> ids that left it.

    `moved` names, for the pages still in the reservoir, those that have another group now: url -> id.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """A template as a person may see it."""

    template: str
    page_count: int
    url_pattern: str
    examples: tuple[str, ...]
    aliases: tuple[str, ...] = ()  # ids that were merged into this one
