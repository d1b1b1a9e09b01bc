"""A shop, and pages that attack who reads them: each is a row of PAGES or TWINS, and one row more is one attack more.

PAGES: name -> what a GET of /hostile/NAME (and of all below it) answers. TWINS: name -> a product page of the shop made
hostile, under /product/, so that it comes into the template that the shop's products have taught. /hostile/ links to
all. ROBOTS: name -> a robots.txt; each needs a host of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import count
from typing import Any

from tests.servers.hostile_pages import PAGES, Respond, document
from tests.servers.hostile_robots import ROBOTS, sitemap_of
from tests.servers.hostile_server import Answer, HostileServer, Visit
from tests.servers.record_sites import SitePage, make_site
from tests.servers.record_sites.frame import list_pages
from tests.servers.record_sites.shop import FRAME

HONEST, HOSTILE = "127.0.0.2", "127.0.0.3"
HOSTILE_HOME = "/hostile/"

# -- products of the shop, made hostile: html -> html ------------------------------------------------------------------

_SPECIFICATION = '<table class="table specification">'


def _in_specification(rows: str) -> Callable[[str], str]:
    return lambda html: html.replace(_SPECIFICATION, _SPECIFICATION + rows)


def _many(old: str, number: int) -> Callable[[str], str]:
    """A part of the page over and over."""
    return lambda html: re.sub(old, lambda found: found[0] * number, html, count=1, flags=re.DOTALL)


TWINS: Mapping[str, Callable[[str], str]] = {
    "th-flood": _in_specification("<tr>" + "<th>SKU</th>" * 40_000 + "</tr>"),
    "th-rows": _in_specification("<tr><th>SKU</th></tr>" * 40_000),
    "spec-rows": _in_specification("".join(f"<tr><th>Row {n}</th><td>{n}</td></tr>" for n in range(60_000))),
    "spec-same": _in_specification("<tr><th>Brand</th><td>Same</td></tr>" * 30_000),
    "spec-cells": _in_specification("<tr><th>SKU</th>" + "<td>x</td>" * 60_000 + "</tr>"),
    "spec-deep": _in_specification("<tr><td>" + "<div>" * 30_000 + "</td></tr>"),
    "spec-tables": lambda html: html.replace(
        _SPECIFICATION, (_SPECIFICATION + "<tr><th>SKU</th></tr></table>") * 20_000
    ),
    "spec-label": _in_specification(f"<tr><th>{'SKU ' * 300_000}</th><td>x</td></tr>"),
    "prices": _many(r'<span class="price">.*?</span>', 40_000),
    "titles": _many(r'<h1 class="product-title">.*?</h1>', 20_000),
    "availability": _many(r'<p class="availability.*?</p>', 30_000),
    "images": _many(r'<a href="/media/[^>]*><img[^>]*></a>', 30_000),
    "breadcrumbs": _many(r'<li><a href="/c/.*?</li>', 30_000),
    "price-long": lambda html: html.replace('class="price">', f'class="price">{"1," * 500_000}'),
    "description": lambda html: html.replace(
        '<div class="description">', '<div class="description">' + "<p>a " * 100_000
    ),
    "reviews": lambda html: html.replace(
        '<div id="reviews">', '<div id="reviews">' + '<article class="review"><h3>A</h3><p>b</p></article>' * 20_000
    ),
    "tail": lambda html: html.replace("</main>", "<p>tail</p>" * 100_000 + "</main>"),
}


# -- the site ----------------------------------------------------------------------------------------------------------


class HonestShop:
    """A shop of so many products, whose truth is known. With `has_forms` each has a form to review it: 93 products
    are 200 pages then.
    """

    def __init__(self, products: int, *, has_forms: bool = True) -> None:
        self.products = _products(products)
        rest = [one for one in make_site("shop").pages if one.page_type in ("homepage", "login", "legal")]
        rest += [one for one in make_site("shop").pages if one.path.startswith("/c/")]
        rest += list_pages(FRAME, "/products", [(one.path, one.fields["title"]) for one in self.products])
        if has_forms:
            rest += _forms({one.path for one in self.products})
        else:
            self.products = [_without_form(one) for one in self.products]
        self.pages = {one.path: one for one in (*rest, *self.products)}
        self.truth = {path: {"page_type": one.page_type, "fields": one.fields} for path, one in self.pages.items()}


def _seeds() -> Iterator[SitePage]:
    for seed in count(1):
        yield from make_site("shop", seed).pages


@cache
def _products(number: int) -> list[SitePage]:
    found: dict[str, SitePage] = {}
    for one in _seeds():
        if one.page_type == "product":
            found.setdefault(one.path, one)
        if len(found) == number:
            break

    def card(match: re.Match[str]) -> str:
        return match[0] if match[1] in found else ""

    cards = re.compile(r'<article class="product-card"><a href="([^"]+)".*?</article>', re.DOTALL)
    return [SitePage(one.path, cards.sub(card, one.html), "product", one.fields) for one in found.values()]


def _forms(products: set[str]) -> list[SitePage]:
    wanted, found = {f"{path}/reviews/add" for path in products}, []
    for one in _seeds():
        if one.path in wanted:
            wanted.remove(one.path)
            found.append(one)
        if not wanted:
            break
    return found


def _without_form(one: SitePage) -> SitePage:
    html = one.html.replace(f'<a href="{one.path}/reviews/add">Write a review</a>', "")
    return SitePage(one.path, html, "product", one.fields)


class HostileSite(HostileServer):
    """The shop alone on HONEST; the shop with all that is hostile on HOSTILE. `robots`: rows of ROBOTS, each on a host
    of its own, with one page. A name of `pages` and `twins` may be left out.
    """

    def __init__(
        self,
        shop: HonestShop,
        *,
        pages: Mapping[str, Respond] = PAGES,
        twins: Mapping[str, Callable[[str], str]] = TWINS,
        robots: Mapping[str, Respond] = ROBOTS,
        has_sitemaps: bool = True,
        latency_seconds: float = 0.0,
    ) -> None:
        self.shop = shop
        self._pages = pages
        self._has_sitemaps = has_sitemaps
        self._robots = {f"127.0.0.{10 + place}": row for place, row in enumerate(robots.values())}
        self._twins = {
            f"/product/{name}-{9000 + place}": (row, shop.products[place % len(shop.products)])
            for place, (name, row) in enumerate(twins.items())
        }
        super().__init__(self._respond, (HONEST, HOSTILE, *self._robots), latency_seconds=latency_seconds)

    def url(self, path: str = "/", host: str = HONEST) -> str:
        return self.origin(host) + path

    @property
    def robots_urls(self) -> list[str]:
        return [self.url("/", host) for host in self._robots]

    @property
    def hostile_paths(self) -> list[str]:
        return [HOSTILE_HOME, *(f"{HOSTILE_HOME}{name}" for name in self._pages), *self._twins]

    @property
    def truth(self) -> dict[str, Any]:
        twins = {path: {"page_type": "product", "fields": one.fields} for path, (_, one) in self._twins.items()}
        return {**self.shop.truth, **twins}

    def _respond(self, visit: Visit) -> Answer:
        if visit.host in self._robots:
            return self._robots[visit.host](visit) if visit.path == "/robots.txt" else Answer(document("").encode())
        if visit.target in self.shop.pages:
            return Answer(self.shop.pages[visit.target].html.encode())
        if visit.host == HOSTILE:
            if visit.path == HOSTILE_HOME:
                links = "".join(f'<li><a href="{path}">{path}</a></li>' for path in self.hostile_paths)
                return Answer(document(f"<ul>{links}</ul>").encode())
            if visit.path in self._twins:
                row, one = self._twins[visit.path]
                return Answer(row(one.html).encode())
            name = visit.path.removeprefix(HOSTILE_HOME).partition("/")[0]
            if visit.path.startswith(HOSTILE_HOME) and name in self._pages:
                return self._pages[name](visit)
            beside = sitemap_of(visit.path) if self._has_sitemaps else None
            if beside is not None:
                return beside(visit)
        return Answer(document("<p>There is no such page.</p>").encode(), status="404 Not Found")
