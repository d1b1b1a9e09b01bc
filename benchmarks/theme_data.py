"""What the pages of theme_sites say: records of eleven kinds in four languages, from a seeded source.

make_records("product", "de", 40) are 40 different products. Optional fields are None on a share of the records that is
their own, from 40 to 95%: some fields stand on one page in twenty, some on most.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

Record = dict[str, Any]

# For each language: subjects, verbs and ends of sentences, adjectives and things of titles, names, and so on.
WORDS: dict[str, dict[str, list[str]]] = {
    language: {name: line.split("|") for name, line in lines.items()}
    for language, lines in json.loads(Path(__file__).with_name("theme_words.json").read_text(encoding="utf-8")).items()
}
BRANDS = "Almgren|Bruneau|Cavallo|Dunmore|Ekholm|Fabermann".split("|")
LICENCES = "MIT|BSD-3-Clause|Apache-2.0|GPL-3.0-or-later".split("|")


class Words:
    def __init__(self, language: str, rng: Random) -> None:
        self.rng = rng
        self.lists = WORDS[language]

    def one(self, name: str) -> str:
        return self.rng.choice(self.lists[name])

    def some(self, name: str, least: int, most: int) -> list[str]:
        return self.rng.sample(self.lists[name], self.rng.randint(least, most))

    def sentence(self) -> str:
        return f"{self.one('subjects')} {self.one('verbs')} {self.one('ends')}."

    def text(self, least: int = 2, most: int = 4) -> str:
        return " ".join(self.sentence() for _ in range(self.rng.randint(least, most)))

    def headline(self) -> str:
        return f"{self.one('subjects')} {self.one('verbs')} {self.one('ends')}"

    def person(self) -> str:
        return f"{self.one('first')} {self.one('last')}"

    def thing(self) -> str:
        named = f"{self.one('adjectives')} {self.one('things')}"
        return f"{named} {self.rng.choice('ABCDEFGHKLMNPRTVX')}{self.rng.randint(2, 99)}"

    def day(self) -> datetime:
        start = datetime(2021, 1, 4, 9)  # noqa: DTZ001 - as pages show it
        return start + timedelta(days=self.rng.randint(0, 1400), minutes=5 * self.rng.randint(0, 120))

    def phone(self) -> str:
        return f"0{self.rng.randint(211, 989)} {self.rng.randint(100_000, 9_999_999)}"

    def maybe(self, share: float, value: Any) -> Any:
        return value if self.rng.random() < share else None


def product(w: Words) -> Record:
    price = w.rng.randint(390, 49900) / 100
    return {
        "title": w.thing(),
        "price": price,
        "old_price": w.maybe(0.3, round(price * w.rng.choice([1.15, 1.25, 1.4]), 2)),
        "sku": f"{w.rng.choice('ABCDEF')}{w.rng.choice('GHKLM')}-{w.rng.randint(1000, 99999)}",
        "brand": w.maybe(0.6, w.rng.choice(BRANDS)),
        "color": w.maybe(0.45, w.one("colours")),
        "weight": w.maybe(0.2, f"{w.rng.randint(120, 4800)} g"),
        "category": w.one("categories"),
        "description": w.text(),
    }


def article(w: Words) -> Record:
    published = w.day()
    return {
        "title": w.headline(),
        "subtitle": w.maybe(0.3, w.sentence()),
        "date_published": published,
        "date_modified": w.maybe(0.3, published + timedelta(days=w.rng.randint(20, 90))),
        "author": w.person(),
        "category": w.one("sections"),
        "tags": w.maybe(0.6, w.some("tags", 1, 4)),
        "paragraphs": [w.text() for _ in range(w.rng.randint(2, 5))],
    }


def recipe(w: Words) -> Record:
    foods = w.some("foods", 4, 7)
    return {
        "title": f"{w.one('dishes')} {w.lists['with'][0]} {w.one('foods')}",
        "category": w.one("categories"),
        "author": w.maybe(0.6, w.person()),
        "prep_time": w.rng.choice([10, 15, 20, 25, 30]),
        "cook_time": w.maybe(0.5, w.rng.choice([12, 35, 40, 45, 55, 65])),
        "servings": w.maybe(0.6, w.rng.randint(2, 8)),
        "ingredients": [f"{w.rng.randint(2, 19) * 10} g {food}" for food in foods],
        "foods": foods,
        "steps": [w.sentence() for _ in range(w.rng.randint(3, 5))],
        "tags": w.maybe(0.5, w.some("tags", 1, 3)),
        "description": w.text(1, 2),
    }


def event(w: Words) -> Record:
    start = w.day()
    return {
        "title": f"{w.one('events')}: {w.headline()}",
        "start_date": start,
        "end_date": w.maybe(0.4, start + timedelta(days=w.rng.randint(1, 6), hours=3)),
        "location": w.maybe(0.8, f"{w.one('places')} {w.one('last')}, {w.one('cities')}"),
        "city": w.one("cities"),
        "address": f"{w.one('streets')} {w.rng.randint(1, 120)}",
        "category": w.one("sections"),
        "tags": w.maybe(0.5, w.some("tags", 1, 3)),
        "speaker": w.person(),
        "price": w.maybe(0.6, w.rng.randint(400, 6500) / 100),
        "description": w.text(),
    }


def job(w: Words) -> Record:
    low = w.rng.randint(26, 60) * 1000
    return {
        "title": f"{w.one('roles')} – {w.one('cities')} {w.rng.randint(10, 99)}",
        "company": w.one("companies"),
        "location": w.one("cities"),
        "department": w.maybe(0.6, w.one("departments")),
        "date_published": w.day(),
        "salary_min": low,
        "salary_max": low + w.rng.randint(3, 15) * 1000,
        "summary": w.sentence(),
        "description": w.text(),
        "requirements": [w.sentence() for _ in range(w.rng.randint(2, 4))],
        "url": w.maybe(0.5, f"https://www.{w.one('last').lower()}.example/"),
    }


def person(w: Words) -> Record:
    name = w.person()
    mail = "".join(letter for letter in name.lower().replace(" ", ".") if letter.isascii())
    return {
        "name": f"{name}-{w.one('last')}" if w.rng.random() < 0.3 else name,
        "job_title": w.one("roles"),
        "email": f"{mail}@{w.rng.choice(['post', 'mail', 'office'])}.example",
        "phone": w.maybe(0.6, w.phone()),
        "website": w.maybe(0.4, f"https://{mail.split('.')[-1]}.example"),
        "city": w.one("cities"),
        "summary": w.text(1, 3),
        "employers": w.some("companies", 1, 3),
        "skills": w.some("tags", 2, 4),
        "university": f"{w.one('cities')}",
        "award": w.maybe(0.3, w.thing()),
        "hobby": w.maybe(0.45, w.one("tags")),
    }


def place(w: Words) -> Record:
    return {
        "name": f"{w.one('places')} {w.one('last')} {w.one('adjectives')}",
        "category": w.one("places"),
        "address": f"{w.one('streets')} {w.rng.randint(1, 120)}",
        "postal_code": f"{w.rng.randint(10_000, 98_999)}",
        "city": w.one("cities"),
        "phone": w.maybe(0.6, w.phone()),
        "email": w.maybe(0.4, f"info{w.rng.randint(10, 999)}@post.example"),
        "founded": w.maybe(0.45, w.rng.randint(1801, 2019)),
        "owner": w.maybe(0.5, w.person()),
        "rating": w.maybe(0.3, w.rng.randint(21, 49) / 10),
        "description": w.text(),
    }


def thread(w: Words) -> Record:
    start = w.day()
    posts = []
    for _ in range(w.rng.randint(2, 6)):
        start += timedelta(hours=w.rng.randint(1, 50))
        posts.append({"author": w.person(), "date": start, "text": w.text(1, 3)})
    return {"title": f"{w.headline()}?", "author": posts[0]["author"], "posts": posts, "category": w.one("sections")}


def page_of_docs(w: Words) -> Record:
    return {
        "title": f"{w.one('things')} {w.one('adjectives')} {w.rng.randint(2, 99)}",
        "author": w.person(),
        "version": f"{w.rng.randint(0, 9)}.{w.rng.randint(0, 19)}.{w.rng.randint(0, 9)}",
        "status": w.maybe(0.6, w.rng.choice(["Draft", "Final", "Withdrawn"])),
        "date_modified": w.maybe(0.6, w.day()),
        "replaces": w.maybe(0.3, f"{w.one('things')} {w.rng.randint(100, 999)}"),
        "description": w.text(),
        "paragraphs": [w.text() for _ in range(w.rng.randint(2, 4))],
    }


def book(w: Words) -> Record:
    return {
        "title": f"{w.one('adjectives')} {w.one('things')} – {w.one('verbs')}",
        "author": w.person(),
        "publisher": w.maybe(0.6, w.one("publishers")),
        "date_published": w.day().replace(hour=0, minute=0),
        "isbn": w.maybe(0.5, isbn(w.rng)),
        "series": w.maybe(0.3, f"{w.one('sections')} & {w.one('tags')}"),
        "series_index": w.rng.randint(1, 9),
        "tags": w.maybe(0.6, w.some("tags", 1, 3)),
        "rating": w.maybe(0.4, w.rng.randint(1, 5)),
        "description": w.text(),
    }


def isbn(rng: Random) -> str:
    digits = [9, 7, 8, *(rng.randint(0, 9) for _ in range(9))]
    check = -sum(digit * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10
    return "".join(map(str, [*digits, check]))


def issue(w: Words) -> Record:
    return {
        "title": w.headline(),
        "reporter": w.person(),
        "assigned_to": w.maybe(0.6, w.person()),
        "priority": w.rng.choice(["critical", "major", "minor", "trivial"]),
        "component": w.one("things"),
        "version": w.maybe(0.45, f"{w.rng.randint(1, 4)}.{w.rng.randint(0, 9)}"),
        "keywords": w.maybe(0.4, " ".join(w.some("tags", 1, 3))),
        "date_created": w.day(),
        "description": w.text(),
    }


def package(w: Words) -> Record:
    thing = "".join(letter for letter in w.one("things").lower() if letter.isascii())
    return {
        "name": f"{thing}-{w.rng.choice('abcdefgh')}{w.rng.randint(2, 999)}",
        "version": f"{w.rng.randint(0, 9)}.{w.rng.randint(0, 19)}.{w.rng.randint(0, 9)}",
        "summary": w.headline(),
        "author": w.person(),
        "license": w.maybe(0.6, w.rng.choice(LICENCES)),
        "keywords": w.maybe(0.45, ",".join(w.some("tags", 1, 3))),
        "homepage": w.maybe(0.5, f"https://{w.rng.randint(100, 999)}.example/"),
        "description": w.text(),
    }


KINDS: dict[str, Callable[[Words], Record]] = {
    "product": product,
    "article": article,
    "recipe": recipe,
    "event": event,
    "job": job,
    "person": person,
    "place": place,
    "forum_thread": thread,
    "documentation": page_of_docs,
    "book": book,
    "issue": issue,
    "package": package,
}


def make_records(kind: str, language: str, count: int, seed: str) -> list[Record]:
    """Records with different names or titles; the same for the same arguments."""
    words = Words(language, Random(f"{seed} {kind} {language}"))
    found: dict[str, Record] = {}
    while len(found) < count:
        record = KINDS[kind](words)
        found.setdefault(str(record.get("title") or record["name"]), record)
    return list(found.values())
