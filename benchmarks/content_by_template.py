"""What the other pages of a site do for the main text of each: python -m benchmarks.content_by_template FOLDER...

A folder is a site: index.jsonl with file and url of each page in the order of a crawl, as for content_quality. What is
main on its pages is what its software's own template says: a CSS selector for it, and one for what is left out inside,
stand in content_by_template.json (--selectors) under the folder's name. The sites of tests/servers/record_sites are
measured too.

Prints for each site the word F1 of the main text, mean over its pages: of each page alone, and with the pages before
it, these in the order of the crawl, shuffled, and sorted by URL backwards.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from benchmarks.content_data import pages, without_marks, word_f1, words
from llmcrawler.core.content import Boilerplate, main_text, read_page
from llmcrawler.core.content.markup import parse, tokens
from llmcrawler.core.content.segmenter import segment
from llmcrawler.items import TextBlock
from tests.servers.record_sites import REDESIGNED, SITES, make_site

_RECORD_SITES = "record_sites"
_Page = tuple[str, Sequence[TextBlock], list[str]]  # url, blocks, words of the main content


def wanted_words(html: str, selectors: dict[str, str]) -> list[str] | None:
    """Return the words of what the selectors mark; None where the page has no such part."""
    tree = parse(html)
    for node in tree.css(selectors["leave"]) if "leave" in selectors else ():
        node.decompose()
    found = [node.html or "" for node in tree.css(selectors["main"])]
    if not found:
        return None
    return [word for part in found for block in segment(tokens(parse(part))).blocks for word in words(block.text)]


def read(source: Iterable[tuple[str, str]], selectors: dict[str, str]) -> list[_Page]:
    found: list[_Page] = []
    for url, html in source:
        wanted = wanted_words(html, selectors)
        if wanted is not None:
            found.append((url, read_page(html, url).blocks, wanted))
    return found


def mean_f1(site: Sequence[_Page], *, with_others: bool) -> float:
    boilerplate = Boilerplate() if with_others else None
    total = 0.0
    for _, blocks, wanted in site:
        if boilerplate is not None:
            boilerplate.observe(blocks)
        total += word_f1(words(without_marks(main_text(blocks, boilerplate))), wanted)
    return total / max(1, len(site))


def measure(name: str, site: list[_Page]) -> tuple[float, ...]:
    shuffled, backwards = list(site), sorted(site, key=lambda page: page[0], reverse=True)
    Random(1).shuffle(shuffled)
    figures = (
        mean_f1(site, with_others=False),
        *(mean_f1(order, with_others=True) for order in (site, shuffled, backwards)),
    )
    print(f"{name:22}{len(site):5}" + "".join(f"{figure:11.4f}" for figure in figures), flush=True)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--selectors", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    table = json.loads(options.selectors.read_text(encoding="utf-8"))
    print(f"{'site':22}{'pages':>5}{'alone':>11}{'crawl':>11}{'shuffled':>11}{'backwards':>11}")
    rows = []
    for folder in options.folders:
        if folder.name in table:
            source = ((row["url"], html) for row, html in pages(folder))
            rows.append(measure(folder.name, read(source, table[folder.name])))
    for made, redesign in [(name, False) for name in SITES] + [(name, True) for name in REDESIGNED]:
        source = (("http://site.example" + page.path, page.html) for page in make_site(made, redesign=redesign).pages)
        rows.append(measure(f"{made}{' anew' * redesign}", read(source, table[_RECORD_SITES])))
    print(f"{'mean of sites':27}" + "".join(f"{sum(column) / len(rows):11.4f}" for column in zip(*rows, strict=True)))
