"""From what the sample showed of each kind of url to the pages that a crawl will come across."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from llmcrawler.planning.calls import Arrival
from llmcrawler.planning.growth import Stratum
from llmcrawler.planning.sample import SampledPage

SCENARIOS = ("low", "likely", "high")
# The rules of sampling show ever fewer pages of a template, so what comes later hardly counts.
_MOST_ARRIVALS = 20_000


@dataclass(frozen=True, slots=True)
class Projection:
    """By pattern. `whole`: the pages that there are; `pages`: those that `max_pages` lets come; `failed`: errors."""

    whole: Mapping[str, float]
    pages: Mapping[str, float]
    failed: Mapping[str, float]

    @property
    def count(self) -> float:
        return sum(self.pages.values())


class Projector:
    """Of one sample."""

    def __init__(self, strata: Sequence[Stratum]) -> None:
        self._strata = {one.pattern: one for one in strata}
        self._came = {one.pattern: [page for page in one.pages if page.error is None] for one in strata}
        # What no page was fetched of is taken to be like what few were fetched of: large strata had their share.
        small = [page for pages in self._came.values() if len(pages) <= 2 for page in pages]
        self._others = small or [page for pages in self._came.values() for page in pages]

    def project(self, scenario: str, max_pages: int) -> Projection:
        whole = {name: getattr(one.size, scenario) * (1 - one.failed_share) for name, one in self._strata.items()}
        pages = _by_turns(whole, max_pages)
        failed = {}
        for name, one in self._strata.items():
            share = one.failed_share
            if share == 1:
                failed[name] = min(getattr(one.size, scenario), float(max_pages))
            else:
                failed[name] = pages[name] * share / (1 - share)
        return Projection(whole, pages, failed)

    def cells(self, projection: Projection) -> Counter[tuple[str, str, bool]]:
        """Pages by (template, page type, whether structured data tells that)."""
        cells: Counter[tuple[str, str, bool]] = Counter()
        for name, count in projection.pages.items():
            like = self._like(name)
            for page in like:
                cells[page.template, page.page_type, page.is_sure] += count / len(like)  # type: ignore[assignment]
        return cells

    def arrivals(self, projection: Projection, rng: Random) -> list[Arrival | None]:
        """First the sample as it came, then in an order in which the frontier may hand them out: by ranks, those of one
        rank in any order.
        """
        sampled = sorted((page for one in self._strata.values() for page in one.pages), key=lambda page: page.place)
        unsettled = self._unsettled_share()
        ranked = [
            (number.bit_length(), rng.random(), rng.choice(self._like(name)))
            for name, count in projection.pages.items()
            for number in range(len(self._came[name]), min(round(count), _MOST_ARRIVALS))
        ]
        ranked.sort(key=lambda one: one[:2])
        early = [None if page.error else _arrival(page, is_settled=page.is_settled) for page in sampled]
        rest = (
            _arrival(page, is_settled=rng.random() >= unsettled / place)
            for place, (_rank, _chance, page) in enumerate(ranked[:_MOST_ARRIVALS], len(sampled) + 1)
        )
        return [*early, *rest]

    def _like(self, pattern: str) -> list[SampledPage]:
        return self._came[pattern] or self._others

    def _unsettled_share(self) -> float:
        """New kinds of page become rarer in proportion to the pages that came (Good, 1953): their number in the later
        half of the sample, times its length, over a page's place, is the chance that it is one.
        """
        came = [page for stratum in self._strata.values() for page in stratum.pages if page.error is None]
        late = sorted(came, key=lambda page: page.place)[len(came) // 2 :]
        return len(came) * sum(not page.is_settled for page in late) / len(late) if late else 0.0


def _arrival(page: SampledPage, *, is_settled: bool) -> Arrival | None:
    return None if page.is_sure else Arrival(page.template, page.shown_tokens, is_settled)


def _by_turns(sizes: Mapping[str, float], max_pages: int) -> dict[str, float]:
    """What a crawl of `max_pages` takes of each stratum: they take turns, so that the small ones are whole."""
    left, taken = float(max_pages), {}
    for rest, name in zip(range(len(sizes), 0, -1), sorted(sizes, key=lambda name: (sizes[name], name)), strict=True):
        taken[name] = min(sizes[name], left / rest)
        left -= taken[name]
    return taken
