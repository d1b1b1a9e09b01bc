"""CPU time per page of fingerprinting and of a compiled extractor, beside a plain `parsel.Selector` of the page.

    python -m benchmarks.extractor_speed [--rounds 15] [--html FOLDER]

The extractor is learned on generated shop pages that are filled up to 30, 80 and 200 kB; all jobs take turns, so that a
busy machine slows all of them alike. Printed: medians in milliseconds, and their ratio to the parsel parse. `--html`
takes the pages of a folder (*.html, *.html.gz) for the same, with an extractor of their titles, links and headings.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import median

from parsel import Selector as ParselSelector
from selectolax.lexbor import LexborHTMLParser

from benchmarks.records_quality import learned
from llmcrawler.core.content import read_page
from llmcrawler.core.content.fingerprint import fingerprint
from llmcrawler.core.content.markup import tokens
from llmcrawler.core.understanding.extraction.extractor import FieldRule, TemplateExtractor, compile_extractor
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.core.understanding.extraction.tree import parse_tree
from tests.servers.record_sites import Site, SitePage, make_site, words

SIZES = (30_000, 80_000, 200_000)
PAGES = 12
URL = "http://site.example/page"


def filled(site: Site, size: int) -> list[str]:
    """The site's pages with records, with cards and text of an ordinary shop added up to `size` characters."""
    rng = Random(size)
    pages = []
    for page in site.records[:PAGES]:
        parts: list[str] = []
        missing = size - len(page.html)
        while missing > 0:
            title = words.name_of_thing(rng)
            parts.append(
                f'<li class="grid-item col-3"><a class="link" href="/product/{rng.randint(1, 9999)}">'
                f'<span class="name">{title}</span></a><div class="cost">£{rng.randint(1, 99)}.00</div>'
                f"<p>{words.paragraph(rng, 2)}</p></li>"
            )
            missing -= len(parts[-1])
        pages.append(page.html.replace("</main>", f'<ul class="grid">{"".join(parts)}</ul></main>'))
    return pages


def jobs(extractor: TemplateExtractor) -> dict[str, Callable[[str], object]]:
    compiled = compile_extractor(extractor)
    return {
        "parsel.Selector": lambda html: ParselSelector(html).root,
        "lxml parse (tree.parse_tree)": parse_tree,
        "extract (with parse)": lambda html: compiled.extract(html, URL, "en"),
        "lexbor parse": LexborHTMLParser,
        "fingerprint (with lexbor parse)": lambda html: fingerprint(tokens(LexborHTMLParser(html))),
        "read_page (all of the content)": lambda html: read_page(html, URL),
    }


def measured(pages: Sequence[str], extractor: TemplateExtractor, rounds: int) -> dict[str, float]:
    """Milliseconds of CPU time by job; the first round warms up and does not count."""
    times: dict[str, list[float]] = {}
    todo = jobs(extractor)
    for turn in range(rounds + 1):
        html = pages[turn % len(pages)]
        for name, job in todo.items():
            start = time.process_time()
            job(html)
            if turn:
                times.setdefault(name, []).append(1000 * (time.process_time() - start))
    return {name: median(values) for name, values in times.items()}


def plain_extractor() -> TemplateExtractor:
    queries = [
        ("title", "//title", "xpath"),
        ("heading", "h1", "css"),
        ("links", "a.link", "css"),
        ("nav", "nav a", "css"),
    ]
    rules = [
        FieldRule(Field(name, None, True), (Selector(query, "xpath" if language == "xpath" else "css"),))
        for name, query, language in queries
    ]
    return TemplateExtractor("page", tuple(rules))


def stored(folder: Path) -> list[str]:
    files = sorted([*folder.rglob("*.html"), *folder.rglob("*.html.gz")])
    read = (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files)
    return [body.decode("utf-8", "replace") for body in read]


def report(title: str, pages: Sequence[str], extractor: TemplateExtractor, rounds: int) -> None:
    size = median(len(page) for page in pages) / 1000
    fields = len(extractor.rules)
    print(f"\n{title}: {len(pages)} pages, median {size:.0f} k characters, {fields} fields")
    figures = measured(pages, extractor, rounds)
    for name, milliseconds in figures.items():
        print(f"  {name:34}{milliseconds:8.2f} ms {milliseconds / figures['parsel.Selector']:6.2f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--html", type=Path)
    args = parser.parse_args()
    if args.html:
        pages = stored(args.html)
        report(str(args.html), pages, plain_extractor(), max(args.rounds, min(len(pages), 200)))
        return
    site = make_site("shop")
    for size in SIZES:
        pages = filled(site, size)
        grown = Site(site.name, site.page_type, tuple(_replaced(site, pages)))
        outcome = learned(grown)
        assert outcome.extractor is not None
        report(f"shop, filled to {size // 1000} kB", pages, outcome.extractor, args.rounds)


def _replaced(site: Site, pages: Sequence[str]) -> list[SitePage]:
    return [
        SitePage(page.path, html, page.page_type, page.fields)
        for page, html in zip(site.records[:PAGES], pages, strict=True)
    ]


if __name__ == "__main__":
    main()
