"""The values that go into the grouping of pages and come out of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from llmcrawler.core.understanding.templates.page_tokens import MAX_TITLE_CHARS, name_tokens, title_tokens
from llmcrawler.core.understanding.templates.url_tokens import url_tokens

Names = frozenset[str]  # of features or tokens


@dataclass(frozen=True, slots=True)
class PageSample:
    """A page reduced to what grouping needs: its DOM features, and the tokens of what its site calls it (url, title,
    body classes). `words` (tokens of its headings, too) only tell apart what the model has called by different names;
    they are not kept for the next crawl.
    """

    url: str
    features: frozenset[str]
    tokens: frozenset[str]
    title: str = ""
    words: frozenset[str] = frozenset()

    @classmethod
    def of(cls, url: str, features: frozenset[str], title: str = "", words: frozenset[str] = frozenset()) -> Self:
        declared = {"declared " + name for name in features if name.startswith(("body.", "html."))}
        title = title[:MAX_TITLE_CHARS]
        return cls(url, features, url_tokens(url) | name_tokens(url) | title_tokens(title) | declared, title, words)

    @property
    def names(self) -> frozenset[str]:
        """All that may separate pages of different labels."""
        return self.features | self.tokens | self.words


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The reservoir at one moment, in a fixed order, with the group of each page.

    `apart` holds pairs of groups that labels have shown to be different; they are never merged again.
    """

    samples: tuple[PageSample, ...]
    groups: tuple[str, ...]
    apart: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class SimilarityMetric:
    """Measure of the similarity of two pages; the defaults hold until the first clustering.

    `weights` has the weight of every feature and url token that was seen; others weigh `unknown_weight` or
    `unknown_url_weight`. `url_share` in 0..1 is the url's part of the similarity. Pages above `threshold` belong
    together.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    unknown_weight: float = 1.0
    unknown_url_weight: float = 1.0
    url_share: float = 0.5
    threshold: float = 0.0

    def to_json(self) -> dict[str, Any]:
        weights = sorted(self.weights.items())
        numbers = np.array([weight for _, weight in weights], dtype="<f4")  # as they were measured: nothing is rounded
        return {
            "names": [name for name, _ in weights],
            "weights": base64.b64encode(numbers.tobytes()).decode("ascii"),
            "unknown_weight": self.unknown_weight,
            "unknown_url_weight": self.unknown_url_weight,
            "url_share": self.url_share,
            "threshold": self.threshold,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        weights = np.frombuffer(base64.b64decode(value["weights"]), dtype="<f4").tolist()
        scalars = ("unknown_weight", "unknown_url_weight", "url_share", "threshold")
        return cls(dict(zip(value["names"], weights, strict=True)), *(float(value[name]) for name in scalars))


@dataclass(frozen=True, slots=True)
class Clustering:
    """The result of a re-clustering: a cluster number for each sample of the snapshot, and the metric it was made with.

    `floors` gives, per cluster, the similarity of its least typical page to the others.
    """

    snapshot: Snapshot
    clusters: tuple[int, ...]
    metric: SimilarityMetric
    floors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The group that a page was put into.

    `member` counts the pages of the group, this one included. `is_sample`: this page is one of the few, spread over the
    group (1, 4, 16, 64, ...), whose label should be asked; these are the group's votes. `settled` is False when the
    group is not trusted for this page: nothing was clustered yet, the page opens the group, or it is unlike all others
    in it. Then ask about the page itself, and use that answer for `split_by` but, unless `is_sample`, not as a vote:
    odd pages do not represent a group. `similarity` is in 0..1. `rivals` are other groups that fit nearly as well (a
    close second, the group of the single nearest page): where a rival's verdict differs, ask too. `is_known`: an
    earlier crawl has put the page there, so it is no new member, and what was found out about it still holds.
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
    """Changes by a regrouping: `aliases` old id -> the id it was merged into, `splits` old id -> ids that left it.

    `moved` has those pages of the reservoir whose group changed: url -> id.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TemplateSummary:
    """A template as reports and feeds show it. `aliases` are the ids that were merged into this one."""

    template: str
    page_count: int
    url_pattern: str
    examples: tuple[str, ...]
    aliases: tuple[str, ...] = ()
