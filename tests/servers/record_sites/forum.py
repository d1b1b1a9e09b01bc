"""Forum threads: posts repeat (objects), the first one is marked, some have signatures, some quote others."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, form_page, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 35
SECTIONS = ("Engines", "Sails", "Trips")
FRAME = Frame("Old Boats Forum", SECTIONS, "divs")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    items = [
        (f"/thread/{500 + number}/{words.slug(title)}", _fields(rng, title))
        for number, title in enumerate(words.titles(rng, COUNT))
    ]
    pages = other_pages(FRAME, rng, SECTIONS, "/threads")
    pages += list_pages(FRAME, "/threads", [(path, fields["title"]) for path, fields in items])
    for path, fields in items:
        pages.append(SitePage(path, _render(path, fields, rng), "forum_thread", fields))
        form = form_page(FRAME, f"Re: {fields['title']}", ["Name", "Message"])
        pages.append(SitePage(path.replace("/thread/", "/reply/"), form, "reply_form"))
    return pages


def _fields(rng: Random, title: str) -> dict[str, Any]:
    posts = []
    for _ in range(rng.choice([1, 2, 3, 5, 8])):
        day = words.day(rng)
        clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
        shown = Shown(f"{day.day} {words.MONTHS[day.month - 1]} {day.year} {clock}", f"{day.isoformat()}T{clock}:00")
        posts.append({"author": words.person(rng), "date": shown, "text": words.paragraph(rng, rng.randint(1, 4))})
    return {
        "title": title,
        "section": rng.choice(SECTIONS),
        "views": Shown(f"{(views := rng.randint(1_000, 90_000)):,}", views),
        "posts": posts,
    }


def _render(path: str, f: dict[str, Any], rng: Random) -> str:
    posts = []
    for place, post in enumerate(f["posts"]):
        quoted = f"<blockquote>{escape(words.sentence(rng))}</blockquote>" if place and words.maybe(rng, 0.3) else ""
        signature = f'<div class="sig">-- {escape(words.sentence(rng))}</div>' if words.maybe(rng, 0.4) else ""
        posts.append(
            f'<div class="post{" op" if place == 0 else ""}" id="p{rng.randint(1000, 99_999)}"><div class="who">'
            f'<strong>{post["author"]}</strong><br><small>Posts: {rng.randint(1, 999)}</small></div><div class="what">'
            f'<div class="stamp">{post["date"]} <a href="#top">#{place + 1}</a></div>'
            f'{quoted}<div class="msg">{escape(post["text"])}</div>{signature}</div></div>'
        )
    main = (
        f'<p class="path"><a href="/">Index</a> » <a href="/c/{f["section"].lower()}">{f["section"]}</a></p>'
        f'<h2 class="topic">{escape(f["title"])}</h2><p class="info">{f["views"]} views, {len(f["posts"])} posts</p>\n'
        + "\n".join(posts)
        + f'<a href="{path.replace("/thread/", "/reply/")}">Reply</a>'
    )
    return FRAME.page(f["title"], main)
