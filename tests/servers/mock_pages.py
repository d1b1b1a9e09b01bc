"""The pages of the mock site: a small shop with a magazine, made from word lists of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator

CATEGORIES = ("lamps", "chairs", "clocks")
PRODUCT_COUNT = 30
ARTICLE_COUNT = 8
PAGE_SIZE = 5
_THINGS = ("Lamp", "Chair", "Clock")
_MAKERS = ("Anders", "Brigitte", "Carlo", "Dilek", "Emeka")
_STYLES = ("oak", "steel", "linen", "glass", "cork", "brass")
_SENTENCES = (
    "It was made in a small workshop near the harbour, by people who like their work.",
    "The surface is treated with oil twice, so that it lasts for many winters.",
    "We deliver it within a week, in a box that you can send back to us.",
    "Every part can be replaced with nothing more than a screwdriver.",
    "Its shape goes back to a drawing that was found in an attic.",
    "Those who own one tell us that the whole room became quieter.",
)


def paragraphs(count: int, seed: int) -> str:
    """Make text that differs from page to page and is the same on every run."""
    return "".join(
        f"<p>{' '.join(_SENTENCES[(seed * 7 + row * 3 + place) % 6] for place in range(3))} Note {seed}.{row}.</p>"
        for row in range(count)
    )


def layout(title: str, main: str, *, head: str = "", lang: str = "en") -> str:
    menu = "".join(f'<li><a href="/category/{name}/">{name.title()}</a></li>' for name in CATEGORIES)
    return (
        f'<!DOCTYPE html><html lang="{lang}"><head><meta charset="utf-8"><title>{title} - Mock Shop</title>'
        f"{head}</head>"
        f'<body><header class="top"><a class="logo" href="/">Mock Shop</a><nav><ul class="menu">{menu}'
        '<li><a href="/blog/">Magazine</a></li><li><a href="/about/">About us</a></li>'
        '<li><a href="/login/">Sign in</a></li></ul></nav></header>'
        f'<main id="content">{main}</main>'
        '<footer class="bottom"><p>Mock Shop sells things that do not exist.</p><a href="/terms/">Terms</a></footer>'
        "</body></html>"
    )


def product_name(number: int) -> str:
    return f"{_MAKERS[number % 5]} {_STYLES[number % 6]} {_THINGS[number % 3]} {number}"


def product_path(number: int) -> str:
    return f"/product/{product_name(number).lower().replace(' ', '-').rpartition('-')[0]}_{number}/"


def article_path(number: int) -> str:
    return f"/blog/2024/0{number % 9 + 1}/how-we-care-for-{_STYLES[number % 6]}-things-{number}/"


def home() -> str:
    teasers = "".join(_teaser(number) for number in range(1, 7))
    news = "".join(f'<li><a href="{article_path(n)}">How we care, part {n}</a></li>' for n in range(1, 4))
    return layout("Home", f'<h1>Welcome</h1><section class="teasers">{teasers}</section><ul class="news">{news}</ul>')


def _teaser(number: int) -> str:
    return (
        f'<article class="teaser"><h3><a href="{product_path(number)}">{product_name(number)}</a></h3>'
        f'<p class="price">£{number * 3}.50</p></article>'
    )


def category(name: str, page: int) -> str | None:
    place = CATEGORIES.index(name)
    numbers = [number for number in range(1, PRODUCT_COUNT + 1) if number % 3 == place]
    shown = numbers[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    if not shown or page < 1:
        return None
    more = f'<a class="next" href="/category/{name}/?page={page + 1}">next</a>' if numbers[-1] != shown[-1] else ""
    return layout(name.title(), f'<h1>{name.title()}</h1><div class="list">{"".join(map(_teaser, shown))}</div>{more}')


def product(number: int) -> str:
    data = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": product_name(number),
        "sku": f"M-{number:04}",
        "offers": {"@type": "Offer", "price": f"{number * 3}.50", "priceCurrency": "GBP"},
    }
    # Lamps have structured data, chairs and clocks have none: both ways of learning a record are exercised.
    head = f'<script type="application/ld+json">{json.dumps(data)}</script>' if number % 3 == 0 else ""
    main = (
        f'<div class="product"><h1>{product_name(number)}</h1><p class="price">£{number * 3}.50</p>'
        f'<table class="facts"><tr><th>Number</th><td>M-{number:04}</td></tr><tr><th>Stock</th><td>{number % 4}</td>'
        f'</tr></table><div class="description">{paragraphs(2, number)}</div>'
        '<form action="/basket/" method="post"><button>Add to basket</button></form></div>'
    )
    return layout(product_name(number), main, head=head)


def blog() -> str:
    entries = "".join(
        f'<li><a href="{article_path(n)}">How we care for things, part {n}</a></li>'
        for n in range(1, ARTICLE_COUNT + 1)
    )
    return layout("Magazine", f'<h1>Magazine</h1><ul class="posts">{entries}</ul>')


def article(number: int) -> str:
    title = f"How we care for things, part {number}"
    data = {"@context": "https://schema.org", "@type": "BlogPosting", "headline": title, "datePublished": "2024-05-01"}
    head = (
        f'<script type="application/ld+json">{json.dumps(data)}</script>'
        f'<meta property="og:type" content="article"><meta name="author" content="{_MAKERS[number % 5]}">'
    )
    body = f"<article><h1>{title}</h1><p>By {_MAKERS[number % 5]}</p>{paragraphs(8, number)}</article>"
    return layout(title, body, head=head)


def login() -> str:
    form = (
        '<h1>Sign in</h1><form method="post"><input name="user"><input name="password" type="password">'
        "<button>Sign in</button></form>"
    )
    return layout("Sign in", form)


def plain(title: str, seed: int, extra: str = "") -> str:
    return layout(title, f"<h1>{title}</h1>{paragraphs(4, seed)}{extra}")


def links(title: str, addresses: list[str]) -> str:
    items = "".join(f'<li><a href="{address}">{address}</a></li>' for address in addresses)
    return layout(title, f"<h1>{title}</h1><ul>{items}</ul>")


def large(number: int, body_bytes: int) -> str:
    """A page of about `body_bytes`, to fill buffers with."""
    rows = body_bytes // len(paragraphs(1, 1000 + number))
    return layout(f"Large {number}", f"<h1>Large {number}</h1>{paragraphs(rows, 1000 + number)}")


def shop_pages() -> Iterator[tuple[str, str]]:
    """Every page of the shop that links lead to, as (path, html)."""
    yield "/", home()
    yield "/blog/", blog()
    yield "/about/", plain("About us", 1)
    yield "/terms/", plain("Terms", 2)
    yield "/login/", login()
    for number in range(1, PRODUCT_COUNT + 1):
        yield product_path(number), product(number)
    for number in range(1, ARTICLE_COUNT + 1):
        yield article_path(number), article(number)
    for name in CATEGORIES:
        for page in range(1, PRODUCT_COUNT):
            html = category(name, page)
            if html is None:
                break
            yield f"/category/{name}/" + (f"?page={page}" if page > 1 else ""), html
