"""A shop with speaking classes and a specification table. Cards of other products repeat the classes of the main
one."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, form_page, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 45
SECTIONS = ("Kitchen", "Garden", "Office")
FRAME = Frame("Harbour & Mill", SECTIONS, "semantic")


@dataclass(frozen=True)
class Product:
    path: str
    fields: dict[str, Any]


def make(rng: Random, redesign: bool, count: int = COUNT) -> list[SitePage]:
    products = [_product(rng, title, number) for number, title in enumerate(words.titles(rng, count), 101)]
    render = _second if redesign else _first
    pages = other_pages(FRAME, rng, SECTIONS, "/products")
    pages += list_pages(FRAME, "/products", [(one.path, one.fields["title"]) for one in products])
    for one in products:
        others = rng.sample([other for other in products if other is not one], 4)
        pages.append(SitePage(one.path, render(one, others), "product", one.fields))
        review = form_page(FRAME, one.fields["title"], ["Name", "Stars", "Review"], heading="Write a review")
        pages.append(SitePage(f"{one.path}/reviews/add", review, "review_form"))
    return pages


def _money(cents: int) -> Shown:
    return Shown(f"£{cents / 100:,.2f}", cents / 100)


def _product(rng: Random, title: str, number: int) -> Product:
    available = words.maybe(rng, 0.8)
    cents = rng.randint(300, 180_000)
    section = rng.choice(SECTIONS)
    left = rng.randint(2, 40)
    reviews = [
        {
            "author": words.person(rng),
            "date": Shown(f"{day.day} {words.MONTHS[day.month - 1]} {day.year}", day.isoformat()),
            "text": words.paragraph(rng, 2),
        }
        for day in (words.day(rng) for _ in range(rng.choice([0, 1, 2, 3, 5])))
    ]
    fields = {
        "title": title,
        "price": _money(cents) if available else None,
        "old_price": _money(cents + rng.randint(100, 900)) if available and words.maybe(rng, 0.3) else None,
        "availability": f"In stock ({left} available)" if available else "Unavailable",
        "stock": Shown(str(left), left) if available else None,
        "sku": f"HM-{rng.randint(10_000, 99_999)}",
        "brand": rng.choice(words.BRANDS),
        "weight": f"{rng.randint(1, 90) / 10} kg" if words.maybe(rng, 0.7) else None,
        "colour": rng.choice(["oak", "slate", "ivory", "rust"]) if words.maybe(rng, 0.6) else None,
        "images": [f"/media/{number}/{place}.jpg" for place in range(1, rng.randint(2, 5))],
        "breadcrumb": ["Home", section],
        "description": Shown.paragraphs(words.paragraphs(rng, rng.randint(1, 3))) if words.maybe(rng, 0.85) else None,
        "reviews": reviews or None,
    }
    return Product(f"/product/{words.slug(title)}-{number}", fields)


def _first(one: Product, others: list[Product]) -> str:
    f = one.fields
    return FRAME.page(
        f["title"],
        '<nav class="breadcrumbs"><ol>'
        + "".join(f'<li><a href="/c/{name.lower()}">{name}</a></li>' for name in f["breadcrumb"])
        + f'<li class="active">{escape(f["title"])}</li></ol></nav>\n'
        + '<article class="product-page"><div class="gallery">'
        + "".join(f'<a href="{src}"><img src="{src}" alt=""></a>' for src in f["images"])
        + f'</div><div class="product-main">\n<h1 class="product-title">{escape(f["title"])}</h1>'
        + _price(f)
        + f'<p class="availability {"in" if f["price"] else "out"}">\n  '
        + f'<i class="icon"></i>\n  {f["availability"]}\n</p>'
        + ('<form class="buy" method="post"><button>Add to basket</button></form>' if f["price"] else "")
        + f'<a href="{one.path}/reviews/add">Write a review</a></div>\n'
        + (
            f'<h2>Product description</h2><div class="description">{_text(f["description"])}</div>'
            if f["description"]
            else ""
        )
        + '<h2>Product information</h2>\n<table class="table specification">'
        + "".join(f"<tr><th>{label}</th><td>{escape(value)}</td></tr>\n" for label, value in _facts(f))
        + '</table><h2>Customer reviews</h2><div id="reviews">'
        + "".join(
            f'<article class="review"><h3>{escape(review["author"])}</h3><span class="when">{review["date"]}</span>'
            f"<p>{escape(review['text'])}</p></article>"
            for review in f["reviews"] or []
        )
        + ("" if f["reviews"] else "<p>There are no reviews yet.</p>")
        + '</div></article>\n<section class="recent"><h2>Recently viewed</h2>'
        + "".join(
            f'<article class="product-card"><a href="{other.path}"><img src="{other.fields["images"][0]}"></a>'
            f'<h3 class="product-title"><a href="{other.path}">{escape(other.fields["title"])}</a></h3>'
            f'{_price(other.fields)}<p class="availability">{other.fields["availability"]}</p></article>'
            for other in others
        )
        + "</section>",
        head=f'<meta property="og:title" content="{escape(f["title"])}">',
    )


def _price(f: dict[str, Any]) -> str:
    if f["price"] is None:
        return ""
    old = f"<del>{f['old_price']}</del> " if f["old_price"] else ""
    return f'<div class="price-box">{old}<span class="price">{f["price"]}</span></div>'


def _facts(f: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("SKU", f["sku"]), ("Brand", f["brand"]), ("Weight", f["weight"]), ("Colour", f["colour"])]
    return [("Product type", "Home goods"), *((label, value) for label, value in facts if value)]


def _text(text: Shown) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.parts)


def _second(one: Product, others: list[Product]) -> str:
    """Other classes, other labels, other order; the specification is a definition list, cards come first."""
    f = one.fields
    facts = [(label.replace("SKU", "Article number").replace("Brand", "Made by"), value) for label, value in _facts(f)]
    old = f'<s class="was">{f["old_price"]}</s>' if f["old_price"] else ""
    price = f'<div class="pdp__cost">{old}<b class="now">{f["price"]}</b></div>' if f["price"] else ""
    return FRAME.page(
        f["title"],
        '<div class="rail"><h4>You may also like</h4>'
        + "".join(
            f'<a class="tile" href="{other.path}"><b class="tile__name">{escape(other.fields["title"])}</b>'
            f'<b class="now">{other.fields["price"] or ""}</b></a>'
            for other in others
        )
        + '</div><div class="pdp"><div class="pdp__path">'
        + " / ".join(f'<a href="/c/{name.lower()}">{name}</a>' for name in f["breadcrumb"])
        + f'</div><div class="pdp__info"><h1 class="pdp__name">{escape(f["title"])}</h1>'
        + '<dl class="facts">'
        + "".join(f"<dt>{label}:</dt><dd>{escape(value)}</dd>" for label, value in reversed(facts))
        + "</dl>"
        + f'{price}<div class="pdp__stock">{f["availability"]}</div></div>'
        + "".join(f'<figure class="shot"><img src="{src}" alt="View"></figure>' for src in f["images"])
        + (f'<div class="pdp__story">{_text(f["description"])}</div>' if f["description"] else "")
        + '<ul class="voices">'
        + "".join(
            f"<li><blockquote>{escape(review['text'])}</blockquote><cite>{escape(review['author'])}</cite>, "
            f"<time>{review['date']}</time></li>"
            for review in f["reviews"] or []
        )
        + f'</ul><a href="{one.path}/reviews/add">Tell us what you think</a></div>',
    )
