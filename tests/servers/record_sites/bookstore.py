"""A bookstore as of 1998: tables for layout, no classes, `<b>ISBN:</b> 978...<br>` in mixed content, a
definition list."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, form_page, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 45
SECTIONS = ("Novels", "Maps", "Rare")
FRAME = Frame("Paper Lantern Books", SECTIONS, "table")
SUBJECTS = ("Travel", "Sea stories", "Botany", "Letters", "Trains", "Cooking")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    books = [(f"/book.cgi?id={1000 + n * 7}", _fields(rng, title)) for n, title in enumerate(words.titles(rng, COUNT))]
    pages = other_pages(FRAME, rng, SECTIONS, "/list.cgi")
    pages += list_pages(FRAME, "/list.cgi", [(path, f["title"]) for path, f in books])
    for path, f in books:
        pages.append(
            SitePage(path, _render(path, f, rng.sample([book for book in books if book[0] != path], 3)), "product", f)
        )
        order = form_page(FRAME, f["title"], ["Name", "Address", "Card"], heading="Order by post")
        pages.append(SitePage(path.replace("book", "order"), order, "order_form"))
    return pages


def _fields(rng: Random, title: str) -> dict[str, Any]:
    cents = rng.randint(400, 9_000)
    count = rng.randint(60, 900)
    return {
        "title": title,
        "authors": words.people(rng, rng.choice([1, 1, 2, 3])),
        "price": Shown(f"${cents / 100:.2f}", cents / 100),
        "list_price": Shown(f"${(cents + 300) / 100:.2f}", (cents + 300) / 100) if words.maybe(rng, 0.6) else None,
        "isbn": f"978{rng.randint(10**9, 10**10 - 1)}",
        "publisher": f"{rng.choice(words.LAST_NAMES)} & {rng.choice(words.LAST_NAMES)}",
        "year": Shown(str(year := rng.randint(1890, 2023)), year) if words.maybe(rng, 0.8) else None,
        "pages": Shown(str(count), count),
        "binding": rng.choice(["Cloth", "Paper", "Half leather"]),
        "condition": rng.choice(["Very good", "Good, some foxing", "Worn"]) if words.maybe(rng, 0.7) else None,
        "subjects": rng.sample(SUBJECTS, rng.randint(1, 3)),
        "summary": words.paragraph(rng, 3) if words.maybe(rng, 0.75) else None,
    }


def _render(path: str, f: dict[str, Any], others: list[tuple[str, dict[str, Any]]]) -> str:
    authors = ", ".join(f'<a href="/author.cgi?q={words.slug(name)}">{name}</a>' for name in f["authors"])
    lines = [("ISBN", f["isbn"]), ("Publisher", f["publisher"]), ("Year", f["year"]), ("List price", f["list_price"])]
    facts = [("Pages", f["pages"]), ("Binding", f["binding"]), ("Condition", f["condition"])]
    main = (
        f'<font face="Arial" size="4"><b>{escape(f["title"])}</b></font><br>\n<i>by {authors}</i>\n<hr>\n'
        '<table border="0" width="100%"><tr><td valign="top"><img src="/covers/none.gif" width="90"></td><td>\n'
        + "".join(f"<b>{label}:</b> {escape(value)}<br>\n" for label, value in lines if value)
        + f'<b>Our price:</b> <font color="red">{f["price"]}</font><br>\n'
        + f'<a href="{path.replace("book", "order")}">Order by post</a></td></tr></table>\n<dl>'
        + "".join(f"<dt>{label}<dd>{value}\n" for label, value in facts if value)
        + "</dl>"
        + (f"<p><b>Summary.</b> {escape(f['summary'])}</p>" if f["summary"] else "")
        + "<p>Subjects:<ul>"
        + "".join(f'<li><a href="/list.cgi?page=1#{words.slug(name)}">{name}</a>' for name in f["subjects"])
        + "</ul><hr><b>Others bought</b><br>"
        + "".join(
            f'<a href="{path}">{escape(other["title"])}</a> by {other["authors"][0]}, '
            f'<font color="red">{other["price"]}</font><br>'
            for path, other in others
        )
    )
    return FRAME.page(f["title"], main)
