"""How well an annotator without a model does on templates: learned from some pages, scored on the others.

What a field of the truth may be called where nobody asked for names was decided before the first run.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean
from typing import Any

from llmcrawler.core.content import read_page
from llmcrawler.core.understanding.extraction.field_names import usual_type
from llmcrawler.core.understanding.extraction.record_schema import (
    Field,
    FieldType,
    RecordTypes,
    RequestedSchema,
    schema_of,
)
from llmcrawler.core.understanding.extraction.records import RecordQuestion, RecordRules, Records
from llmcrawler.core.understanding.extraction.typed_values import read_date
from tests.servers.record_sites import Site
from tests.servers.record_sites.scoring import FieldScore
from tests.servers.teacher import type_of

ORIGIN = "http://site.example"
LEARN_PAGES = 20
_MAX_DATE_CHARS = 60

NAMES: dict[str, str] = {
    "title": "name headline",
    "name": "title",
    "price": "",
    "old_price": "list_price regular_price original_price",
    "sku": "product_code article_number mpn",
    "brand": "marke manufacturer marca marque",
    "color": "colour farbe couleur",
    "weight": "gewicht",
    "description": "summary abstract",
    "summary": "description abstract bio about",
    "abstract": "summary description",
    "biography": "bio",
    "category": "section genre article_section type categories",
    "categories": "category section",
    "tags": "keywords categories",
    "keywords": "tags schlagworte stichworte",
    "author": "authors by von autor creator",
    "date_published": "published date posted date_created publication_date pub_date date_posted",
    "date_modified": "updated modified last_updated last_modified date",
    "date_created": "created date date_published opened date_posted",
    "subtitle": "summary description lead abstract alternative_headline",
    "location": "place venue job_location city address",
    "department": "",
    "company": "hiring_organization organization employer",
    "views": "viewed view_count",
    "applicants": "applications applicant_count",
    "requirements": "responsibilities items skills qualifications",
    "start_date": "date start event_date when",
    "end_date": "end",
    "address": "street street_address",
    "city": "locality address_locality ville location ciudad",
    "speaker": "speakers performer author person",
    "job_title": "role position function label",
    "email": "e_mail mail",
    "phone": "telephone tel telefon telefono",
    "website": "url homepage web",
    "homepage": "website url webseite",
    "employers": "work experience works_for company employer",
    "skills": "knows_about",
    "award": "awards",
    "ingredients": "recipe_ingredient zutaten",
    "steps": "instructions recipe_instructions method zubereitung",
    "cook_time": "kochzeit total_time cooking_time",
    "prep_time": "vorbereitung preparation_time",
    "difficulty": "complexity",
    "calories": "energy kcal",
    "servings": "yield recipe_yield portionen",
    "postal_code": "code_postal zip zip_code",
    "founded": "foundation fondation founding_date",
    "owner": "proprietaire propietario",
    "publisher": "",
    "posts": "comments messages replies reviews",
    "posts.author": "comments.author messages.author replies.author reviews.author posts.name comments.name",
    "posts.text": "comments.text posts.body comments.body posts.description comments.description posts.content",
    "posts.date": "comments.date posts.date_published comments.date_published",
    "reporter": "created_by erstellt_von author",
    "assigned_to": "owner assignee verantwortlicher",
    "priority": "prioritat prioritaet",
    "component": "komponente",
    "version": "",
    "status": "",
    "replaces": "",
    "license": "licence lizenz",
    "rating": "rating_value",
}


@dataclass
class Learned:
    """`fields`: key of the truth -> its score; `names`: what it was called; `others`: names that mean nothing of it."""

    site: str
    page_type: str
    fields: dict[str, FieldScore] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    seconds: float = 0.0
    seconds_a_page: float = 0.0

    @property
    def macro(self) -> float:
        return fmean(score.f1 for score in self.fields.values())


def requested_of(site: Site) -> RequestedSchema:
    """What a user would ask for who knows the names of the truth and what kind of values they have."""
    fields: dict[str, Field] = {}
    for page in site.records:
        for name, value in page.fields.items():
            if isinstance(value, list) and isinstance(value[0], dict):
                fields |= {f"{name}.{key}": Field(key, group=name) for key in value[0]}
            else:
                kind = type_of(value[0] if isinstance(value, list) else value)
                wanted: FieldType | None = None if kind == "string" else kind  # type: ignore[assignment]
                fields[name] = Field(name, wanted, isinstance(value, list))
    return RequestedSchema(schema_of(tuple(fields.values())), tuple(fields.values()))


def learned(site: Site, annotator_of: Callable[[RequestedSchema | None], Any], *, asked: bool) -> Learned:
    """Records as a crawl gives them, structured data included: learned from the first pages, scored on the others."""
    return asyncio.run(_learned(site, annotator_of, asked=asked))


async def _learned(site: Site, annotator_of: Callable[[RequestedSchema | None], Any], *, asked: bool) -> Learned:
    requested = requested_of(site) if asked else None
    rules = RecordRules(record_types=RecordTypes(True), requested=requested)
    records = Records(annotator_of(requested), rules, pressure=lambda _waiting: "idle")
    questions = []
    for page in site.records:
        url = ORIGIN + page.path
        content = read_page(page.html, url)
        about = (content.title, content.lang, page.html, content.features)
        questions.append(RecordQuestion(url, *about, site.name, "t", site.page_type))
    start = time.process_time()
    await asyncio.gather(*map(records.record_of, questions[:LEARN_PAGES]))
    taught = time.process_time() - start
    rest = questions[LEARN_PAGES:] or questions
    start = time.process_time()
    answers = await asyncio.gather(*map(records.record_of, rest))
    spent = (time.process_time() - start) / len(rest)
    await records.close()
    pages = site.records[LEARN_PAGES:] or site.records
    pairs = [(page.fields, answer.record or {}) for page, answer in zip(pages, answers, strict=True)]
    result = scored(pairs, [question.lang for question in questions][-len(pages) :])
    return Learned(site.name, site.page_type, result.fields, result.names, result.others, taught, spent)


def scored(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], lang: Sequence[str]) -> Learned:
    """Truth and record of each page. A learned field is the truth's of the first name that fits, and of one only. The
    dates of a group are right in whatever form; those of other fields have theirs in the truth."""
    wanted = [columns_of(truth) for truth, _ in pairs]
    given = [columns_of(record) for _, record in pairs]
    there = dict.fromkeys(key for row in given for key in row)
    keys = list(dict.fromkeys(key for row in wanted for key in row))
    names: dict[str, str] = {key: key for key in keys if key in there}
    for key in keys:
        free = [name for name in NAMES.get(key, "").split() if name in there and name not in names.values()]
        if key not in names and free:
            names[key] = free[0]
    fields = {key: FieldScore() for key in keys}
    for want, have, spoken in zip(wanted, given, lang, strict=True):
        for key in keys:
            both = want.get(key, []), have.get(names.get(key, ""), [])
            if "." in key and usual_type(key.rpartition(".")[2]) == "date":
                both = [day_of(one, spoken) for one in both[0]], [day_of(one, spoken) for one in both[1]]
            count(fields[key], *both)
    return Learned("", "", fields, names, tuple(name for name in there if name not in names.values()))


def columns_of(record: dict[str, Any]) -> dict[str, list[Any]]:
    """The values of each field; those of objects by the object's name and theirs."""
    columns: dict[str, list[Any]] = {}
    for name, value in record.items():
        for one in value if isinstance(value, list) else [value]:
            for key, inner in one.items() if isinstance(one, dict) else [("", one)]:
                if inner not in (None, "", []):
                    columns.setdefault(_snake(f"{name}.{key}" if key else name), []).append(inner)
    return columns


