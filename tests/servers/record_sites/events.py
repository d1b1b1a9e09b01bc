"""Events in German: dates, prices with commas, labels with colons, address lines parted by `<br>`."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 45
SECTIONS = ("Konzerte", "Theater", "Vorträge")
FRAME = Frame("Kulturkalender Süd", SECTIONS, "divs", lang="de")
HALLS = ("Alte Mühle", "Haus am Kanal", "Stadthalle", "Kleine Bühne", "Kulturhaus Mitte")
STREETS = ("Lange Straße", "Am Anger", "Mühlgasse", "Bahnhofstraße")
GENRES = ("Abend mit", "Lesung:", "Konzert –", "Gespräch mit")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    items = [
        (f"/veranstaltung/{number}-{rng.choice(words.NOUNS)}.html", _fields(rng)) for number in range(200, 200 + COUNT)
    ]
    pages = other_pages(FRAME, rng, SECTIONS, "/programm")
    pages += list_pages(FRAME, "/programm", [(path, fields["titel"]) for path, fields in items])
    for path, fields in items:
        soon = rng.sample([item for item in items if item[0] != path], 3)
        pages.append(SitePage(path, _render(fields, soon), "event", fields))
    return pages


def _euros(cents: int) -> Shown:
    text = f"{cents / 100:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")
    return Shown(f"{text} €", cents / 100)


def _fields(rng: Random) -> dict[str, Any]:
    day = words.day(rng)
    free = words.maybe(rng, 0.2)
    cents = rng.choice([rng.randint(900, 8_900), rng.randint(100_000, 250_000)])
    acts = words.people(rng, rng.randint(1, 4))
    return {
        "titel": f"{rng.choice(GENRES)} {acts[0]}: {rng.choice(words.NOUNS).title()}",
        "datum": Shown(f"{day.day}. {words.MONATE[day.month - 1]} {day.year}", day.isoformat()),
        "beginn": f"{rng.randint(10, 22)}:{rng.choice(['00', '15', '30'])} Uhr",
        "preis": None if free else _euros(cents),
        "ermaessigt": _euros(cents // 2) if not free and words.maybe(rng, 0.5) else None,
        "ort": rng.choice(HALLS),
        "strasse": f"{rng.choice(STREETS)} {rng.randint(1, 140)}",
        "plz": f"{rng.randint(10_000, 99_999)}",
        "stadt": rng.choice(words.CITIES),
        "mitwirkende": acts,
        "telefon": f"0{rng.randint(200, 999)} / {rng.randint(10_000, 99_999)}" if words.maybe(rng, 0.5) else None,
        "beschreibung": words.paragraph(rng, 5),
    }


def _render(f: dict[str, Any], soon: list[tuple[str, dict[str, Any]]]) -> str:
    day, month, year = f["datum"].split()
    weekday = words.TAGE[(int(day.rstrip(".")) + len(month) + int(year)) % 7]
    reduced = f" (erm. {f['ermaessigt']})" if f["ermaessigt"] else ""
    price = f"<p><strong>Preis:</strong> {f['preis']}{reduced}</p>" if f["preis"] else "<p>Eintritt frei</p>"
    main = (
        f'<div class="termin"><h1>{escape(f["titel"])}</h1>'
        f'<p class="wann"><strong>Wann?</strong> {weekday}, {f["datum"]}, {f["beginn"]}</p>{price}'
        f'<h2>Ort</h2><p class="adresse">{f["ort"]}<br>\n{f["strasse"]}<br/>\n{f["plz"]} {f["stadt"]}</p>'
        + (f"<p>Karten: Tel. {f['telefon']}</p>" if f["telefon"] else "")
        + f"<h2>Es wirken mit</h2><ul>{''.join(f'<li>{name}</li>' for name in f['mitwirkende'])}</ul>"
        + f'<div class="text">{escape(f["beschreibung"])}</div></div>'
        + '<div class="demnaechst"><h3>Demnächst</h3>'
        + "".join(
            f'<p><a href="{path}">{escape(other["titel"])}</a><br>{other["datum"]} · {other["ort"]}</p>'
            for path, other in soon
        )
        + "</div>"
    )
    return FRAME.page(f["titel"], main)
