"""Records of site templates that nobody tuned for: themes of packages, on records that are known.

    python -m benchmarks.theme_sites FOLDER [NAME ...] --build [--work DIR]     fetch, build and save; DIR keeps it all
    python -m benchmarks.theme_sites FOLDER [NAME ...] --oracle [--pages 10]    an annotator with the truth, with slips
    python -m benchmarks.theme_sites FOLDER [NAME ...] --annotator [--asked]    without a model: F1 of each field

Needs the registries of PyPI, npm and Debian (apt-get, php-cli with SQLite, XML and mbstring), and node. Real themes and
templates make the pages: of shops, blogs, wikis, forums, trackers, CVs, events, jobs, recipes, books, documentation and
packages, in four languages. A value of a record counts where its page shows it, in whatever form.
Do not tune the learning of records on these pages: they tell how it does on sites that nobody has seen. For that there
are those of --development, which are built as well, and those of --written, which are beside this.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import logging
import lzma
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import cycle, groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

from lxml import html as lxml_html

from benchmarks import theme_builders as built
from benchmarks.null_discipline import crawled, report
from benchmarks.theme_data import Record, make_records
from benchmarks.theme_scoring import learned, lines_of_report
from llmcrawler.core.understanding.extraction.training_run import ColumnAnnotator
from tests.servers.record_sites import Shown, Site, SitePage

PAGES = 40
WRITTEN = Path(__file__).with_name("templates.jsonl.xz")
Builder = Callable[[built.Bench, str, str, list[Record]], built.Built]


@dataclass(frozen=True)
class Template:
    page_type: str
    language: str
    build: Builder
    kind: str = ""  # of theme_data, where the type of the page is not its name


# Decided before any page of them was read by llmcrawler.
TEMPLATES: dict[str, Template] = {
    "lfs_shop": Template("product", "de", built.lfs_shop),
    "ecom_store": Template("product", "en", built.ecom_store),
    "career_app": Template("job", "en", built.career_app),
    "djobberbase": Template("job", "es", built.djobberbase),
    "aldryn_jobs": Template("job", "de", built.aldryn_jobs),
    "aldryn_events": Template("event", "fr", built.aldryn_events),
    "happenings": Template("event", "en", built.happenings),
    "pretalx": Template("event", "de", built.pretalx),
    "aldryn_people": Template("profile", "es", built.aldryn_people, "person"),
    "cookbook": Template("recipe", "en", built.cookbook),
    "zinnia": Template("article", "es", built.zinnia),
    "resume_even": Template("profile", "en", built.resume("even"), "person"),
    "resume_macchiato": Template("profile", "fr", built.resume("macchiato"), "person"),
    "resume_elegant": Template("profile", "de", built.resume("elegant"), "person"),
    "express_material": Template("product", "es", built.express_material),
    "hexo_landscape": Template("article", "de", built.hexo("landscape")),
    "hexo_fluid": Template("article", "en", built.hexo("fluid")),
    "hexo_icarus": Template("article", "fr", built.hexo("icarus")),
    "mediawiki": Template("place", "fr", built.mediawiki),
    "dokuwiki": Template("recipe", "de", built.dokuwiki),
    "calibre_web": Template("book", "es", built.calibre_web),
    "spirit": Template("forum_thread", "fr", built.spirit),
    "trac": Template("issue", "de", built.trac),
    "datasette": Template("place", "es", built.datasette),
    "sphinx_book": Template("proposal", "en", built.sphinx_book, "documentation"),
    "mkdocs_cinder": Template("package", "de", built.mkdocs_cinder),
}
# To look at while rules are changed: other themes of the same kinds.
_RESUMES = "kendall stackoverflow class flat spartan onepage short kards straightforward modern caffeine".split()
_BLOGS = "butterfly keep redefine stellar melody".split()
DEVELOPMENT = {
    **{
        f"resume_{theme}": Template("profile", language, built.resume(theme), "person")
        for theme, language in zip(_RESUMES, cycle(("de", "fr", "es", "en")))
    },
    **{
        f"hexo_{theme}": Template("article", language, built.hexo(theme))
        for theme, language in zip(_BLOGS, cycle(("fr", "en", "de", "es")))
    },
}

# -- what of a record a page shows, and how --

MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre".split(),
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(),
}
SHORT_MONTHS = {
    "en": "Jan. Feb. March April May June July Aug. Sept. Oct. Nov. Dec.".split(),
    "de": "Jan. Feb. März Apr. Mai Juni Juli Aug. Sep. Okt. Nov. Dez.".split(),
    "fr": "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.".split(),
    "es": "ene. feb. mar. abr. may. jun. jul. ago. sep. oct. nov. dic.".split(),
}
DAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
    "es": "lunes martes miércoles jueves viernes sábado domingo".split(),
}


def day_forms(day: date, language: str) -> Iterator[str]:
    names = {language: None, "en": None}
    for one in names:
        months = {MONTHS[one][day.month - 1], SHORT_MONTHS[one][day.month - 1], MONTHS[one][day.month - 1][:3]}
        for month in sorted(months, key=len, reverse=True):
            for number in (f"{day.day}", f"{day.day:02}"):
                yield from (
                    f"{month} {number}, {day.year}",
                    f"{number} {month} {day.year}",
                    f"{number}. {month} {day.year}",
                )
                yield from (
                    f"{number} de {month} de {day.year}",
                    f"{number}-{month}-{day.year}",
                    f"{number} {month}, {day.year}",
                )
                yield from (
                    f"{number} {month}. {day.year}",
                    f"{number} de {month}, {day.year}",
                    f"{number} {month} {day:%y}",
                )
    yield from (
        f"{day:%Y-%m-%d}",
        f"{day:%d.%m.%Y}",
        f"{day:%d/%m/%Y}",
        f"{day:%Y/%m/%d}",
        f"{day:%d-%m-%Y}",
        f"{day:%m/%d/%Y}",
    )
    yield f"{day.month}/{day.day}/{day.year}"


def date_forms(when: date, language: str) -> Iterator[tuple[str, str]]:
    """(as a page may show it, in ISO's form), the longest first."""
    days = list(day_forms(when, language))
    if isinstance(when, datetime):
        clocks = [f"{when:%H:%M:%S}", f"{when:%H:%M}", f"{when.hour % 12 or 12}:{when:%M} {when:%p}"]
        clocks += [clock.replace("AM", "a.m.").replace("PM", "p.m.") for clock in clocks[2:]]
        for day in days:
            for clock in clocks:
                for between in (" ", ", ", " at ", " um ", " à ", " a las ", "T", " - ", " – ", " @ "):
                    yield f"{day}{between}{clock}", f"{when:%Y-%m-%dT%H:%M}"
    yield from ((day, f"{when:%Y-%m-%d}") for day in days)


def number_forms(number: float) -> Iterator[str]:
    if isinstance(number, int):
        yield from (str(number), f"{number:,}", f"{number:,}".replace(",", "."), f"{number:,}".replace(",", " "))
        return
    plain, grouped = f"{number:.2f}", f"{number:,.2f}"
    continental = grouped.replace(",", " ").replace(".", ",").replace(" ", ".")
    amounts = dict.fromkeys((grouped, plain, continental, plain.replace(".", ",")))
    for amount in amounts:
        yield from (
            f"${amount}",
            f"${amount}".replace("$", "$ "),
            f"£{amount}",
            f"€{amount}",
            f"{amount} €",
            f"€ {amount}",
        )
        yield from (f"EUR {amount}", f"{amount} EUR", f"{amount}€", f"US${amount}")
    yield from amounts
    yield from (f"{number:.1f}", f"{number:.1f}".replace(".", ","))


_HIDDEN = ("script", "style", "head", "template", "noscript")


def lines_of(html: str) -> str:
    """The text of each element that is shown, white space folded, one a line."""
    root = lxml_html.document_fromstring(html, parser=lxml_html.HTMLParser(remove_comments=True, remove_pis=True))
    for hidden in list(root.iter(*_HIDDEN)):
        hidden.text = None
        del hidden[:]
    texts = (
        " ".join("".join(map(str, element.itertext())).split())
        for element in root.iter()
        if isinstance(element.tag, str)
    )
    return "\n".join(dict.fromkeys(texts))


def shown(value: Any, lines: str, language: str) -> tuple[str, Any] | None:
    """How the page shows a value, as an element of its own if it does, and what it means; None where it does not."""
    lower = lines.lower()
    forms: Iterator[tuple[str, Any]]
    if isinstance(value, date):
        forms = date_forms(value, language)
    elif isinstance(value, int | float):
        forms = ((form, value) for form in number_forms(value))
    else:
        text = " ".join(str(value).split())
        bare = text.partition("://")[2].rstrip("/")
        forms = ((form, form) for form in (text, bare) if form)
    found = [form for form in forms if form[0].lower() in lower]
    alone = set(lower.split("\n"))
    whole_elements = sorted((one for one in found if one[0].lower() in alone), key=lambda one: len(one[0]))
    for form, meaning in [*whole_elements, *found]:
        whole = rf"(?<![\w.,]){re.escape(form)}(?!\w|[.,]\d)"
        if match := re.search(whole, lines) or re.search(whole, lines, re.IGNORECASE):
            return match[0], match[0] if form is meaning else meaning
    return None


def fields_of(record: Record, html: str, language: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a record that a page shows, as it shows them, and what they mean where that is something else."""
    lines = lines_of(html)
    fields: dict[str, Any] = {}
    meanings: dict[str, Any] = {}
    for name, value in record.items():
        if value is None or value == []:
            continue
        if isinstance(value, list):
            fields[name] = _shown_list(value, lines, language)
        elif found := shown(value, lines, language):
            fields[name], meaning = found
            if meaning != found[0]:
                meanings[name] = meaning
    return {name: value for name, value in fields.items() if value}, meanings


def _shown_list(values: list[Any], lines: str, language: str) -> list[Any]:
    """The whole list, or nothing."""
    if isinstance(values[0], dict):
        rows = [{key: shown(one, lines, language) for key, one in row.items()} for row in values]
        kept = [key for key in rows[0] if all(row[key] for row in rows)]
        return [{key: row[key][0] for key in kept} for row in rows] if kept else []
    found = [shown(one, lines, language) for one in values]
    return [one[0] for one in found if one] if all(found) else []


# -- building --


def build(folder: Path, name: str, bench: built.Bench) -> None:
    template = {**TEMPLATES, **DEVELOPMENT}[name]
    records = make_records(template.kind or template.page_type, template.language, PAGES, name)
    out = folder / name
    (out / "html").mkdir(parents=True, exist_ok=True)
    rows, counts = [], dict[str, int]()
    for n, (path, html, record) in enumerate(template.build(bench, name, template.language, records)):
        fields, meanings = fields_of(record, html, template.language)
        file = f"html/{n:03}.html.gz"
        (out / file).write_bytes(gzip.compress(html.encode(), mtime=0))
        row = {
            "site": name,
            "page_type": template.page_type,
            "file": file,
            "url": f"http://{name.replace('_', '-')}.example{path}",
        }
        rows.append({**row, "lang": template.language, "fields": fields, "meanings": meanings})
        for key in record:
            counts[key] = counts.get(key, 0) + (key in fields)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (out / "index.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{name} ({template.page_type}, {template.language}): {len(rows)} pages; fields on {counts}")


def build_all(folder: Path, names: Sequence[str], bench: built.Bench) -> None:
    for name in names:
        try:
            build(folder, name, bench)
        except Exception:  # noqa: BLE001 - the other templates are built all the same
            print(f"{name} could not be built:\n{traceback.format_exc()}", file=sys.stderr)


# -- measuring --


def stored(folder: Path, pages: int = 0) -> Site:
    """A saved template, or its first pages, with values as the page shows them and as a record holds them."""
    with (folder / "index.jsonl").open(encoding="utf-8") as index:
        rows = [json.loads(line) for line in index][: pages or None]
    return _site(folder.name, [(row, gzip.decompress((folder / row["file"]).read_bytes()).decode()) for row in rows])


def written(pages: int = 0) -> Iterator[Site]:
    """The templates that were written to learn from, after what many platforms and hand-made sites put out."""
    with lzma.open(WRITTEN, "rt", encoding="utf-8") as lines:
        for name, rows in groupby(map(json.loads, lines), key=itemgetter("site")):
            yield _site(name, [(row, row["html"]) for row in rows][: pages or None])


def _site(name: str, pages: Sequence[tuple[dict[str, Any], str]]) -> Site:
    found = []
    for row, html in pages:
        meanings = row["meanings"]
        fields = {name: Shown(one, meanings[name]) if name in meanings else one for name, one in row["fields"].items()}
        path = urlsplit(row["url"])._replace(scheme="", netloc="").geturl()
        found.append(SitePage(path, html, row["page_type"], fields))
    return Site(name, found[0].page_type, tuple(found))


def oracle(sites: Sequence[Site], slips: Sequence[float], *, show: bool) -> None:
    """Records with an annotator that has the truth, or slips."""
    for slip in slips:
        print(f"\nslip {slip:g}: F1, false values, pages shown, groups, fields under 0.99 as right/given/wanted")
        outcomes = [asyncio.run(crawled(site, slip, 1)) for site in sites]
        report(outcomes, show=show)
        print(f"mean over templates: {fmean(one.scores.macro for one in outcomes):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TEMPLATES)}")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--development", action="store_true", help="the themes that rules may be tuned on")
    parser.add_argument("--written", action="store_true", help="the templates of templates.jsonl.xz, to learn from")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument(
        "--annotator", action="store_true", help="learn from 20 pages without a model, score the others"
    )
    parser.add_argument("--asked", action="store_true", help="the names of the fields are requested")
    parser.add_argument("--pages", type=int, default=0, help="only so many of each template")
    parser.add_argument("--slip", type=float, nargs="*", default=[0.0, 0.1])
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    names = args.names or list(DEVELOPMENT if args.development else TEMPLATES)
    if args.build:
        build_all(args.folder, names, built.Bench((args.work or args.folder / "work").absolute()))
    saved = [name for name in names if (args.folder / name / "index.jsonl").exists()]
    sites = list(written(args.pages)) if args.written else [stored(args.folder / name, args.pages) for name in saved]
    if args.oracle:
        oracle(sites, args.slip, show=args.show)
    if args.annotator:
        results = [learned(site, ColumnAnnotator, asked=args.asked) for site in sites]
        print("\n".join(lines_of_report(results, show=args.show)))


if __name__ == "__main__":
    main()
