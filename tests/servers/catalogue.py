"""A shop with more around its products than products: each has a form and reviews, and there is a blog with tags.

pages = Catalogue(); with MockSite(pages.routes()).in_thread() as site: ...
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random

from tests.servers.many_pages import ManyPages

_CATEGORIES = ("lamps", "chairs", "tables", "shelves")
_OF_A_LIST = 8


class Catalogue(ManyPages):
    """Requests are noted as in ManyPages. `with_data`: the products carry JSON-LD."""

    def __init__(
        self, products: int = 96, posts: int = 150, *, latency_seconds: float = 0.0, with_data: bool = False
    ) -> None:
        super().__init__(1, latency_seconds=latency_seconds)
        self.with_data = with_data
        self.products = [f"/goods/{_CATEGORIES[n % 4]}-no-{n}" for n in range(products)]
        blog = [f"/blog/post-about-{n}/" for n in range(posts)]
        tags = [f"/blog/tags/tag{n}/" for n in range(posts // 5)]
        self.bodies = {"/": _page("Welcome", [("Blog", "/blog/"), *((c.title(), f"/{c}/") for c in _CATEGORIES)])}
        for at, category in enumerate(_CATEGORIES):
            self._lists(f"/{category}/", self.products[at::4], "card")
        self._lists("/blog/", blog, "post")
        for number, product in enumerate(self.products):
            self.bodies[product] = _product(number, product, data=with_data)
            self.bodies[f"{product}/ask"] = _page(
                f"Ask about {number}", [], '<form><textarea name="q"></textarea></form>'
            )
            self.bodies[f"{product}/reviews"] = _page(f"Reviews of {number}", [("back", product)])
        for at, path in enumerate([*blog, *tags]):
            some = Random(at).sample([*blog, *tags], 6)
            self.bodies[path] = _page(f"Thoughts {at}", [(f"Thoughts on {other}", other) for other in some])

    def early(self, fetches: int) -> int:
        """How many products were among the first pages asked for."""
        return len(set(self.requested[:fetches]) & set(self.products))

    def _lists(self, first: str, paths: list[str], name: str) -> None:
        for start in range(0, len(paths), _OF_A_LIST):
            number = start // _OF_A_LIST + 1
            path = first if number == 1 else f"{first}?page={number}"
            cards = "".join(_card(path, name) for path in paths[start : start + _OF_A_LIST])
            following = [("next", f"{first}?page={number + 1}")] if start + _OF_A_LIST < len(paths) else []
            self.bodies[path] = _page(f"{first} {number}", following, f"<div>{cards}</div>")


def _card(path: str, name: str) -> str:
    return f'<div class="{name}"><h3><a href="{path}">{path.strip("/")}</a></h3></div>'


def _product(number: int, path: str, *, data: bool) -> str:
    facts = {"@context": "https://schema.org", "@type": "Product", "name": f"Thing {number}", "sku": f"N-{number}"}
    price = {"offers": {"@type": "Offer", "price": f"{number}.50", "priceCurrency": "EUR"}}
    script = f'<script type="application/ld+json">{json.dumps({**facts, **price})}</script>' if data else ""
    main = f'{script}<p class="price">€{number}.50</p><p class="sku">N-{number}</p><p>Add to cart</p>'
    return _page(f"Thing {number}", [("Ask", f"{path}/ask"), ("Reviews", f"{path}/reviews")], main)


def _page(title: str, links: Iterable[tuple[str, str]], main: str = "") -> str:
    menu = [("Blog", "/blog/"), ("Home", "/")]
    shown = "".join(f'<li><a href="{path}">{text}</a></li>' for text, path in links)
    around = "".join(f'<li><a href="{path}">{text}</a></li>' for text, path in menu)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f'<main><h1>{title}</h1>{main}<ul class="links">{shown}</ul></main>'
        f'<footer><ul class="menu">{around}</ul></footer></body></html>'
    )