def _snake(name: str) -> str:
    """A name of schema.org as the table has it: `author` for author.name, `price` for offers.price."""
    snake = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda letter: "_" + letter[0].lower(), name).removeprefix("offers.")
    return re.sub(r"^(author|brand|publisher|location|job_location|hiring_organization)\.name$", r"\1", snake)


def count(score: FieldScore, want: list[Any], have: list[Any]) -> None:
    left = Counter(_plain(one) for one in have)
    right = 0
    for one in want:
        forms = [form for form in (_plain(one), _plain(getattr(one, "value", one))) if left[form] > 0]
        right += bool(forms)
        left.subtract(forms[:1])
    score.right += right
    score.wanted += len(want)
    score.given += len(have)
    if not right == len(want) == len(have):
        score.misses.append(("", want, have))


@lru_cache(maxsize=100_000)
def day_of(text: str, lang: str) -> str:
    """The day of a date, and what is none as it is."""
    return (read_date(text, lang) or text)[:10] if len(text) < _MAX_DATE_CHARS else text


def _plain(value: Any) -> str:
    """What makes two values equal: a day, a number, a url without its scheme, a text or tag."""
    text = " ".join(str(value).split()).casefold().removeprefix("#")
    if re.match(r"\d{4}-\d\d-\d\d(?:[t ]|$)", text):
        return text[:10]
    amount = re.fullmatch(r"(?:[$€£]|eur|us\$)?\s?(\d[\d.,]*?)\s?(?:[$€£]|eur)?", text)
    if amount:
        digits = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", amount[1]).replace(",", ".")
        return f"{float(digits):g}" if digits.count(".") < 2 else digits
    return re.sub(r"^https?://(?:site\.example)?|/$", "", text)


def lines_of_report(results: Sequence[Learned], *, show: bool = False) -> Iterator[str]:
    for one in results:
        weak = []
        for key, score in one.fields.items():
            name = one.names.get(key, key)
            if score.f1 < 0.99:
                counts = f"{score.f1:.2f} ({score.right}/{score.given}/{score.wanted})"
                weak.append(f"{key} {counts}" if name == key else f"{key} as {name} {counts}")
        times = f"{one.seconds:6.2f} s{1000 * one.seconds_a_page:6.1f} ms"
        yield f"{one.site:18}{one.page_type:13}{one.macro:6.3f}{times}  {', '.join(weak)}"
        if one.others:
            yield f"{'':18}others: {', '.join(one.others)}"
        for key, score in one.fields.items() if show else ():
            yield from (f"{'':18}{key}: wanted {want!r:.90}, got {have!r:.90}" for _, want, have in score.misses[:2])
    scores = [score for one in results for score in one.fields.values()]
    precision = sum(score.right for score in scores) / max(1, sum(score.given for score in scores))
    over_fields, over_templates = fmean(score.f1 for score in scores), fmean(one.macro for one in results)
    yield (
        f"{len(results)} templates, {len(scores)} fields: macro F1 {over_fields:.3f} over fields, {over_templates:.3f}"
        f" over templates, precision {precision:.3f}, {sum(len(one.others) for one in results)} other fields"
    )
    by_name: dict[str, list[float]] = {}
    for one in results:
        for key, score in one.fields.items():
            by_name.setdefault(key, []).append(score.f1)
    yield "each field: " + ", ".join(
        f"{key} {fmean(values):.2f} ({len(values)})" for key, values in sorted(by_name.items())
    )
    by_type: dict[str, list[float]] = {}
    for one in results:
        by_type.setdefault(one.page_type, []).append(one.macro)
    types = [f"{key} {fmean(values):.2f} ({len(values)})" for key, values in sorted(by_type.items())]
    yield f"each page type: {', '.join(types)}"
