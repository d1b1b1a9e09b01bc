"""Puts the sites of a campaign into bundles: one process crawls all sites of a bundle at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from llmcrawler.campaigns.sites_file import SiteRow
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.render_choice import ALWAYS, NEVER

# In larger bundles the last sites, slow ones, keep more lines from the data set, and a crash takes more back, while a
# process costs little more for each site less in it (benchmarks/campaign.py).
MOST_SITES: Final = 50
_BUNDLES_OF_A_CORE: Final = 4  # so many at least, so that all cores have work until the end
_BIG_PAGES: Final = 2_000  # a site that may have more has its own bundle: it takes longer than those beside it


@dataclass(frozen=True, slots=True)
class Bundle:
    """Sites with the same arguments, and what these are for the crawl of all of them. `max_pages` are of each site.
    `is_rendered`: all its pages go through a browser.
    """

    sites: tuple[SiteRow, ...]
    arguments: Mapping[str, str]
    max_pages: int
    is_rendered: bool

    @property
    def refreshes(self) -> bool:
        return ExploreOptions.reading({"refresh": self.arguments.get("refresh", False)}).refresh

    @property
    def may_render(self) -> bool:
        return self.arguments.get("render") != NEVER

    def crawl_arguments(self) -> dict[str, str]:
        """Return the arguments of the bundle's crawl, but for its list of urls and `refresh`."""
        given = {name: value for name, value in self.arguments.items() if name != "refresh"}
        pages = {"max_pages": str(self.max_pages * len(self.sites)), "max_pages_per_site": str(self.max_pages)}
        return {**given, **pages} if len(self.sites) > 1 else {**given, "max_pages": str(self.max_pages)}


def make_bundles(
    rows: Sequence[SiteRow], addresses: Mapping[str, Sequence[str]], cores: int, most_sites: int = 0
) -> list[Bundle]:
    """Return the bundles, large ones first. Sites of one host or address (`addresses` by site) are put side by side, as
    bundles that have such sites in common wait for each other. `most_sites` of a bundle; 0: as many as is good.
    """
    most_sites = most_sites or min(MOST_SITES, math.ceil(len(rows) / (cores * _BUNDLES_OF_A_CORE)))
    groups: dict[tuple[tuple[str, str], ...], list[SiteRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.arguments.items()), []).append(row)
    bundles = [one for group in groups.values() for one in _bundles_of(group, addresses, most_sites)]
    return sorted(bundles, key=lambda one: -one.max_pages)


def _bundles_of(group: list[SiteRow], addresses: Mapping[str, Sequence[str]], most_sites: int) -> Iterator[Bundle]:
    """Make bundles of sites that have the same arguments."""
    arguments = group[0].arguments
    options = ExploreOptions.of({**arguments, "url": group[0].url})
    is_rendered = options.render == ALWAYS
    # A limit of records is the crawl's: for a site of its own it is the site's.
    is_alone = is_rendered or options.max_pages > _BIG_PAGES or options.max_records is not None
    ordered = sorted(group, key=lambda row: (*sorted(addresses.get(row.name, ()))[:1], host_of(row.name)))
    size = 1 if is_alone else most_sites
    for start in range(0, len(ordered), size):
        yield Bundle(tuple(ordered[start : start + size]), arguments, options.max_pages, is_rendered)


def host_of(site: str) -> str:
    """Return the host of a site's name, without its port."""
    return urlsplit(f"//{site}").hostname or site


def places_of(sites: Iterable[str], addresses: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return what no two crawls may have in common at one time: the hosts and addresses of the sites."""
    return frozenset(place for site in sites for place in (host_of(site), *addresses.get(site, ())))
