"""A shop of a JavaScript framework: hashed classes that differ per build (two builds are live), data-testid on some
elements, JSON-LD that knows more than the page shows."""

from __future__ import annotations

import json
from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 40
SECTIONS = ("Women", "Men", "Sale")
FRAME = Frame("NORDLYS", SECTIONS, "divs")
COLOURS = ("Ink", "Sand", "Moss", "Brick", "Chalk", "Plum")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    builds = [_Build(rng), _Build(rng)]
    items = [_fields(rng, title) for title in words.titles(rng, COUNT)]
    paths = [f"/p/{words.slug(item['name'])}/{rng.randint(10**6, 10**7)}" for item in items]
    pages = other_pages(FRAME, rng, SECTIONS, "/shop")
    pages += list_pages(FRAME, "/shop", [(path, item["name"]) for path, item in zip(paths, items, strict=True)])
    for path, item in zip(paths, items, strict=True):
        build = builds[words.maybe(rng, 0.3)]
        others = rng.sample([other for other in items if other is not item], 3)
        pages.append(SitePage(path, _render(item, others, build), "product", item))
    return pages


class _Build:
    """Classes as a build tool makes them: one of its own for each part, new with each build."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names: dict[str, str] = {}

    def __getitem__(self, part: str) -> str:
        if part not in self._names:
            letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
            hashed = "".join(self._rng.choices(letters, k=6))
            self._names[part] = self._rng.choice([f"css-{hashed.lower()}", f"sc-{hashed}", f"_{hashed}_1"])
        return self._names[part]


def _fields(rng: Random, name: str) -> dict[str, Any]:
    price = rng.randint(19, 399)
    rated = words.maybe(rng, 0.7)
    return {
        "name": name,
        "price": Shown(f"{price}.00", float(price)),
        "currency": "EUR",
        "sku": f"{rng.randint(10**7, 10**8)}-{rng.randint(1, 9)}",
        "brand": rng.choice(words.BRANDS),
        "in_stock": rng.choice(["In stock", "In stock", "Sold out", "Low stock"]),
        "colours": rng.sample(COLOURS, rng.randint(1, 4)),
        "material": f"{rng.choice(['Wool', 'Linen', 'Cotton'])} {rng.randint(60, 99)}%"
        if words.maybe(rng, 0.8)
        else None,
        "care": rng.choice(["Wash cold", "Dry clean", "Hand wash"]) if words.maybe(rng, 0.5) else None,
        "rating": Shown(str(mark := rng.randint(20, 50) / 10), mark) if rated else None,
        "review_count": Shown(str(count := rng.randint(11, 900)), count) if rated else None,
        "description": words.paragraph(rng, 4),
        "image": f"https://cdn.nordlys.example/{rng.randint(1000, 9999)}.webp",
    }


def _euros(f: dict[str, Any]) -> str:
    return f"{f['price']} €".replace(".", ",")


def _render(f: dict[str, Any], others: list[dict[str, Any]], c: _Build) -> str:
    data: dict[str, Any] = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": f["name"],
        "sku": f["sku"],
        "image": [f["image"]],
        "brand": {"@type": "Brand", "name": f["brand"]},
        "offers": {"@type": "Offer", "price": str(f["price"]), "priceCurrency": f["currency"]},
    }
    if f["rating"]:
        data["aggregateRating"] = {
            "@type": "AggregateRating",
            "ratingValue": f["rating"],
            "reviewCount": f["review_count"],
        }
    crumbs = {"@context": "https://schema.org", "@type": "BreadcrumbList", "itemListElement": []}
    head = "".join(f'<script type="application/ld+json">{json.dumps(one)}</script>' for one in (crumbs, data))
    facts = [("Material", f["material"]), ("Care", f["care"])]
    main = (
        f'<div class="{c["root"]}"><div class="{c["grid"]}"><div class="{c["col"]}">'
        f'<img class="{c["img"]}" src="{f["image"]}" alt="{escape(f["name"])}"></div><div class="{c["col"]}">'
        f'<span class="{c["brand"]}">{escape(f["brand"])}</span>'
        f'<h1 class="{c["h1"]}" data-testid="product-name">{escape(f["name"])}</h1>'
        + (
            f'<div class="{c["stars"]}"><span>{f["rating"]}</span> <a href="#reviews">({f["review_count"]})</a></div>'
            if f["rating"]
            else ""
        )
        + f'<div class="{c["cost"]}"><span data-testid="price" class="{c["amount"]}">{_euros(f)}</span></div>'
        + f'<div class="{c["swatches"]}">'
        + "".join(f'<button class="{c["swatch"]}" data-testid="colour">{colour}</button>' for colour in f["colours"])
        + f'</div><p class="{c["stock"]}"><svg width="8"><circle r="4"/></svg>{f["in_stock"]}</p>'
        + f'<div class="{c["text"]}">{escape(f["description"])}</div>'
        + "".join(
            f'<div class="{c["row"]}"><div class="{c["key"]}">{label}</div><div class="{c["val"]}">{value}</div></div>'
            for label, value in facts
            if value
        )
        + f'</div></div></div><div class="{c["rail"]}"><h2>Goes well with</h2>'
        + "".join(
            f'<div class="{c["card"]}"><span class="{c["brand"]}">{escape(other["brand"])}</span>'
            f'<span>{escape(other["name"])}</span><span class="{c["amount"]}">{_euros(other)}</span></div>'
            for other in others
        )
        + "</div>"
    )
    return FRAME.page(f["name"], main, head=head)
