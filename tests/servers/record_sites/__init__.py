"""Sites made for learning records from, with the truth of each page: our own HTML, as varied as the web's.

site = make_site("shop", seed=1)                    site.pages, site.routes(), site.truth()
few = make_shop(18)                                 a shop of 18 products, for tests that are not about many
after = make_site("shop", seed=1, redesign=True)    the same paths and data by other HTML (shop, news, jobs)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.servers.record_sites import (
    bookstore,
    cards,
    events,
    fashion,
    forum,
    jobs,
    news,
    people,
    recipes,
    shop,
)
from tests.servers.record_sites.truth import Shown, Site, SitePage

__all__ = ["REDESIGNED", "SITES", "Shown", "Site", "SitePage", "make_shop", "make_site"]

_Maker = Callable[[Random, bool], Sequence[SitePage]]
_MAKERS: dict[str, tuple[str, _Maker]] = {
    "shop": ("product", shop.make),
    "fashion": ("product", fashion.make),
    "bookstore": ("product", bookstore.make),
    "news": ("article", news.make),
    "jobs": ("job", jobs.make),
    "recipes": ("recipe", recipes.make),
    "events": ("event", events.make),
    "people": ("profile", people.make),
    "forum": ("forum_thread", forum.make),
    "cards": ("listing", cards.make),
}
SITES = tuple(_MAKERS)
REDESIGNED = ("shop", "news", "jobs")


def make_site(name: str, seed: int = 1, *, redesign: bool = False) -> Site:
    """The same for the same seed; `redesign` only for REDESIGNED."""
    if redesign and name not in REDESIGNED:
        raise ValueError(f"{name} has no second design")
    page_type, make = _MAKERS[name]
    pages = list(make(Random(f"{name} {seed}"), redesign))
    Random(seed).shuffle(pages)
    return Site(name, page_type, tuple(pages))


def make_shop(products: int, seed: int = 1) -> Site:
    """The shop of `make_site` with so many products, and twice as many pages, and a few."""
    pages = shop.make(Random(f"shop {seed}"), redesign=False, count=products)
    Random(seed).shuffle(pages)
    return Site("shop", "product", tuple(pages))
