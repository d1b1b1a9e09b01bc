"""What all pages of a site share, and the pages beside those with records: home, lists, login, a form, an imprint."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from random import Random
from urllib.parse import quote

from tests.servers.record_sites.truth import SitePage
from tests.servers.record_sites.words import paragraph

PAGE_SIZE = 12


class Frame:
    """A site's frame: `layout` is "semantic", "divs" or "table"."""

    def __init__(self, brand: str, sections: Sequence[str], layout: str, lang: str = "en") -> None:
        self.brand = brand
        self.lang = lang
        links = "\n".join(f'<li><a href="/c/{quote(name.lower())}">{escape(name)}</a></li>' for name in sections)
        self._before, self._after = _AROUND[layout]
        self._before = self._before.replace("BRAND", escape(brand)).replace("LINKS", links)

    def page(self, title: str, main: str, *, head: str = "") -> str:
        return (
            f'<!DOCTYPE html>\n<html lang="{self.lang}">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width">\n'
            f"<title>{escape(title)} | {escape(self.brand)}</title>\n"
            f'<link rel="stylesheet" href="/static/site.css">\n{head}\n</head>\n<body>\n'
            f"{self._before}\n{main}\n{self._after}\n</body>\n</html>"
        )


_AROUND = {
    "semantic": (
        (
            '<div class="cookie-note" role="dialog"><p>We use cookies. <a href="/legal">Read more</a></p></div>'
            '<header class="site-header"><a class="brand" href="/">BRAND</a><nav><ul class="menu">LINKS</ul></nav>'
            '<form action="/c/all" role="search"><input name="q" type="search"><button>Search</button></form></header>'
            "<main>"
        ),
        (
            '</main><footer class="site-footer"><p>© 2024 All rights reserved.</p>'
            '<ul><li><a href="/login">Sign in</a></li>'
            '<li><a href="/legal">Legal</a></li></ul><address>12 Dock Road, Leeds</address></footer>'
        ),
    ),
    "divs": (
        (
            '<div id="wrap"><div id="top"><div class="logo"><a href="/">BRAND</a></div><ul class="nav">LINKS</ul></div>'
            '<div id="cols"><div id="side"><h4>News</h4><p>Free delivery from 50.00 this week.</p>'
            '<p><a href="/login">Sign in</a></p></div><div id="content">'
        ),
        ('</div></div><div id="bottom"><span>Phone 0113 496 0000</span> <a href="/legal">Legal</a></div></div>'),
    ),
    "table": (
        (
            '<table width="760" border="0" cellpadding="4"><tr><td colspan="2" bgcolor="#003366">'
            '<a href="/"><font color="white" size="5">BRAND</font></a></td></tr><tr><td width="140" valign="top">'
            '<ul>LINKS</ul><a href="/login">Sign in</a></td><td valign="top">'
        ),
        (
            '</td></tr><tr><td colspan="2" align="center"><font size="1">Best viewed at 800x600. '
            '<a href="/legal">Legal</a></font></td></tr></table>'
        ),
    ),
}


def list_pages(frame: Frame, prefix: str, items: Sequence[tuple[str, str]]) -> list[SitePage]:
    """Pages of links to `items` (path, title), twelve on each, with a link to the next."""
    pages = []
    for start in range(0, len(items), PAGE_SIZE):
        number = start // PAGE_SIZE + 1
        rows = "".join(f'<li><a href="{path}">{escape(title)}</a></li>' for path, title in items[start:][:PAGE_SIZE])
        more = f'<a class="next" href="{prefix}?page={number + 1}">Next</a>' if start + PAGE_SIZE < len(items) else ""
        html = frame.page(f"All, page {number}", f'<h1>All</h1><ul class="results">{rows}</ul><p>{more}</p>')
        pages.append(SitePage(prefix + (f"?page={number}" if number > 1 else ""), html, "listing"))
    return pages


def other_pages(frame: Frame, rng: Random, sections: Sequence[str], list_path: str) -> list[SitePage]:
    """Home, a page for each section, login and legal notes."""
    note = paragraph(rng)
    home = f'<h1>Welcome</h1><p>{escape(note)}</p><p><a href="{list_path}">See all</a></p>'
    login = (
        '<h1>Sign in</h1><form method="post"><label>Name <input name="user"></label>'
        '<label>Password <input name="password" type="password"></label><button>Sign in</button></form>'
    )
    legal = f"<h1>Legal</h1><p>{escape(paragraph(rng, 6))}</p><p>{escape(paragraph(rng, 6))}</p>"
    section_pages = [
        SitePage(
            f"/c/{quote(name.lower())}",
            frame.page(name, f'<h1>{escape(name)}</h1><p><a href="{list_path}">Everything in {escape(name)}</a></p>'),
            "listing",
        )
        for name in sections
    ]
    return [
        SitePage("/", frame.page("Home", home), "homepage"),
        SitePage("/login", frame.page("Sign in", login), "login"),
        SitePage("/legal", frame.page("Legal", legal), "legal"),
        *section_pages,
    ]


def form_page(frame: Frame, title: str, fields: Sequence[str], *, heading: str = "") -> str:
    """A form about a thing, with the thing's title on it."""
    inputs = "".join(f'<p><label>{name}</label><input name="{name.lower()}"></p>' for name in fields)
    main = f"<h1>{escape(heading or title)}</h1><h2>{escape(title)}</h2>"
    main += f'<form method="post">{inputs}<button>Send</button></form>'
    return frame.page(title, main)
