"""Profiles with utility classes only, mailto and social links, and a list of publications (objects)."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 40
SECTIONS = ("Physics", "Letters", "Law")
FRAME = Frame("Estuary University", SECTIONS, "semantic")
ROLES = ("Lecturer", "Professor", "Research fellow", "Librarian", "Doctoral student")
TOPICS = ("Tidal flats", "Old maps", "Contract law", "Soft matter", "Dialects", "Bird song")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    names = words.people(rng, COUNT)
    items = [(f"/people/{words.slug(name)}-{number}", _fields(rng, name)) for number, name in enumerate(names)]
    pages = other_pages(FRAME, rng, SECTIONS, "/people")
    pages += list_pages(FRAME, "/people", [(path, fields["name"]) for path, fields in items])
    for path, fields in items:
        colleagues = rng.sample([item for item in items if item[0] != path], 3)
        pages.append(SitePage(path, _render(fields, colleagues), "profile", fields))
    return pages


def _fields(rng: Random, name: str) -> dict[str, Any]:
    handle = words.slug(name)
    links = [
        f"https://social.example/@{handle}",
        f"https://code.example/{handle}",
        f"https://orcid.example/{rng.randint(10**8, 10**9)}",
    ]
    publications = [
        {
            "title": f"{title}, revisited",
            "year": Shown(str(year := rng.randint(1998, 2024)), year),
            "url": f"https://papers.example/{rng.randint(10_000, 99_999)}",
        }
        for title in words.titles(rng, rng.choice([0, 2, 3, 5]))
    ]
    return {
        "name": name,
        "role": rng.choice(ROLES),
        "email": f"{handle}@estuary.example" if words.maybe(rng, 0.8) else None,
        "phone": f"+44 113 {rng.randint(100, 999)} {rng.randint(1000, 9999)}" if words.maybe(rng, 0.6) else None,
        "office": f"Building {rng.choice('ABCDE')}, room {rng.randint(1, 420)}" if words.maybe(rng, 0.7) else None,
        "photo": f"/img/staff/{handle}.jpg" if words.maybe(rng, 0.8) else None,
        "links": rng.sample(links, rng.randint(1, 3)),
        "interests": rng.sample(TOPICS, rng.randint(1, 4)),
        "bio": words.paragraph(rng, 4),
        "publications": publications or None,
    }


def _render(f: dict[str, Any], colleagues: list[tuple[str, dict[str, Any]]]) -> str:
    photo = (
        f'<img class="w-32 h-32 rounded-full" src="{f["photo"]}" alt="">'
        if f["photo"]
        else '<div class="w-32 h-32"></div>'
    )
    contact = [("Email", f["email"] and f'<a class="underline" href="mailto:{f["email"]}">{f["email"]}</a>')]
    contact += [("Phone", f["phone"]), ("Office", f["office"])]
    main = (
        f'<div class="max-w-4xl mx-auto p-4"><div class="flex gap-4">{photo}<div class="flex-1">'
        f'<h1 class="text-2xl font-bold mt-2">{f["name"]}</h1><p class="text-sm text-gray-600 mt-1">{f["role"]}</p>'
        + "".join(
            f'<div class="flex text-sm mt-1"><span class="font-bold w-24">{label}</span><span>{value}</span></div>'
            for label, value in contact
            if value
        )
        + '<div class="flex gap-2 mt-2">'
        + "".join(
            f'<a class="text-sm underline" href="{link}">{link.split("/")[2].split(".")[0]}</a>' for link in f["links"]
        )
        + f'</div></div></div><p class="mt-4 text-base">{escape(f["bio"])}</p><div class="mt-2">'
        + "".join(f'<span class="text-sm rounded px-2 mr-1">{topic}</span>' for topic in f["interests"])
        + "</div>"
        + (
            '<h2 class="text-lg font-bold mt-4">Publications</h2><div class="mt-2">'
            + "".join(
                f'<div class="flex text-sm mt-1"><a class="underline flex-1" href="{one["url"]}">'
                f"{escape(one['title'])}</a>"
                f'<span class="w-24">{one["year"]}</span></div>'
                for one in f["publications"]
            )
            + "</div>"
            if f["publications"]
            else ""
        )
        + '<h2 class="text-lg font-bold mt-4">Colleagues</h2><div class="flex gap-4 mt-2">'
        + "".join(
            f'<div class="flex-1"><a class="text-sm font-bold" href="{path}">{other["name"]}</a>'
            f'<p class="text-sm text-gray-600 mt-1">{other["role"]}</p></div>'
            for path, other in colleagues
        )
        + "</div></div>"
    )
    return FRAME.page(f["name"], main)
