"""News: dates in a meta element and in `<time>`, one or two authors, tags, a body of paragraphs, related articles."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 45
SECTIONS = ("Politics", "Harbour", "Culture", "Sport")
TAGS = ("council", "tides", "fares", "schools", "harvest", "theatre", "bridges", "weather")
FRAME = Frame("The Estuary Post", SECTIONS, "semantic")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    items = []
    for number in range(COUNT):
        fields = _fields(rng)
        date = fields["published"].value[:10].replace("-", "/")
        items.append((f"/{date}/{words.slug(fields['title'])}-{number}", fields))
    pages = other_pages(FRAME, rng, SECTIONS, "/latest")
    pages += list_pages(FRAME, "/latest", [(path, fields["title"]) for path, fields in items])
    for path, fields in items:
        related = rng.sample([item for item in items if item[0] != path], 3)
        render = _second if redesign else _first
        pages.append(SitePage(path, render(fields, related), "article", fields))
    return pages


def _fields(rng: Random) -> dict[str, Any]:
    day = words.day(rng)
    moment = f"{day.isoformat()}T{rng.randint(6, 22):02}:{rng.randint(0, 59):02}:00+00:00"
    pictured = words.maybe(rng, 0.6)
    return {
        "title": words.sentence(rng).rstrip("."),
        "lead": words.sentence(rng) if words.maybe(rng, 0.8) else None,
        "published": Shown(moment, moment),
        "authors": words.people(rng, rng.choice([1, 1, 2])),
        "section": rng.choice(SECTIONS),
        "tags": rng.sample(TAGS, rng.randint(1, 4)),
        "image": f"/pictures/{rng.randint(1000, 9999)}.jpg" if pictured else None,
        "caption": words.sentence(rng) if pictured else None,
        "body": Shown.paragraphs(words.paragraphs(rng, rng.randint(3, 7))),
    }


def _first(f: dict[str, Any], related: list[tuple[str, dict[str, Any]]]) -> str:
    figure = (
        f'<figure><img src="{f["image"]}"><figcaption>{escape(f["caption"])}</figcaption></figure>'
        if f["image"]
        else ""
    )
    middle = len(f["body"].parts) // 2
    parts = [f"<p>{escape(part)}</p>" for part in f["body"].parts]
    parts.insert(middle, '<aside class="advert">Advertisement<p>Sail away from £9.</p></aside>')
    main = (
        f'<article class="story"><div class="kicker"><a href="/c/{f["section"].lower()}">{f["section"]}</a></div>'
        f'<h1 class="headline">{escape(f["title"])}</h1>'
        + (f'<p class="standfirst">{escape(f["lead"])}</p>' if f["lead"] else "")
        + '<div class="byline">By '
        + " and ".join(f'<a rel="author" href="/by/{words.slug(name)}">{name}</a>' for name in f["authors"])
        + f' · <time datetime="{f["published"]}">{_readable(f["published"])}</time></div>{figure}'
        + f'<div class="story-body">{"".join(parts)}</div>'
        + '<ul class="tags">'
        + "".join(f'<li><a href="/tag/{tag}">{tag}</a></li>' for tag in f["tags"])
        + "</ul></article>"
        + '<section class="related"><h2>Related</h2>'
        + "".join(
            f'<article class="teaser"><h3 class="headline"><a href="{path}">{escape(other["title"])}</a></h3>'
            f'<div class="byline">By <a rel="author" href="/by/{words.slug(other["authors"][0])}">'
            f"{other['authors'][0]}</a>"
            f' · <time datetime="{other["published"]}">{_readable(other["published"])}</time></div></article>'
            for path, other in related
        )
        + "</section>"
    )
    return FRAME.page(f["title"], main, head=_meta(f))


def _meta(f: dict[str, Any]) -> str:
    return (
        f'<meta property="og:type" content="article"><meta property="og:title" content="{escape(f["title"])}">'
        f'<meta property="article:published_time" content="{f["published"]}">'
        f'<meta property="article:section" content="{f["section"]}">'
    )


def _readable(moment: str) -> str:
    year, month, day = moment[:10].split("-")
    return f"{int(day)} {words.MONTHS[int(month) - 1]} {year}, {moment[11:16]}"


def _second(f: dict[str, Any], related: list[tuple[str, dict[str, Any]]]) -> str:
    """No meta elements but the type, related stories first, tags in one line with commas, the date behind the text."""
    main = (
        '<div class="c-more"><h4>More from us</h4>'
        + "".join(f'<div><a href="{path}">{escape(other["title"])}</a></div>' for path, other in related)
        + f'</div><div class="c-article"><div class="c-article__top"><span class="c-label">{f["section"]}</span>'
        + f"<h1>{escape(f['title'])}</h1>"
        + (f'<div class="c-article__intro"><strong>{escape(f["lead"])}</strong></div>' if f["lead"] else "")
        + "</div>"
        + (
            f'<div class="c-media"><img src="{f["image"]}" alt=""><span>{escape(f["caption"])}</span></div>'
            if f["image"]
            else ""
        )
        + f'<div class="c-article__text">{"".join(f"<p>{escape(part)}</p>" for part in f["body"].parts)}</div>'
        + '<div class="c-article__foot">Written by '
        + "".join(f'<span class="c-person">{name}</span>' for name in f["authors"])
        + f' on <time class="c-date" datetime="{f["published"]}">{_readable(f["published"])[:-7]}</time>'
        + "<br>Filed under "
        + ", ".join(f'<a class="c-tag" href="/tag/{tag}">{tag}</a>' for tag in f["tags"])
        + "</div></div>"
    )
    return FRAME.page(f["title"], main, head='<meta property="og:type" content="article">')
