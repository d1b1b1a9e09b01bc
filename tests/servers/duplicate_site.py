"""A site of 300 pages, of which many are nearly the same, and 100 more urls that show one of them again, in ten ways.

    site = DuplicateSite(); with MockSite(site.routes()).in_thread() as server: ...; site.faults(lines)

What is no duplicate: lamps that differ in a number, or in an article number that only machines are told; lists in
several pages; translations; short pages; pages whose canonical link is a blunder (all name the front page, pages of a
list name the first one, lamps name their list).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from aiohttp import web

from tests.servers.mock_site import Handler

KINDS = ("print", "amp", "category", "header", "visit", "parameter", "index", "slash", "case", "sort")
_OF_A_KIND = 10
_LAMPS, _STORIES, _LISTS, _TINY, _TRANSLATED = 120, 120, 20, 10, 29  # and the front page
_WORDS = """light shade table garden winter evening window street paper metal glass copper linen quiet steady bright
slowly workshop harbour village morning letter journey kitchen market river mountain story builder neighbour""".split()
_MENU = '<nav><a href="/">Home</a> <a href="/lists/0">Lamps</a> <a href="/story/0">Stories</a></nav>'
_FOOT = "<footer><p>Lamp House, 12 Harbour Street. Call 0123 456789.</p></footer>"


@dataclass(frozen=True)
class SitePage:
    """`body` is the main part; `around` holds it in the site's frame. `links` lead to other pages."""

    title: str
    body: str
    links: tuple[str, ...] = ()
    head: str = ""
    lang: str = "en"
    before: str = ""
    is_framed: bool = True
    header: str = ""

    def html(self) -> str:
        more = "".join(f'<li><a href="{path}">More</a></li>' for path in self.links)
        beside = f"<aside><h3>Seen by others</h3><ul>{more}</ul></aside>"
        inner = f"<main>{self.before}{self.body}</main>"
        frame = f"{_MENU}{inner}{beside}{_FOOT}" if self.is_framed else f"{inner}"
        head = f'<meta charset="utf-8"><title>{self.title}</title>{self.head}'
        return f'<!doctype html><html lang="{self.lang}"><head>{head}</head><body>{frame}</body></html>'


