"""What a few fetched pages showed of a site."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SampledPage:
    """`pattern` is the shape of its url (strata.py), `links` are the urls of the site that it leads to. `error` is None
    for a page that came. `item_type` is its likeliest type if it is about one thing. `is_sure`: structured data says
    its type, so that no model is asked. `is_settled`: its template could speak for it. `shown_tokens`: what the model
    would be shown to tell its type; `block_tokens`: to learn its fields. `place`: how many came before it.
    """

    url: str
    pattern: str
    links: frozenset[str] = frozenset()
    error: str | None = None
    template: str = ""
    page_type: str = "other"
    item_type: str = ""
    is_sure: bool = False
    is_settled: bool = True
    shown_tokens: int = 0
    block_tokens: int = 0
    latency_seconds: float = 0.0
    place: int = 0


@dataclass(frozen=True, slots=True)
class SiteSample:
    """`pages` in the order in which they came. `known` is every url of the site that was heard of, with its pattern:
    from links, and from sitemaps (`listed`). `depths`: how many links lead there, as far as that is known. `is_whole`:
    all of them were fetched.
    """

    pages: Sequence[SampledPage]
    known: Mapping[str, str]
    listed: frozenset[str] = frozenset()
    depths: Mapping[str, int] = field(default_factory=dict)
    by_pattern: Mapping[str, Sequence[SampledPage]] = field(init=False)
    known_counts: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        by_pattern: defaultdict[str, list[SampledPage]] = defaultdict(list)
        for page in self.pages:
            by_pattern[page.pattern].append(page)
        object.__setattr__(self, "by_pattern", dict(by_pattern))
        object.__setattr__(self, "known_counts", Counter(self.known.values()))

    @property
    def is_whole(self) -> bool:
        return len(self.known) <= len(self.pages)
