"""Names, sentences, dates and amounts from a seeded source: no two pages say the same."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

FIRST_NAMES = "Ada Björn Chloé Dmitri Eszter Femi Greta Hideo Inès Jakub Kwame Łucja Mats Nadia Oya Petra".split()
LAST_NAMES = "Abbott Bauer Castellano Dvořák Eriksen Fofana García Holt Ito Jansen Keller Lindqvist Moreau".split()
CITIES = "Aarhus Bergen Cork Delft Évora Freiburg Ghent Halle Izmir Jena Kraków Leeds Malmö Nantes Ostrava".split()
ADJECTIVES = "amber broad calm deep early faint gentle heavy inner keen light mellow narrow open plain quiet".split()
NOUNS = "anchor basket candle drawer engine fence garden handle island jacket kettle ladder mirror needle".split()
VERBS = "carries covers follows holds joins keeps lifts meets opens paints rests shows turns weighs".split()
PLACES = "in the harbour|behind the old mill|after a long winter|without much noise|for half the price|at first light"
BRANDS = "Almgren|Bo & Daughters|Cavallo|Dunn's|Ekholm|Forge Nine|Gillis".split("|")
MONTHS = "January February March April May June July August September October November December".split()
MONATE = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()
TAGE = "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split()


def person(rng: Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"


def people(rng: Random, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        names[person(rng)] = None
    return list(names)


def name_of_thing(rng: Random) -> str:
    noun = rng.choice(NOUNS).title()
    return rng.choice(
        [
            f"{rng.choice(ADJECTIVES).title()} {noun}",
            f"{noun} & {rng.choice(NOUNS).title()} “{rng.choice(CITIES)}”",
            f"{rng.choice(BRANDS)} {rng.choice(ADJECTIVES)} {noun.lower()} No. {rng.randint(2, 99)}",
            f"{noun} for {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}s",
        ]
    )


def sentence(rng: Random) -> str:
    return (
        f"{rng.choice(['The', 'A', 'Every', 'This'])} {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} "
        f"{rng.choice(VERBS)} the {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} {rng.choice(PLACES.split('|'))}."
    )


def paragraph(rng: Random, sentences: int = 3) -> str:
    return " ".join(sentence(rng) for _ in range(sentences))


def paragraphs(rng: Random, count: int) -> list[str]:
    return [paragraph(rng, rng.randint(1, 4)) for _ in range(count)]


def titles(rng: Random, count: int) -> list[str]:
    """So many different names of things."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[name_of_thing(rng)] = None
    return list(found)


def slug(text: str) -> str:
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower())
    return "-".join(part for part in kept.split("-") if part)


def day(rng: Random) -> date:
    return date(2022, 1, 1) + timedelta(days=rng.randint(0, 1000))


def maybe(rng: Random, share: float) -> bool:
    return rng.random() < share
