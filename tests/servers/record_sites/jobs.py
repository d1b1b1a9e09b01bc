"""A job board: label and value are neighbours, rows are missing on some pages, so that positions shift."""

from __future__ import annotations

from html import escape
from random import Random
from typing import Any

from tests.servers.record_sites import words
from tests.servers.record_sites.frame import Frame, form_page, list_pages, other_pages
from tests.servers.record_sites.truth import Shown, SitePage

COUNT = 45
SECTIONS = ("Engineering", "Care", "Crafts")
FRAME = Frame("Workbench Jobs", SECTIONS, "divs")
ROLES = ("Carpenter", "Nurse", "Welder", "Archivist", "Surveyor", "Gardener", "Cook")
SKILLS = ("Driving licence", "First aid", "Forklift", "Two years at sea", "Patience", "Good German", "Night shifts")


def make(rng: Random, redesign: bool) -> list[SitePage]:
    items = [(f"/jobs/{30_000 + number * 13}", _fields(rng)) for number in range(COUNT)]
    pages = other_pages(FRAME, rng, SECTIONS, "/jobs")
    pages += list_pages(FRAME, "/jobs", [(path, fields["title"]) for path, fields in items])
    render = _second if redesign else _first
    for path, fields in items:
        similar = rng.sample([item for item in items if item[0] != path], 3)
        pages.append(SitePage(path, render(path, fields, similar), "job", fields))
        form = form_page(FRAME, fields["title"], ["Name", "Email", "Letter"], heading="Apply")
        pages.append(SitePage(f"{path}/apply", form, "application_form"))
    return pages


def _fields(rng: Random) -> dict[str, Any]:
    posted, closing = words.day(rng), words.day(rng)
    low = rng.randint(24, 60)
    role = rng.choice(["Senior ", "Junior ", ""]) + rng.choice(ROLES)
    return {
        "title": f"{role} ({rng.choice(words.ADJECTIVES)} {rng.choice(words.NOUNS)})",
        "company": f"{rng.choice(words.LAST_NAMES)} {rng.choice(['Ltd', 'GmbH', '& Co'])}",
        "location": rng.choice(words.CITIES),
        "salary": f"£{low},000 – £{low + rng.randint(3, 15)},000" if words.maybe(rng, 0.6) else None,
        "contract": rng.choice(["Permanent", "Temporary", "Freelance"]) if words.maybe(rng, 0.7) else None,
        "hours": Shown(f"{(hours := rng.choice([20, 30, 37, 40]))} hours a week", hours)
        if words.maybe(rng, 0.5)
        else None,
        "department": rng.choice(["Yard", "Ward 3", "Archive", "Kitchen"]) if words.maybe(rng, 0.4) else None,
        "reference": f"WB/{rng.randint(100, 999)}/{rng.choice('ABCD')}",
        "posted": Shown(f"{posted.day} {words.MONTHS[posted.month - 1][:3]} {posted.year}", posted.isoformat()),
        "closing": Shown(closing.strftime("%Y-%m-%d"), closing.isoformat()) if words.maybe(rng, 0.5) else None,
        "requirements": rng.sample(SKILLS, rng.randint(2, 5)),
        "description": Shown.paragraphs(words.paragraphs(rng, rng.randint(2, 4))),
    }


def _rows(f: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("Company", f["company"]),
        ("Location", f["location"]),
        ("Salary", f["salary"]),
        ("Contract", f["contract"]),
        ("Hours", f["hours"]),
        ("Department", f["department"]),
        ("Reference", f["reference"]),
        ("Posted", f["posted"]),
        ("Closing date", f["closing"]),
    ]
    return [(label, value) for label, value in rows if value]


def _first(path: str, f: dict[str, Any], similar: list[tuple[str, dict[str, Any]]]) -> str:
    main = (
        f'<h1>{escape(f["title"])}</h1><div class="box">'
        + "".join(
            f'<div class="label">{label}</div>\n<div class="value">{escape(value)}</div>\n' for label, value in _rows(f)
        )
        + '</div><h2>About the job</h2><div class="text">'
        + "".join(f"<p>{escape(part)}</p>" for part in f["description"].parts)
        + '</div><h2>You bring</h2><ul class="list">'
        + "".join(f"<li>{skill}</li>" for skill in f["requirements"])
        + '</ul><h2>We offer</h2><ul class="list"><li>Tea</li><li>A pension</li></ul>'
        + f'<a class="button" href="{path}/apply">Apply now</a><div class="box similar"><h3>Similar jobs</h3>'
        + "".join(
            f'<a href="{other}">{escape(fields["title"])}</a><div class="label">Company</div>'
            f'<div class="value">{fields["company"]}</div><div class="label">Location</div>'
            f'<div class="value">{fields["location"]}</div>'
            for other, fields in similar
        )
        + "</div>"
    )
    return FRAME.page(f["title"], main)


def _second(path: str, f: dict[str, Any], similar: list[tuple[str, dict[str, Any]]]) -> str:
    """A table with other labels in another order; company and place in one line under the title."""
    renamed = {"Salary": "Pay", "Contract": "Type", "Reference": "Ref. no.", "Closing date": "Apply until"}
    rows = [(renamed.get(label, label), value) for label, value in _rows(f) if label not in ("Company", "Location")]
    rows.sort(key=lambda row: row[0], reverse=True)
    main = (
        '<section class="vacancy"><header class="vacancy-head">'
        f'<p class="org"><span>{escape(f["company"])}</span> · <span>{f["location"]}</span></p>'
        f'<h1 class="vacancy-title">{escape(f["title"])}</h1></header><ul class="skills">'
        + "".join(f'<li class="skill">{skill}</li>' for skill in f["requirements"])
        + '</ul><div class="prose">'
        + "".join(f"<p>{escape(part)}</p>" for part in f["description"].parts)
        + '</div><table class="overview"><tbody>'
        + "".join(f"<tr><td>{label}</td><td>{escape(value)}</td></tr>" for label, value in rows)
        + f'</tbody></table><a href="{path}/apply">Go to the form</a></section><nav class="next">'
        + "".join(f'<a href="{other}">{escape(fields["title"])}</a> ' for other, fields in similar)
        + "</nav>"
    )
    return FRAME.page(f["title"], main)
