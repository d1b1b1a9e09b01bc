"""Run the themes of theme_sites: each function yields (path, html, record, shared values) of its pages.

What a theme needs comes by pip, npm and apt from the registries into the folder of work, once.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import time
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.theme_data import Record

SCRIPTS = Path(__file__).parent / "theme_scripts"
Built = Iterator[tuple[str, str, Record]]


@dataclass(frozen=True)
class Bench:
    """Where things are fetched to and built in."""

    work: Path

    def folder(self, *parts: str) -> Path:
        path = self.work.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, *command: Any, cwd: Path | None = None, given: str | None = None, **environment: str) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd or self.work,
            input=given,
            env={**os.environ, **environment},
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command[:3]}: {done.stderr[-2000:]}\n{done.stdout[-1000:]}")
        return done.stdout

    def python(self, name: str, *packages: str) -> Path:
        """An environment of its own for a site's software; the path of its python."""
        folder = self.work / "venv" / name
        if not (folder / "fetched").exists():
            self.folder("venv")
            self.run(sys.executable, "-m", "venv", folder)
            self.run(folder / "bin" / "python", "-m", "pip", "-q", "install", *packages)
            (folder / "fetched").touch()
        return folder / "bin" / "python"

    def source(self, package: str) -> Path:
        """The unpacked files of a package, which is not installed."""
        folder = self.work / "src" / package
        if not folder.exists():
            got = self.folder("dl", package)
            self.run(
                sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-build-isolation", "-d", got, package
            )
            archive = next(iter(got.iterdir()))
            if archive.suffix == ".whl":
                zipfile.ZipFile(archive).extractall(folder)
            else:
                with tarfile.open(archive) as packed:
                    packed.extractall(folder, filter="data")
        return folder

    def node(self, name: str, *packages: str) -> Path:
        folder = self.folder("node", name)
        if not (folder / "fetched").exists():
            (folder / "package.json").write_text("{}")
            options = ("--no-audit", "--no-fund", "--ignore-scripts", "--legacy-peer-deps", "--loglevel=error")
            self.run("npm", "install", *options, *packages, cwd=folder)
            (folder / "fetched").touch()
        return folder

    def debian(self, package: str) -> Path:
        """The unpacked files of a Debian package, which is not installed."""
        folder = self.work / "debian" / package
        if not folder.exists():
            got = self.folder("dl", package)
            self.run("apt-get", "download", package, cwd=got)
            self.run("dpkg", "-x", next(got.glob("*.deb")), self.folder("debian", package))
        return folder


def _plain(value: Any) -> Any:
    return {"_date": value.isoformat()} if isinstance(value, datetime) else str(value)