class DuplicateSite:
    """`pages` by path with query. `first` names for each page that occurs twice the other one; `kind` how."""

    def __init__(self, *, with_duplicates: bool = True) -> None:
        self.pages: dict[str, SitePage] = {}
        self.first: dict[str, str] = {}
        self.kind: dict[str, str] = {}
        for part in (_lamps, _stories, _lists, _tiny, _translations):
            self.pages |= part()
        names = list(self.pages)
        for number, (path, page) in enumerate(self.pages.items()):
            links = tuple(names[(number + step) % len(names)] for step in (1, 7, 31))
            self.pages[path] = replace(page, links=(*page.links, *links))
        if with_duplicates:
            self._repeat()
        linked = tuple(path for path in self.pages if path not in self.first)
        self.pages["/"] = SitePage("Lamp House", "<h1>Lamp House</h1><p>All lamps, and stories of them.</p>", linked)

    def routes(self) -> dict[str, str | Handler]:
        return {path: _handler(page) for path, page in self.pages.items()} | {"/robots.txt": "User-agent: *\nDisallow:"}

    def faults(self, lines: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
        """Return the duplicates that were not found, and the pages that are wrongly called one."""
        named = {_path(line["url"]): line["duplicate_of"] and _path(line["duplicate_of"]) for line in lines}
        missed = [path for path, other in self.first.items() if {(path, named[path]), (other, named[other])} == {
            (path, None), (other, None)
        }]  # fmt: skip
        other_of = self.first | {other: path for path, other in self.first.items()}
        wrong = [path for path, said in named.items() if said is not None and other_of.get(path) != said]
        return missed, wrong + [path for path, other in self.first.items() if named[path] and named[other]]

    def _repeat(self) -> None:
        lamps = [path for path in self.pages if path.startswith("/lamp/")][::2]
        stories = [path for path in self.pages if path.startswith("/story/")][::2]
        lists = [path for path in self.pages if path.startswith("/lists/")]
        for at, (kind, repeat) in enumerate(_REPEATS.items()):
            of = lists if kind == "sort" else (lamps if at % 2 else stories)[at // 2 * _OF_A_KIND :]
            for path in of[:_OF_A_KIND]:
                other, page = repeat(path, self.pages[path])
                self.pages[other] = page
                self.first[other], self.kind[other] = path, kind
                self.pages[path] = replace(self.pages[path], links=(*self.pages[path].links, other))


def _path(url: str) -> str:
    return f"/{url.split('/', 3)[3]}"


def _handler(page: SitePage) -> Handler:
    async def answer(_request: web.Request) -> web.Response:
        headers = {"Link": page.header} if page.header else {}
        return web.Response(text=page.html(), content_type="text/html", headers=headers)

    return answer


def _sentences(random: Random, count: int) -> str:
    return " ".join(f"{' '.join(random.choices(_WORDS, k=11)).capitalize()}." for _ in range(count))


def _lamps() -> dict[str, SitePage]:
    """Lamps of twelve series. Those of one series differ in a number: most in the watts, some in the price, some in the
    article number for machines alone.
    """
    pages = {}
    for number in range(_LAMPS):
        series, at = divmod(number, 10)
        told = _sentences(Random(f"series {series}"), 6)
        watts, price, sku = (5 + at, 40, 700) if at < 7 else (12, 40 + at, 700) if at < 9 else (12, 48, 701)
        offer = f'{{"@type": "Offer", "price": "{price}.00", "priceCurrency": "EUR"}}'
        data = f'{{"@context": "https://schema.org", "@type": "Product", "sku": "S{series}-{sku}", "offers": {offer}}}'
        blunder = f'<link rel="canonical" href="/lists/{series}">' if series == 11 else ""
        pages[f"/lamp/{number}"] = SitePage(
            f"Lamp of series {series}",
            f"<h1>Lamp of series {series}</h1><p>{told}</p><table><tr><td>Power</td><td>{watts} W</td></tr>"
            f"<tr><td>Price</td><td>€{price}.00</td></tr></table>",
            head=f'<script type="application/ld+json">{data}</script>{blunder}',
            before=f'<p class="crumbs"><a href="/">Home</a> / <a href="/lists/{series}">Series {series}</a></p>',
        )
    return pages


def _stories() -> dict[str, SitePage]:
    pages = {}
    for number in range(_STORIES):
        random = Random(f"story {number}")
        name = " ".join(random.choices(_WORDS, k=3)).title()
        body = f"<h1>{name} {number}</h1><p>{_sentences(random, 5)}</p><p>{_sentences(random, 5)}</p>"
        blunder = '<link rel="canonical" href="/">' if number % 4 == 3 else ""
        pages[f"/story/{number}"] = SitePage(f"{name} {number}", body, head=blunder)
    return pages


def _lists() -> dict[str, SitePage]:
    pages = {}
    for number in range(_LISTS):
        page, series = divmod(number, 10)
        names = [Random(f"{series} {at}").choice(_WORDS).title() for at in range(10)] if series % 2 else range(10)
        rows = [
            f'<li><a href="/lamp/{series * 10 + at}">Lamp {names[at]}</a></li>' for at in range(5 * page, 5 * page + 5)
        ]
        told = _sentences(Random("lists"), 8)
        body = f"<h1>Series {series}</h1><p>{told}</p><ul>{''.join(rows)}</ul>"
        first = f'<link rel="canonical" href="/lists/{series}">'
        pages[f"/lists/{number}"] = SitePage(f"Series {series}", body, head=first if page else "")
    return pages


def _tiny() -> dict[str, SitePage]:
    return {f"/part/{number}": SitePage("A part", "<h1>A part</h1><p>Ask us.</p>") for number in range(_TINY)}


def _translations() -> dict[str, SitePage]:
    """Stories that are there in another language by name only: their text is not translated yet."""
    stories = list(_stories().items())[1::4][:_TRANSLATED]
    return {f"/de{path}": replace(page, lang="de") for path, page in stories}


def _canonical(path: str) -> str:
    return f'<link rel="canonical" href="{path}">'


def _print(path: str, page: SitePage) -> tuple[str, SitePage]:
    stamp = f"<p>Printed on 3 May 2026, 10:{len(path):02} from Lamp House.</p>"
    return f"{path}?print=1", replace(page, body=f"{page.body}{stamp}", is_framed=False, before="")


def _amp(path: str, page: SitePage) -> tuple[str, SitePage]:
    inner = page.body.replace("<h1>", '<div class="top"><h1 class="amp">').replace("</h1>", "</h1></div>")
    head = page.head.replace("canonical", "amphtml")
    return f"{path}/amp", replace(page, body=inner, head=f"{_canonical(path)}{head}", before="", is_framed=False)


def _category(path: str, page: SitePage) -> tuple[str, SitePage]:
    crumbs = '<p class="crumbs"><a href="/">Home</a> / <a href="/lists/3">Gifts</a> / <a href="/lists/4">New</a></p>'
    head = f"{_canonical(path)}{page.head}"
    return path.replace("/lamp/", "/gifts/new/").replace("/story/", "/read/"), replace(page, before=crumbs, head=head)


def _header(path: str, page: SitePage) -> tuple[str, SitePage]:
    other = path.replace("/lamp/", "/all/").replace("/story/", "/archive/2026/")
    return other, replace(page, header=f'</style.css>; rel=preload, <{path}>; rel="canonical"', head="")


def _visit(path: str, page: SitePage) -> tuple[str, SitePage]:
    visit = Random(path).randbytes(8).hex()
    return f"{path}?visit={visit}", page


def _same(change: Callable[[str], str]) -> Callable[[str, SitePage], tuple[str, SitePage]]:
    return lambda path, page: (change(path), page)


def _sort(path: str, page: SitePage) -> tuple[str, SitePage]:
    head, _, rest = page.body.partition("<ul>")
    rows = rest.removesuffix("</ul>").split("</li>")[:-1]
    return f"{path}?sort=name", replace(page, body=f"{head}<ul>{''.join(f'{row}</li>' for row in rows[::-1])}</ul>")


_REPEATS: dict[str, Callable[[str, SitePage], tuple[str, SitePage]]] = {
    "print": _print,
    "amp": _amp,
    "category": _category,
    "header": _header,
    "visit": _visit,
    "parameter": _same(lambda path: f"{path}?ref=newsletter"),
    "index": _same(lambda path: f"{path}/index.html"),
    "slash": _same(lambda path: f"{path}/"),
    "case": _same(lambda path: path.replace("/lamp", "/Lamp").replace("/story", "/Story")),
    "sort": _sort,
}
