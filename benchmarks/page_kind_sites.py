"""Builds products and categories of small shops, of which WCXB has few, for the model of page kinds.

Each family of sites has the class names and the addresses of one sort of software; each site draws its own names, parts
and wording. Pages of a family are held out together, so that a figure on them says how a model does on software that it
has not seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

SITES_OF_A_FAMILY: Final = 5
HELD_OUT: Final = "python"  # a test judges this family's pages, so the model must never have seen any
_ROLES: Final = "wrap nav crumbs grid item name price button side foot form field main related tabs meta".split()
_FILE: Final = json.loads(Path(__file__).with_name("page_kind_words.json").read_text(encoding="utf-8"))
_WORDS: Final[dict[str, list[str]]] = {name: text.split("|") for name, text in _FILE.items() if isinstance(text, str)}


@dataclass(frozen=True, slots=True)
class BuiltPage:
    """A page whose kind is known."""

    site: str
    family: str
    url: str
    kind: str
    html: str


class SiteBuilder:
    """Builds the pages of one site; all that differs between sites is drawn from `random`."""

    def __init__(self, family: str, number: int) -> None:
        self.family = family
        self.random = Random(f"{family} {number}")
        self.own = _FILE["families"][family]
        self.classes = dict(zip(_ROLES, self.own["classes"].split("|"), strict=True))
        self.trade = self.random.choice(sorted(_FILE["trades"]))
        self.nouns = _FILE["trades"][self.trade].split("|")
        self.name = f"{self.any('names')} {self.trade.title()}"
        self.host = f"{self.random.choice(['www.', '', 'shop.'])}{self.name.lower().replace(' ', '-')}.example"
        self.currency = self.random.choice("$€£")
        self.shelves = self.random.sample(_WORDS["shelves"], self.random.randint(4, 9))
        self.has = {part: self.random.random() < share for part, share in _FILE["parts"].items()}
        self.main_tag = self.random.choice(["main", "div", "section"])
        self.heading = self.random.choice(["h2", "h3", "h4"])

    def any(self, group: str) -> str:
        return str(self.random.choice(_WORDS[group]))

    def some(self, group: str, least: int, most: int) -> list[str]:
        return self.random.sample(_WORDS[group], self.random.randint(least, most))

    def sentence(self) -> str:
        text = self.any("sentences")
        for slot in ("adjective", "material", "place", "person", "verb"):
            while f"<{slot}>" in text:
                text = text.replace(f"<{slot}>", self.any(f"{slot}s"), 1)
        return text.replace("<thing>", self.random.choice(self.nouns))

    def text(self, least: int, most: int) -> str:
        return " ".join(self.sentence() for _ in range(self.random.randint(least, most)))

    def texts(self, least: int, most: int) -> str:
        return "".join(f"<p>{self.text(2, 5)}</p>" for _ in range(self.random.randint(least, most)))

    def tag(self, role: str, inner: str, tag: str = "div") -> str:
        name = self.classes[role]
        return f'<{tag} class="{name}">{inner}</{tag}>' if name else f"<{tag}>{inner}</{tag}>"

    def thing(self) -> str:
        return f"{self.any('adjectives')} {self.any('materials')} {self.random.choice(self.nouns)}".title()

    def path(self, kind: str, name: str) -> str:
        slug, number = name.lower().replace(" ", "-"), self.random.randint(2, 9999)
        shelf = self.random.choice(self.shelves).lower().replace(" ", "-")
        return str(self.random.choice(self.own[kind].split())).format(slug=slug, number=number, shelf=shelf)

    def amount(self) -> str:
        price = f"{self.random.randint(3, 400)}.{self.random.choice(['00', '50', '95', '99'])}"
        return f"{price} {self.currency}" if self.has["currency behind"] else f"{self.currency}{price}"

    def card(self) -> str:
        name = self.thing()
        link = f'<a href="{self.path("product", name)}">{name}</a>'
        parts = [f"<img src=/i/{self.random.randint(1, 999)}.jpg alt=''>", self.tag("name", link, self.heading)]
        parts.append(self.tag("price", self.amount()))
        if self.has["card button"]:
            parts.append(self.tag("button", self.any("cart"), "button"))
        if self.has["card text"]:
            parts.append(f"<p>{self.sentence()}</p>")
        return self.tag("item", "".join(parts), "li" if self.has["lists"] else "div")

    def cards(self, count: int) -> str:
        return self.tag("grid", "".join(self.card() for _ in range(count)), "ul" if self.has["lists"] else "div")

    def strip(self) -> str:
        title = f"<{self.heading}>{self.any('strips')}</{self.heading}>"
        return self.tag("related", title + self.cards(self.random.randint(3, 10)))

    def cart_form(self) -> str:
        start = f'<form method=post action="/cart/add" class="{self.classes["form"]}">'
        quantity = self.tag("field", "<label>Quantity</label><input type=text name=quantity>")
        return f"{start}{quantity}{self.tag('button', self.any('cart'), 'button')}</form>"

    def product(self) -> tuple[str, str]:
        name = self.thing()
        pairs = [(self.any("specification keys"), self.any("materials")) for _ in range(self.random.randint(2, 8))]
        table = "".join(f"<tr><th>{key}</th><td>{value}</td></tr>" for key, value in pairs)
        parts = [
            f"<h1>{name}</h1>", self.tag("price", self.amount()), self.any("stock"),
            self.cart_form() if self.has["cart form"] else "",
            self.tag("tabs", f"<{self.heading}>{self.any('descriptions')}</{self.heading}>{self.texts(1, 3)}"),
            f"<table>{table}</table>" if self.has["table"] else "",
        ]  # fmt: skip
        if self.has["reviews"]:
            reviews = "".join(f"<div><b>{self.any('persons')}</b><p>{self.text(1, 3)}</p></div>" for _ in range(3))
            parts.append(f"<{self.heading}>Customer reviews</{self.heading}>{reviews}<a href=#r>Write a review</a>")
        return name, "".join(parts) + (self.strip() if self.has["strip"] else "")

    def collection(self) -> tuple[str, str]:
        name = self.random.choice(self.shelves)
        parts = [f"<h1>{name}</h1>", f"<p>{self.text(1, 3)}</p>" if self.has["shelf text"] else ""]
        count = self.random.randint(3, 36)
        if self.has["sorting"]:
            parts.append(f"<select name=sort>{''.join(f'<option>{one}</option>' for one in _WORDS['sorts'])}</select>")
        if self.has["counts"]:
            parts.append(f"<p>{count} {self.any('counts')}</p>")
        parts += [self.cards(count), "<a href=?page=2>2</a> <a href=?page=3>Next</a>" if count > 11 else ""]
        return name, "".join(parts)

    def laid_out(self, title: str, body: str) -> str:
        links = "".join(f'<li><a href="{self.path("collection", one)}">{one}</a></li>' for one in self.shelves)
        own = "".join(f'<li><a href="/{one.lower()}">{one}</a></li>' for one in self.some("menu", 4, 8))
        side = self.tag("side", f"<ul>{links}</ul>", "aside") if self.has["side"] else ""
        crumbs = self.tag("crumbs", f"<a href=/>Home</a> / <a href=/x>{self.shelves[0]}</a> / {title}")
        search = "<form action=/search><input type=search name=q><button>Search</button></form>"
        head = (
            f"<title>{title}{self.random.choice([' | ', ' - ', ' – '])}{self.name}</title>"
            if self.has["name in title"]
            else f"<title>{title}</title>"
        )
        notice = f"<p>© 2024 {self.name}. All rights reserved.</p>"
        return (
            f'<!doctype html><html lang=en><head><meta charset=utf-8>{head}<meta name="viewport" content="width=1">'
            f"{'<meta property=og:type content=website>' if self.has['og'] else ''}</head><body>"
            f"{self.tag('nav', f'<a href=/>{self.name}</a><ul>{links}{own}</ul>{search}', 'nav')}"
            f"{crumbs if self.has['crumbs'] else ''}"
            f"{self.tag('wrap', side + self.tag('main', body, self.main_tag))}"
            f"{self.strip() if self.has['strip everywhere'] else ''}"
            f"{self.tag('foot', f'<ul>{own}</ul>{notice}', 'footer')}</body></html>"
        )

    def pages(self) -> Iterator[BuiltPage]:
        """Yield products and categories."""
        for kind, count in (("product", 6), ("collection", 4)):
            for _ in range(count):
                title, body = self.product() if kind == "product" else self.collection()
                url = f"https://{self.host}{self.path(kind, title)}"
                yield BuiltPage(self.host, self.family, url, kind, self.laid_out(title, body))


def built_pages() -> Iterator[BuiltPage]:
    """Yield the pages to train with: of all sites of all families but HELD_OUT; the same ones every time."""
    for family in _FILE["families"]:
        if family != HELD_OUT:
            for number in range(SITES_OF_A_FAMILY):
                yield from SiteBuilder(family, number).pages()