def _slug(text: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
    return "-".join(part for part in kept.split("-") if part)


# -- templates of Django packages --


def _all(items: Sequence[Any]) -> dict[str, Any]:
    return {"all": items}


def _django(bench: Bench, name: str, pages: list[tuple[str, Record, dict[str, Any]]], task: dict[str, Any]) -> Built:
    python = bench.python("django32", "Django==3.2.*", "pytz")
    out = bench.folder("out", name)
    rows = [
        {"template": task["template"], "context": context, "file": str(out / f"{n}.html")}
        for n, (_, _, context) in enumerate(pages)
    ]
    bench.run(python, SCRIPTS / "django_pages.py", given=json.dumps({**task, "pages": rows}, default=_plain))
    for row, (path, record, _) in zip(rows, pages, strict=True):
        yield path, Path(row["file"]).read_text(encoding="utf-8"), record


def _money(language: str, text: str) -> dict[str, Any]:
    return {"format": text, "comma": language != "en"}


def lfs_shop(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    theme = next(bench.source("lfs-theme").rglob("lfs_theme/templates")).parent
    pages = []
    for n, r in enumerate(records):
        others = [records[(n + step) % len(records)] for step in (1, 2, 3)]
        labels = {"brand": "Marke", "color": "Farbe", "weight": "Gewicht"}
        product = {
            "id": n,
            "get_name": r["title"],
            "get_meta_title": r["title"],
            "get_description": f"<p>{r['description']}</p>",
            "is_deliverable": True,
            "price": r["price"],
            "standard": r["old_price"],
            "get_displayed_properties": [
                {"title": label, "value": r[key], "property_group": "Merkmale"}
                for key, label in labels.items()
                if r[key]
            ],
        }
        context = {
            "product": product,
            "for_sale": r["old_price"] is not None,
            "price_includes_tax": True,
            "quantity": "1",
            "SlotLeft": True,
            "content_class": "span-19 last",
            "product_inline": "",
            "related": [{"name": o["title"], "price": o["price"]} for o in others],
        }
        pages.append((f"/product/{_slug(r['title'])}", r, context))
    inline = "lfs/catalog/products/product_inline.html"
    task: dict[str, Any] = {
        "dirs": [str(theme / "templates")],
        "locales": [str(theme / "locale")],
        "language": language,
        "template": "lfs/catalog/page.html",
        "templates": {
            "lfs/catalog/page.html": '{% extends "lfs/catalog/product_base.html" %}',
            "lfs/left.html": '<div class="portlet"><h2>Neu im Laden</h2><ul>{% for o in related %}<li>'
            '<a href="/product/{{ o.name|slugify }}">{{ o.name }}</a> '
            '<span class="price">{{ o.price|currency:1 }}</span></li>{% endfor %}</ul></div>',
        },
        "filters": {
            "currency": _money(language, "{} €"),
            "get_price_gross": {"key": "price"},
            "get_for_sale_price_gross": {"key": "price"},
            "get_standard_price_gross": {"key": "standard"},
        },
        "tags": {"lfs_portlet_slot": {"template": "lfs/left.html"}, "product_inline": {"template": inline}},
        "context": {"SHOP": {"get_meta_title": "Ladenzeile"}, "request": "", "price_unit": ""},
    }
    base = (theme / "templates/lfs/catalog/product_base.html").read_text()
    task["templates"]["lfs/catalog/product_base.html"] = base.replace(
        "{{ product_inline|safe }}", f'{{% include "{inline}" %}}'
    )
    keys = ("title", "price", "old_price", "brand", "color", "weight", "description")
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def _only(record: Record, *keys: str, **renamed: str) -> Record:
    found = {key: record[key] for key in keys}
    return {**found, **{new: record[old] for new, old in renamed.items()}}


def ecom_store(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    templates = next(bench.source("django-ecom-store").rglob("store/templates"))
    pages = []
    for n, r in enumerate(records):
        labels = {"brand": "Brand", "color": "Colour", "weight": "Weight", "sku": "Sku"}
        pairs = [{"key": {"key": label}, "value": {"value": r[key]}} for key, label in labels.items() if r[key]]
        full = r["old_price"] or r["price"]
        percent = round(100 - 100 * r["price"] / full)
        product = {
            "id": n,
            "product": {"title": r["title"]},
            "price": f"{full:.2f}",
            "reduced": f"{r['price']:.2f}",
            "unit": "piece",
            "info": r["description"],
            "discount": {"percent": percent} if r["old_price"] else None,
            "keyvalues": _all(pairs),
            "images": _all([{"name": r["title"], "image": {"url": f"/media/{n}.jpg"}}]),
            "now": f"{r['price']:.2f}",
        }
        pages.append((f"/product/{n + 300}/", r, {"product": product, "now": f"{r['price']:.2f}"}))
    source = (templates / "store/product.html").read_text()
    task = {
        "dirs": [str(templates)],
        "language": language,
        "template": "store/product.html",
        # Of a function of a price and a percentage only its result is known here.
        "templates": {
            "store/product.html": source.replace(
                "{{product.price|calculate_discount:product.discount.percent}}", "{{now}}"
            )
        },
        "context": {"currency": "$", "sitetitle": "Corner Shop", "cart_items_Count": 0, "checkDeliverability": True},
    }
    keys = ("title", "price", "old_price", "brand", "color", "weight", "sku", "description")
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def career_app(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    templates = next(bench.source("django-career-app").rglob("django_career_app/templates"))
    pages = []
    for n, r in enumerate(records):
        listed = "".join(f"<li>{line}</li>" for line in r["requirements"])
        posting = {
            "title": r["title"],
            "city": r["location"],
            "department": r["department"],
            "description": f"<p>{r['description']}</p><ul>{listed}</ul>",
            "date_posted": r["date_published"],
            "company_profile": {"name": r["company"], "url": r["url"]},
        }
        pages.append((f"/careers/job/{n + 40}/", r, {"job_posting": posting}))
    task = {"dirs": [str(templates)], "language": language, "template": "django_career_app/job_detail.html"}
    keys = ("title", "location", "department", "description", "requirements")
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def djobberbase(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    root = next(bench.source("django-djobberbase").rglob("djobberbase/templates")).parent
    departments = sorted({r["department"] or "Varios" for r in records})
    pages = []
    for n, r in enumerate(records):
        context = {
            "object": {
                "title": r["title"],
                "company": r["company"],
                "url": r["url"],
                "city": r["location"],
                "description": "\n".join([r["description"], *r["requirements"]]),
                "created_on": f"{r['date_published']:%d-%m-%Y}",
                "views_count": 17 * n + 40,
                "get_application_count": n % 7 + 2,
                "category": {"_text": r["department"] or "Varios", "var_name": "c"},
                "jobtype": {"var_name": "fulltime"},
                "apply_online": n % 2,
            },
            "page_type": "detail",
        }
        pages.append(
            (f"/job/{n + 11}/{_slug(r['title'])}/", {**r, "views": 17 * n + 40, "applicants": n % 7 + 2}, context)
        )
    task = {
        "dirs": [str(root / "templates")],
        "locales": [str(root / "locale")],
        "language": language,
        "template": "djobberbase/job_detail.html",
        "context": {
            "DJOBBERBASE_SITE_NAME": "Empleo Abierto",
            "DJOBBERBASE_HTML_TITLE": "Empleo Abierto",
            "total_jobs": len(records),
            "categories": [{"_text": one, "var_name": _slug(one), "get_total_jobs": 3} for one in departments],
        },
    }
    keys = ("title", "company", "location", "date_published", "views", "applicants")
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


_MENU = (
    '<li class="child"><a href="/">Start</a></li><li class="child selected"><a href="/{0}/">{1}</a></li>'
    '<li class="child"><a href="/kontakt/">{2}</a></li>'
)


def _aldryn(bench: Bench, package: str, section: str, contact: str) -> dict[str, Any]:
    """The task of a django CMS add-on in the project that the CMS's installer makes."""
    short = package.replace("-", "_")
    root = next(path for path in bench.source(package).rglob(short) if (path / "boilerplates").exists())
    base = next(bench.source("djangocms-installer").rglob("share/templates/bootstrap/base.html"))
    return {
        "dirs": [str(root / "boilerplates/bootstrap3/templates"), str(root / "templates")],
        "locales": [str(root / "locale")],
        "templates": {"base.html": base.read_text(), "menu": _MENU.format(_slug(section), section, contact)},
        "tags": {
            "render_model": {"render": True},
            "render_placeholder": {"print": 0},
            "show_menu": {"template": "menu"},
        },
        "context": {"CMS_TEMPLATE": "base.html"},
    }


def aldryn_jobs(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    task = _aldryn(bench, "aldryn-jobs", "Stellenangebote", "Kontakt")
    pages = []
    for r in records:
        listed = "".join(f"<li>{line}</li>" for line in r["requirements"])
        opening = {
            "title": r["title"],
            "category": {"_text": r["department"] or "Allgemein", "get_absolute_url": "/jobs/k/"},
            "publication_start": r["date_published"],
            "lead_in": r["summary"],
            "content": f"<p>{r['description']}</p><ul>{listed}</ul>",
        }
        truth = {**r, "category": opening["category"]["_text"]}
        pages.append((f"/jobs/{_slug(r['title'])}/", truth, {"object": opening}))
    keys = ("title", "category", "date_published", "summary", "description", "requirements")
    task |= {"language": language, "template": "aldryn_jobs/jobs_detail.html"}
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def aldryn_events(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    task = _aldryn(bench, "aldryn-events", "Agenda", "Contact")
    pages = []
    for n, r in enumerate(records):
        end = r["end_date"]
        event = {
            "title": r["title"],
            "location": r["location"],
            "start_date": r["start_date"],
            "start_at": r["start_date"],
            "start_time": r["start_date"],
            "end_date": end,
            "end_at": end,
            "end_time": end,
            "short_description": r["description"].partition(". ")[0] + ".",
            "description": f"<p>{r['description']}</p>",
            "detail_link": f"https://{n}.example/" if n % 3 == 0 else None,
        }
        truth = {**r, "start_date": r["start_date"].date(), "end_date": end and end.date()}
        nearby = {
            "prev_event": {"get_absolute_url": "/agenda/p/"} if n else None,
            "next_event": {"get_absolute_url": "/agenda/n/"},
        }
        pages.append((f"/agenda/{_slug(r['title'])}/", truth, {"event": event, **nearby}))
    keys = ("title", "location", "start_date", "end_date", "description")
    task |= {"language": language, "template": "aldryn_events/events_detail.html"}
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def aldryn_people(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    task = _aldryn(bench, "aldryn-people", "Equipo", "Contacto")
    task["tags"]["thumbnail"] = {"print": 0}
    pages = []
    for n, r in enumerate(records):
        shown = {
            "name": r["name"],
            "function": r["job_title"],
            "phone": r["phone"],
            "email": r["email"],
            "website": r["website"],
            "description": f"<p>{r['summary']}</p>",
            "visual": f"/media/people/{n}.jpg" if n % 2 else None,
            "vcard_enabled": True,
        }
        pages.append((f"/equipo/{_slug(r['name'])}/", r, {"person": shown}))
    keys = ("name", "job_title", "phone", "email", "website", "summary")
    task |= {"language": language, "template": "aldryn_people/person_detail.html"}
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def cookbook(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    root = next(bench.source("django-vegetarian-cookbook").rglob("vegetarian_cookbook/templates"))
    pages = []
    for n, r in enumerate(records):
        weights = [int(line.partition(" ")[0]) for line in r["ingredients"]]
        foods = [
            {"id": k, "weight": weight, "ingredient": {"id": k, "name": food, "energy": 90 + 7 * k}, "quantity": None}
            for k, (food, weight) in enumerate(zip(r["foods"], weights, strict=True))
        ]
        minutes = r["cook_time"]
        recipe = {
            "id": n,
            "title": r["title"],
            "url": _slug(r["title"]),
            "category": {"name": r["category"]},
            "time": minutes,
            "get_complexity_display": ("easy", "medium", "hard")[n % 3],
            "recipeingredient_set": _all(foods),
            "description": "<ol>" + "".join(f"<li>{step}</li>" for step in r["steps"]) + "</ol>",
            "tags": _all([{"name": tag} for tag in r["tags"] or ()]),
            "weight": sum(weights),
        }
        energy = {"protein": n % 7 + 2, "fat": n % 5 + 3, "carbohydrate": n % 11 + 9, "energy": 90 + n}
        more = {"recipe": recipe, "minutes": (minutes or 0) % 60, "hours": (minutes or 0) // 60, "size": 80, **energy}
        truth = {**r, "ingredients": r["foods"], "difficulty": recipe["get_complexity_display"], "calories": 90 + n}
        truth["cook_time"] = minutes and (
            f"{minutes} minutes" if minutes < 60 else f"{minutes // 60} hour {minutes % 60} minutes"
        )
        pages.append((f"/recipe/{recipe['url']}", truth, more))
    parts = "vegetarian_cookbook/templatetags/"
    task = {
        "dirs": [str(root)],
        "language": language,
        "template": "vegetarian_cookbook/detail.html",
        "filters": {"human_float": {"format": "{}", "digits": 0}},
        "tags": {
            "recipe_cooking_time": {"template": f"{parts}recipe_cooking_time.html"},
            "recipe_energy_nutrients": {"template": f"{parts}recipe_energy_nutrients.html"},
        },
    }
    keys = ("title", "category", "ingredients", "steps", "tags", "cook_time", "difficulty", "calories")
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def zinnia(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    root = next(bench.source("django-blog-zinnia").rglob("zinnia/templates")).parent
    pages = []
    for n, r in enumerate(records):
        entry = {
            "pk": n,
            "title": r["title"],
            "get_absolute_url": f"/blog/{n}/",
            "authors": _all(
                [{"_text": r["author"], "get_full_name": r["author"], "get_absolute_url": "/blog/autores/a/"}]
            ),
            "publication_date": r["date_published"],
            "last_update": r["date_modified"] or r["date_published"] + timedelta(days=3),
            "creation_date": r["date_published"],
            "categories": _all([{"_text": r["category"], "get_absolute_url": "/blog/categorias/c/"}]),
            "lead": r["subtitle"],
            "html_lead": f"<p>{r['subtitle']}</p>",
            "tags": ", ".join(r["tags"] or ()),
            "tags_list": r["tags"] or [],
            "short_url": f"/blog/{n:x}/",
            "comments_are_open": True,
            "content_template": "zinnia/_entry_detail.html",
            "html_content": "".join(f"<p>{text}</p>" for text in r["paragraphs"]),
            "previous_entry": {"title": records[n - 1]["title"], "get_absolute_url": f"/blog/{n - 1}/"} if n else None,
        }
        truth = {**r, "date_published": r["date_published"].date(), "date_modified": entry["last_update"].date()}
        pages.append((f"/blog/{r['date_published']:%Y/%m/%d}/{_slug(r['title'])}/", truth, {"object": entry}))
    task = {
        "dirs": [str(root / "templates")],
        "locales": [str(root / "locale")],
        "language": language,
        "template": "zinnia/entry_detail_base.html",
    }
    keys = ("title", "subtitle", "author", "date_published", "date_modified", "category", "tags")
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


# -- packages of npm --


def resume(theme: str) -> Any:
    def build(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
        node = bench.node(f"resume_{theme}", f"jsonresume-theme-{theme}")
        out = bench.folder("out", name)
        pages: list[tuple[str, Record]] = []
        rows: list[dict[str, Any]] = []
        for n, r in enumerate(records):
            resume: dict[str, Any] = {
                "basics": {
                    "name": r["name"],
                    "label": r["job_title"],
                    "email": r["email"],
                    "phone": r["phone"],
                    "url": r["website"],
                    "website": r["website"],
                    "summary": r["summary"],
                    "location": {"city": r["city"], "countryCode": language.upper(), "address": "", "region": ""},
                    "profiles": [],
                },
                "work": [
                    {
                        "name": employer,
                        "company": employer,
                        "position": r["job_title"],
                        "startDate": f"{2010 + 3 * k}-02-01",
                        "endDate": f"{2012 + 3 * k}-11-01",
                        "summary": f"{employer}, {r['city']}.",
                        "highlights": [],
                    }
                    for k, employer in enumerate(r["employers"])
                ],
                "education": [
                    {
                        "institution": r["university"],
                        "area": r["skills"][0],
                        "studyType": "B.Sc.",
                        "startDate": "2003-09-01",
                        "endDate": "2007-06-01",
                        "courses": [],
                    }
                ],
                "awards": [{"title": r["award"], "date": "2019-05-01", "awarder": r["university"], "summary": ""}]
                if r["award"]
                else [],
                "skills": [{"name": skill, "level": "", "keywords": []} for skill in r["skills"]],
                "interests": [{"name": r["hobby"], "keywords": []}] if r["hobby"] else [],
                **{part: [] for part in ("volunteer", "publications", "languages", "references", "projects")},
                "certificates": [],
            }
            resume["basics"] = {key: value for key, value in resume["basics"].items() if value is not None}
            rows.append({"resume": resume, "file": str(out / f"{n}.html")})
            pages.append((f"/people/{_slug(r['name'])}", r))
        task = {"theme": f"jsonresume-theme-{theme}", "pages": rows}
        bench.run("node", SCRIPTS / "resumes.js", cwd=node, given=json.dumps(task))
        keys = ("name", "job_title", "email", "phone", "website", "summary", "employers", "skills", "award", "city")
        for (path, r), row in zip(pages, rows, strict=True):
            yield path, Path(row["file"]).read_text(encoding="utf-8"), _only(r, *keys)

    return build


def _express_cart(theme: str, currency: str) -> Any:
    def build(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
        node = bench.node("express_cart", "express-cart", "handlebars@4")
        out = bench.folder("out", name)
        rows: list[dict[str, Any]] = []
        for n, r in enumerate(records):
            options = {}
            if r["color"]:
                options["c"] = {"optName": "Color", "optType": "select", "optOptions": [r["color"]]}
            product = {
                "_id": f"5f{n:06x}",
                "productTitle": r["title"],
                "productPrice": f"{r['price']:.2f}",
                "productDescription": f"<p>{r['description']}</p><p>{r['brand'] or ''}</p>"
                if r["brand"]
                else r["description"],
                "productImage": f"/uploads/{n}.jpg" if n % 2 else "",
                "productComment": n % 3 == 0,
            }
            images = [{"path": f"/uploads/{n}-{k}.jpg"} for k in range(n % 3)]
            rows.append({"product": product, "options": options, "images": images, "file": str(out / f"{n}.html")})
        menu = [{"title": r, "link": f"/category/{_slug(r)}"} for r in sorted({r["category"] for r in records})]
        task = {"theme": theme, "currency": currency, "title": "La Tienda", "menu": menu, "pages": rows}
        bench.run("node", SCRIPTS / "express_cart.js", cwd=node, given=json.dumps(task))
        for r, row in zip(records, rows, strict=True):
            html = Path(row["file"]).read_text(encoding="utf-8")
            yield f"/product/{_slug(r['title'])}", html, _only(r, "title", "price", "brand", "color", "description")

    return build


express_material = _express_cart("Material", "€")


def hexo(theme: str) -> Any:
    def build(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
        plugins = ("marked", "ejs", "stylus", "pug", "jade", "swig", "nunjucks", "inferno")
        packages = (*(f"hexo-renderer-{one}" for one in plugins), f"hexo-theme-{theme}")
        node = bench.node(f"hexo_{theme}", "hexo", "hexo-generator-index", "hexo-component-inferno", *packages)
        site = bench.folder("out", name)
        if not (site / "node_modules").exists():
            (site / "node_modules").symlink_to(node / "node_modules")
        package = json.loads((node / "package.json").read_text())
        (site / "package.json").write_text(json.dumps({**package, "hexo": {"version": ""}}))
        posts = bench.folder("out", name, "source", "_posts")
        title = {"en": "The Ledger", "de": "Das Tagblatt", "fr": "Le Courrier", "es": "El Diario"}[language]
        settings = (
            f"title: {title}\nurl: http://{name}.example\nlanguage: {language}\npermalink: :year/:month/:title/\n"
        )
        (site / "_config.yml").write_text(f"{settings}theme: {theme}\nauthor: {title}\n")
        for r in records:
            head = {"title": r["title"], "date": f"{r['date_published']:%Y-%m-%d %H:%M:%S}", "author": r["author"]}
            head |= {"categories": [r["category"]]} | ({"tags": r["tags"]} if r["tags"] else {})
            head["updated"] = f"{r['date_modified'] or r['date_published']:%Y-%m-%d %H:%M:%S}"
            head |= {"subtitle": r["subtitle"], "excerpt": r["subtitle"]} if r["subtitle"] else {}
            lines = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in head.items())
            (posts / f"{_slug(r['title'])}.md").write_text(f"---\n{lines}---\n" + "\n\n".join(r["paragraphs"]))
        bench.run("node", SCRIPTS / "hexo_site.js", cwd=site, TZ="UTC")
        for r in records:
            path = f"/{r['date_published']:%Y/%m}/{_slug(r['title'])}/"
            html = (site / "public" / path.strip("/") / "index.html").read_text(encoding="utf-8")
            keys = ("title", "subtitle", "author", "date_published", "date_modified", "category", "tags")
            yield path, html, _only(r, *keys)

    return build


# -- software that serves its pages --


@contextmanager
def _served(command: Sequence[Any], port: int, cwd: Path, **environment: str) -> Iterator[str]:
    """Run a server while its pages are read."""
    with (cwd / "served.log").open("w") as log:
        process = subprocess.Popen(
            [str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, stdout=log, stderr=log
        )
    try:
        for _ in range(240):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                raise RuntimeError((cwd / "served.log").read_text()[-2000:])
            time.sleep(0.25)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _read(url: str, language: str = "en") -> str:
    asked = urllib.request.Request(urllib.parse.quote(url, safe=":/?&=%#"), headers={"Accept-Language": language})
    with urllib.request.urlopen(asked) as answer:
        return str(answer.read().decode("utf-8", "replace"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _copied(source: Path, target: Path) -> None:
    """A copy without links, which lead out of an unpacked package."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    for path in list(target.rglob("*")):
        if path.is_symlink():
            path.unlink()


def _stamped(page: Path, n: int) -> datetime:
    """Give the file a time of change, which a wiki shows."""
    when = datetime(2023, 1, 2, 8, tzinfo=UTC) + timedelta(days=5 * n, minutes=7 * n)
    os.utime(page, (when.timestamp(), when.timestamp()))
    return when.replace(tzinfo=None)


_INFOBOX = """{| class="infobox wikitable" style="float:right"
|+ {{{nom}}}
{{#if:{{{genre|}}}|<tr><th>Genre</th><td>{{{genre}}}</td></tr>}}
{{#if:{{{adresse|}}}|<tr><th>Adresse</th><td>{{{adresse}}}</td></tr>}}
{{#if:{{{ville|}}}|<tr><th>Ville</th><td>[[{{{ville}}}]]</td></tr>}}
{{#if:{{{code|}}}|<tr><th>Code postal</th><td>{{{code}}}</td></tr>}}
{{#if:{{{fondation|}}}|<tr><th>Fondation</th><td>{{{fondation}}}</td></tr>}}
{{#if:{{{proprietaire|}}}|<tr><th>Propriétaire</th><td>{{{proprietaire}}}</td></tr>}}
{{#if:{{{telephone|}}}|<tr><th>Téléphone</th><td>{{{telephone}}}</td></tr>}}
|}"""


def mediawiki(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    wiki = bench.folder("out", name) / "w"
    shutil.rmtree(wiki.parent / "db", ignore_errors=True)
    _copied(bench.debian("mediawiki") / "usr/share/mediawiki", wiki)
    shutil.copytree(
        bench.debian("mediawiki-classes") / "usr/share/mediawiki/includes", wiki / "includes", dirs_exist_ok=True
    )
    for part in ("extensions", "images"):
        (wiki / part).mkdir(exist_ok=True)
    shutil.copytree(wiki / "extensions-core/ParserFunctions", wiki / "extensions/ParserFunctions")
    port = _free_port()
    origin = f"http://127.0.0.1:{port}"
    options = f"--dbtype sqlite --dbpath {wiki.parent / 'db'} --scriptpath= --server {origin} --lang {language}"
    bench.run(
        "php",
        "maintenance/install.php",
        *options.split(),
        "--skins",
        "Vector",
        "--pass",
        "long-pass-9876",
        "Wikirégion",
        "Admin",
        cwd=wiki,
    )
    with (wiki / "LocalSettings.php").open("a") as settings:
        settings.write("\nwfLoadExtension('ParserFunctions');\n$wgMainCacheType = CACHE_NONE;\n")
    texts = bench.folder("out", name, "texts")
    names = {"nom": "name", "genre": "category", "adresse": "address", "ville": "city", "code": "postal_code"}
    names |= {"fondation": "founded", "proprietaire": "owner", "telephone": "phone"}
    (texts / "Modèle:Infobox lieu.txt").write_text(_INFOBOX)
    for n, r in enumerate(records):
        filled = "\n".join(f"|{key}={r[field]}" for key, field in names.items() if r[field] is not None)
        text = f"{{{{Infobox lieu\n{filled}\n}}}}\n'''{r['name']}''' — {r['description']}\n\n== Histoire ==\n"
        text += r["description"].partition(". ")[2] + "\n"
        page = texts / f"{r['name']}.txt"
        page.write_text(f"{text}\n[[Catégorie:{r['category']}]]\n[[Catégorie:{r['city']}]]\n")
        r["date_modified"] = _stamped(page, n)
    files = sorted((str(path) for path in texts.glob("*.txt")), key=lambda path: "Modèle:" not in path)
    bench.run("php", "maintenance/importTextFiles.php", "--use-timestamp", "--overwrite", *files, cwd=wiki)
    with _served(("php", "-S", f"127.0.0.1:{port}"), port, wiki, PHP_CLI_SERVER_WORKERS="2") as site:
        for r in records:
            path = f"/index.php/{r['name'].replace(' ', '_')}"
            keys = ("category", "address", "city", "postal_code", "founded", "owner", "phone", "date_modified")
            yield path, _read(site + path), _only(r, "name", *keys)


def dokuwiki(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    site = bench.folder("out", name) / "w"
    package = bench.debian("dokuwiki")
    _copied(package / "usr/share/dokuwiki", site)
    for source, target in (("etc/dokuwiki", "conf"), ("var/lib/dokuwiki/data", "data")):
        _copied(package / source, site / target)
    for part in ("tpl", "plugins"):
        _copied(package / "var/lib/dokuwiki/lib" / part, site / "lib" / part)
    (site / "inc/preload.php").write_text(f"<?php\ndefine('DOKU_CONF', '{site}/conf/');\n")
    settings = {
        "title": "Kochwiki",
        "lang": language,
        "savedir": str(site / "data"),
        "useacl": 0,
        "userewrite": 2,
        "updatecheck": 0,
    }
    lines = "".join(f"$conf['{key}'] = {json.dumps(value)};\n" for key, value in settings.items())
    (site / "conf/local.php").write_text(f"<?php\n{lines}")
    for n, r in enumerate(records):
        facts = {"Portionen": r["servings"], "Vorbereitung": f"{r['prep_time']} Minuten"}
        facts |= {"Kochzeit": r["cook_time"] and f"{r['cook_time']} Minuten", "Von": r["author"]}
        rows = "".join(f"^ {label} | {value} |\n" for label, value in facts.items() if value)
        foods = "".join(f"  * {food}\n" for food in r["ingredients"])
        steps = "".join(f"  - {step}\n" for step in r["steps"])
        page = site / f"data/pages/rezept{n + 20}.txt"
        page.write_text(
            f"====== {r['title']} ======\n\n{r['description']}\n\n{rows}\n===== Zutaten =====\n\n{foods}\n"
            f"===== Zubereitung =====\n\n{steps}\n"
        )
        r["date_modified"] = _stamped(page, n)
    port = _free_port()
    loaded = site / "vendor/composer/autoload_static.php"
    moved = {"php/phpseclib": bench.debian("php-phpseclib"), "php-geshi": bench.debian("php-geshi")}
    text = loaded.read_text()
    for part, unpacked in moved.items():
        text = text.replace(f"'/usr/share/{part}", f"'{unpacked}/usr/share/{part}")
        text = text.replace(f"__DIR__ . '/../..' . '/usr/share/{part}", f"'{unpacked}/usr/share/{part}")
        text = text.replace(f"__DIR__ . '/..' . '/usr/share/{part}", f"'{unpacked}/usr/share/{part}")
    loaded.write_text(text)
    php = ("php", "-d", "display_errors=0", "-d", "date.timezone=UTC")
    with _served((*php, "-S", f"127.0.0.1:{port}"), port, site) as origin:
        for n, r in enumerate(records):
            path = f"/doku.php/rezept{n + 20}"
            times = {key: r[key] and f"{r[key]} Minuten" for key in ("prep_time", "cook_time")}
            keys = ("title", "description", "servings", "author", "ingredients", "steps", "date_modified")
            yield path, _read(origin + path), _only({**r, **times}, *keys, "prep_time", "cook_time")


def calibre_web(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    python = bench.python("calibre", "calibreweb")
    folder = bench.folder("out", name)
    library = folder / "library"
    books = [{**r, "language": {"es": "spa", "en": "eng"}[language]} for r in records]
    given = json.dumps([{**b, "date_published": b["date_published"].isoformat()} for b in books])
    bench.run(python, SCRIPTS / "calibre_library.py", library, given=given)
    (folder / "app.db").unlink(missing_ok=True)
    port = _free_port()
    command = (python, "-m", "calibreweb", "-p", folder / "app.db", "-g", folder / "gdrive.db", "-i", "127.0.0.1")
    with _served(command, 8083, folder, CALIBRE_PORT=str(port)):
        pass
    with sqlite3.connect(folder / "app.db") as app:
        app.execute(
            "update settings set config_calibre_dir = ?, config_port = ?, config_anonbrowse = 1", (str(library), port)
        )
        app.execute("update user set locale = ?, default_language = 'all'", (language,))
    with _served(command, port, folder) as origin:
        for n, r in enumerate(records):
            truth = _only(r, "title", "author", "publisher", "date_published", "series", "tags", "description")
            truth["date_published"] = r["date_published"].date()
            yield f"/book/{n + 1}", _read(f"{origin}/book/{n + 1}"), truth


def _with_views(records: list[Record]) -> list[Record]:
    return [{**r, "views": 37 * n + 114} for n, r in enumerate(records)]


def spirit(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    python = bench.python("spirit", "django-spirit", "setuptools<81")
    folder = bench.folder("out", name)
    shutil.rmtree(folder / "forum", ignore_errors=True)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    bench.run(python.parent / "spirit", "startproject", "forum", cwd=folder, PATH=path)
    settings = folder / "forum/forum/settings/dev.py"
    settings.write_text(settings.read_text() + f'\nLANGUAGE_CODE = "{language}"\n')
    bench.run(python, "manage.py", "spiritinstall", cwd=folder / "forum")
    threads = _with_views(records)
    given = json.dumps({"threads": threads, "language": language}, default=lambda when: when.isoformat())
    said = bench.run(python, SCRIPTS / "spirit_topics.py", folder, cwd=folder / "forum", given=given)
    for n, (r, path) in enumerate(zip(threads, json.loads(said.splitlines()[-1]), strict=True)):
        html = (folder / f"{n}.html").read_text(encoding="utf-8")
        yield path, html, _only(r, "title", "category", "posts")


def trac(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    python = bench.python("trac", "Trac", "Babel", "setuptools<81")
    folder = bench.folder("out", name)
    shutil.rmtree(folder / "env", ignore_errors=True)
    given = json.dumps({"issues": records}, default=lambda when: when.isoformat())
    bench.run(python, SCRIPTS / "trac_tickets.py", folder / "env", given=given)
    port = _free_port()
    command = (python.parent / "tracd", "-s", "--hostname=127.0.0.1", f"--port={port}", folder / "env")
    with _served(command, port, folder, TZ="UTC") as origin:
        for n, r in enumerate(records):
            keys = ("title", "reporter", "assigned_to", "priority", "component", "version", "keywords", "description")
            html = _read(f"{origin}/ticket/{n + 1}", language)
            yield f"/ticket/{n + 1}", html, _only(r, *keys, "date_created")


def datasette(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    python = bench.python("datasette", "datasette", "setuptools<81")
    folder = bench.folder("out", name)
    (folder / "town.db").unlink(missing_ok=True)
    columns = [key for key in records[0] if key != "name"]
    with sqlite3.connect(folder / "town.db") as town:
        town.execute(f"create table directory (id integer primary key, name text, {', '.join(columns)})")
        marks = ", ".join("?" * (len(columns) + 2))
        for n, r in enumerate(records):
            town.execute(f"insert into directory values ({marks})", (n + 1, r["name"], *(r[key] for key in columns)))
    town.close()
    port = _free_port()
    with _served((python, "-m", "datasette", "town.db", "-h", "127.0.0.1", "-p", port), port, folder) as origin:
        for n, r in enumerate(records):
            yield f"/town/directory/{n + 1}", _read(f"{origin}/town/directory/{n + 1}", language), r


# -- documentation --


def _html_of(folder: Path, path: str) -> str:
    return (folder / path).read_text(encoding="utf-8")


def sphinx_book(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    python = bench.python("sphinx", "sphinx", "sphinx-book-theme")
    source = bench.folder("out", name, "source")
    title = {"en": "Field Manual", "de": "Handbuch", "fr": "Manuel", "es": "Manual"}[language]
    (source / "conf.py").write_text(
        f'project = "{title}"\nhtml_theme = "sphinx_book_theme"\nlanguage = "{language}"\nhtml_title = "{title}"\n'
        "html_show_sphinx = False\n"
    )
    paths = [f"notes/{_slug(r['title'])}" for r in records]
    (source / "index.rst").write_text(
        f"{title}\n{'=' * 40}\n\n.. toctree::\n\n" + "".join(f"   {path}\n" for path in paths)
    )
    (source / "notes").mkdir(exist_ok=True)
    for r, path in zip(records, paths, strict=True):
        facts = {"Author": r["author"], "Version": r["version"], "Status": r["status"], "Replaces": r["replaces"]}
        facts["Date"] = r["date_modified"] and f"{r['date_modified']:%Y-%m-%d}"
        lines = "".join(f":{label}: {value}\n" for label, value in facts.items() if value)
        parts = "\n\n".join(f"Part {n + 1}\n------\n\n{text}" for n, text in enumerate(r["paragraphs"]))
        text = f"{r['title']}\n{'=' * 60}\n\n{lines}\n{r['description']}\n\n{parts}\n"
        (source / f"{path}.rst").write_text(text)
    out = bench.folder("out", name, "html")
    bench.run(python, "-m", "sphinx", "-q", "-b", "html", source, out)
    for r, path in zip(records, paths, strict=True):
        truth = {**r, "date_modified": r["date_modified"] and r["date_modified"].date()}
        keys = ("title", "author", "version", "status", "replaces", "date_modified", "description")
        yield f"/{path}.html", _html_of(out, f"{path}.html"), _only(truth, *keys)


def mkdocs_cinder(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    python = bench.python("mkdocs", "mkdocs", "mkdocs-material", "mkdocs-cinder")
    folder = bench.folder("out", name)
    docs = bench.folder("out", name, "docs", "p")
    (folder / "mkdocs.yml").write_text("site_name: Paketkiste\ntheme: cinder\nsite_url: http://x.example/\n")
    (folder / "docs/index.md").write_text("# Paketkiste\n")
    words = {
        "version": "Version",
        "author": "Autor",
        "license": "Lizenz",
        "keywords": "Schlagworte",
        "homepage": "Webseite",
    }
    for r in records:
        rows = "".join(f"- **{label}:** {r[key]}\n" for key, label in words.items() if r[key])
        install = f"```\npip install {r['name']}\n```"
        (docs / f"{r['name']}.md").write_text(
            f"# {r['name']}\n\n{r['summary']}.\n\n{rows}\n## Installation\n\n{install}\n\n"
            f"## Beschreibung\n\n{r['description']}\n"
        )
    bench.run(python, "-m", "mkdocs", "-q", "build", cwd=folder)
    for r in records:
        path = f"p/{r['name']}/"
        keys = ("name", "version", "author", "license", "keywords", "homepage", "description")
        yield (
            f"/{path}",
            _html_of(folder / "site", f"{path}index.html"),
            {**_only(r, *keys), "summary": f"{r['summary']}."},
        )


def happenings(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    root = next(bench.source("django-happenings").rglob("happenings/templates")).parent
    pages = []
    for n, r in enumerate(records):
        place = {"name": r["location"], "address_line_1": r["address"], "city": r["city"]} if r["location"] else None
        event = {
            "title": r["title"],
            "description": r["description"],
            "start_date": r["start_date"],
            "end_date": r["start_date"] + timedelta(hours=2),
            "location": {"all": [place] if place else []},
            "categories": {"all": [{"title": r["category"]}]},
            "tags": {"all": [{"name": tag} for tag in r["tags"] or ()]},
        }
        for many in ("location", "categories", "tags"):
            event[many]["all"] = {"_items": event[many]["all"]}
        truth = {**r, "start_date": r["start_date"].date(), "categories": [r["category"]]}
        if not place:
            truth |= {"address": None, "city": None}
        pages.append((f"/calendar/event/{n + 5}/", truth, {"event": event}))
    task = {
        "dirs": [str(root / "templates")],
        "locales": [],
        "language": language,
        "template": "happenings/event_detail.html",
    }
    keys = ("title", "start_date", "location", "address", "city", "categories", "tags", "description")
    return _django(bench, name, [(path, _only(r, *keys), c) for path, r, c in pages], task)


def pretalx(bench: Bench, name: str, language: str, records: list[Record]) -> Built:
    python = bench.python("pretalx", "pretalx")
    folder = bench.folder("out", name)
    (folder / "db.sqlite3").unlink(missing_ok=True)
    talks = []
    for n, r in enumerate(records):
        abstract, _, rest = r["description"].partition(". ")
        more = {"room": f"Saal {1 + n % 4}", "abstract": f"{abstract}.", "description": rest or abstract}
        talks.append({**r, **more, "biography": f"{r['city']}: {abstract}." if n % 3 == 0 else None})
    given = json.dumps({"events": talks, "language": language}, default=lambda when: when.isoformat())
    settings = {
        "PRETALX_DB_NAME": str(folder / "db.sqlite3"),
        "PRETALX_DATA_DIR": str(folder / "data"),
        "PRETALX_SITE_URL": "http://localhost",
    }
    said = bench.run(
        python,
        SCRIPTS / "pretalx_talks.py",
        folder,
        given=given,
        cwd=folder,
        DJANGO_SETTINGS_MODULE="pretalx.settings",
        PRETALX_DEBUG="True",
        **settings,
    )
    for n, (r, path) in enumerate(zip(talks, json.loads(said.splitlines()[-1]), strict=True)):
        truth = _only(r, "title", "start_date", "speaker", "abstract", "description", "biography", location="room")
        yield path, _html_of(folder, f"{n}.html"), {**truth, "start_date": r["start_date"].date()}
