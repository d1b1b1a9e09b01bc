"""Recognises pages by the templates of other sites that the same software made, and what the model said of those.

A shared template is what its pages have in common on all sites that taught it: features of their DOM, tokens of their
addresses and headings. It counts once two sites have taught it, each by answers of the model for its own pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from llmcrawler.core.understanding.classification.guess_votes import SURE_GUESS, Guess, resemblance

MAX_TEMPLATES: Final = 96  # of one platform
_MAX_NAMES: Final = 2_000  # in each set of a template
_MAX_CHARS: Final = 200
_MAX_SITES: Final = 8  # whose names are kept, so that none counts twice
_TAUGHT_BY: Final = 2
_FOR_ONE_AGAINST: Final = 4  # so many sites must have taught it for each that says otherwise
_COMMON_SHARE: Final = 0.9
# Of what all pages of the template have, a page has so much; and so much of the page was seen before.
_LEAST_CORE: Final = 0.9
_LEAST_KNOWN: Final = 0.85
_LEAST_ADDRESS: Final = 0.7
_LEAST_WORDS: Final = 0.7
_CLEAR_LEAD: Final = 0.05
_SAME: Final = 0.8  # resemblance of two templates that may be one
_SAME_ADDRESS: Final = 0.5
_FEWEST: Final = 5  # names in common: fewer say nothing


@dataclass(frozen=True, slots=True)
class PageMarks:
    """What a page is recognised by: features of its DOM, tokens of its address, of its headings and breadcrumb."""

    features: frozenset[str]
    address: frozenset[str]
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class SharedTemplate:
    """A kind of page of a platform. `common` is what its pages have on all sites, `known` what features any of them
    has. `sites` have taught it, `against` so many sites have said something else. `looks` are page types that its pages
    surely look like without being so.
    """

    page_type: str
    common: PageMarks
    known: frozenset[str]
    sites: int = 1
    against: int = 0
    taught_by: tuple[str, ...] = ()
    looks: frozenset[str] = frozenset()

    @property
    def confidence(self) -> float:
        """The probability that the next site agrees: Laplace's rule of succession, as for the samples of a template."""
        return (self.sites + 1) / (self.sites + self.against + 2)

    @property
    def is_trusted(self) -> bool:
        return self.sites >= _TAUGHT_BY and self.sites >= _FOR_ONE_AGAINST * self.against

    def contradicts(self, guess: Guess | None) -> bool:
        """Tell whether a page surely looks like something that no page of this template does."""
        return guess is not None and guess.confidence >= SURE_GUESS and guess.label not in {self.page_type, *self.looks}

    def fit(self, page: PageMarks) -> float:
        """Return how well a page fits, in 0..1; 0 where any part of it does not."""
        common = self.common
        if len(common.features) < _FEWEST or not page.features or not any(map(_is_telling, common.address)):
            return 0.0
        parts = (
            (_share(common.features, page.features), _LEAST_CORE),
            (_share(page.features, self.known), _LEAST_KNOWN),
            (_share(common.address, page.address), _LEAST_ADDRESS),
            (_share(common.words, page.words), _LEAST_WORDS),
        )
        product = 1.0
        for share, least in parts:
            if share < least:
                return 0.0
            product *= share
        return product

    def to_json(self) -> dict[str, Any]:
        common = self.common
        return {
            "page_type": self.page_type,
            "common": [sorted(common.features), sorted(common.address), sorted(common.words)],
            "known": sorted(self.known - common.features),
            "sites": self.sites,
            "against": self.against,
            "taught_by": list(self.taught_by),
            "looks": sorted(self.looks),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        try:
            common = PageMarks(*map(_names, value["common"]))
            known = _names(value["known"]) | common.features
            by = tuple(map(str, value["taught_by"][:_MAX_SITES]))
            page_type, sites, against = str(value["page_type"]), int(value["sites"]), int(value["against"])
            return cls(page_type, common, known, sites, against, by, _names(value["looks"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a shared template: {error!r}") from error


def template_of(
    page_type: str, pages: Sequence[PageMarks], site: str, looks: frozenset[str] = frozenset()
) -> SharedTemplate | None:
    """Return what a site's pages of one template teach; None where they have too little in common."""
    common = PageMarks(
        _common(page.features for page in pages),
        _common(page.address for page in pages),
        _common(page.words for page in pages),
    )
    known = Counter(name for page in pages for name in page.features)
    if len(common.features) < _FEWEST:
        return None
    most = frozenset(name for name, _ in known.most_common(_MAX_NAMES))
    return SharedTemplate(page_type, common, most | common.features, taught_by=(site,), looks=looks)


def recognise(templates: Iterable[SharedTemplate], page: PageMarks) -> SharedTemplate | None:
    """Return the template that made a page; None where none fits, or those of two page types nearly alike, or where it
    is not trusted (yet).
    """
    fits = sorted((one.fit(page), one.is_trusted, at, one) for at, one in enumerate(templates))
    best = {one.page_type: (fit, one) for fit, _, _, one in fits if fit > 0}  # of each page type the last, best one
    ranked = sorted(best.values(), key=lambda one: one[0], reverse=True)
    if not ranked or (len(ranked) > 1 and ranked[0][0] - ranked[1][0] < _CLEAR_LEAD):
        return None
    return ranked[0][1] if ranked[0][1].is_trusted else None


def taught(templates: Sequence[SharedTemplate], learned: SharedTemplate) -> list[SharedTemplate]:
    """Return the templates with what one site has learned: it strengthens the one that is alike and of the same page
    type, speaks against others that its pages fit, and is one more where none is alike.
    """
    (site,) = learned.taught_by
    alike = [one for one in templates if one.page_type == learned.page_type and _resemblance(one, learned) >= _SAME]
    same = max(alike, key=lambda one: _resemblance(one, learned), default=None)
    found = []
    for one in templates:
        if one is same:
            found.append(one if site in one.taught_by else _joined(one, learned, site))
        elif one.page_type != learned.page_type and one.fit(learned.common) and site not in one.taught_by:
            found.append(replace(one, against=one.against + 1, taught_by=(*one.taught_by, site)[-_MAX_SITES:]))
        else:
            found.append(one)
    return found if same is not None else [*found, learned]


def _joined(one: SharedTemplate, learned: SharedTemplate, site: str) -> SharedTemplate:
    common = PageMarks(
        one.common.features & learned.common.features,
        one.common.address & learned.common.address,
        one.common.words & learned.common.words,
    )
    known = frozenset(sorted(one.known | learned.known)[: 2 * _MAX_NAMES])
    by = (*one.taught_by, site)[-_MAX_SITES:]
    looks = one.looks | learned.looks
    return replace(one, common=common, known=known, sites=one.sites + 1, taught_by=by, looks=looks)


def _resemblance(one: SharedTemplate, other: SharedTemplate) -> float:
    """Return how alike two templates are in their features; 0 where their addresses are not."""
    if resemblance(one.common.address, other.common.address) < _SAME_ADDRESS:
        return 0.0
    return resemblance(one.common.features, other.common.features)


def _common(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    listed = list(sets)
    counts = Counter(name for one in listed for name in one if len(name) <= _MAX_CHARS)
    return frozenset(
        sorted(name for name, count in counts.items() if count >= _COMMON_SHARE * len(listed))[:_MAX_NAMES]
    )


def _is_telling(token: str) -> bool:
    """Tell whether a token of an address names what is there: pages of several kinds may have the same frame."""
    return token.startswith(("depth:0", "at", "key:"))


def _share(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part & whole) / len(part) if part else 1.0


def _names(value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError("names are no list of texts")
    return frozenset(name for name in value[: 2 * _MAX_NAMES] if len(name) <= _MAX_CHARS)
