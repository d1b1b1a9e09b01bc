"""Listing pages of cards: title, url, price and, on some, an old price and a badge."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 30
FRAME = Frame("Second Shelf", (), "semantic")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    pages = other_pages(FRAME, rng, (), "/shelf/1")
    for number in range(1, COUNT + 1):
        fields = _fields(rng)
        pages.append(SitePage(f"/shelf/{number}", _render(number, fields, rng), "listing", fields))
    return pages


def _fields(rng: Random) -> dict[str, Any]:
    cards = []
    for title in words.titles(rng, rng.randint(3, 9)):
        cents = rng.randint(150, 6_000)
        card = {
            "title": title,
            "url": f"/item/{rng.randint(10_000, 99_999)}/{words.slug(title)}",
            "price": Shown(f"€{cents / 100:.2f}", cents / 100),
        }
        if words.maybe(rng, 0.3):
            card["old_price"] = Shown(f"€{(cents + 500) / 100:.2f}", (cents + 500) / 100)
        cards.append(card)
    return {"heading": f"{rng.choice(words.ADJECTIVES).title()} things from {rng.choice(words.CITIES)}", "cards": cards}


def _render(number: int, f: dict[str, Any], rng: Random) -> str:
    cards = []
    for card in f["cards"]:
        badge = '<span class="badge">New</span>' if words.maybe(rng, 0.2) else ""
        old = f'<span class="old">{card["old_price"]}</span> ' if "old_price" in card else ""
        cards.append(
            f'<div class="col"><div class="card">{badge}'
            f'<a class="thumb" href="{card["url"]}"><img src="/t/{rng.randint(1, 999)}.png" alt=""></a>'
            f'<h3><a href="{card["url"]}">{escape(card["title"])}</a></h3>'
            f'<div class="cost">{old}<b>{card["price"]}</b></div></div></div>'
        )
    more = f'<a rel="next" href="/shelf/{number + 1}">Next</a>' if number < COUNT else ""
    main = (
        f'<h1>{f["heading"]}</h1><p>{len(f["cards"])} results</p><div class="grid">{"".join(cards)}</div>{more}'
        '<div class="card newsletter"><h3>Write to me</h3><p>Once a month, no more.</p></div>'
    )
    return FRAME.page(f["heading"], main)
