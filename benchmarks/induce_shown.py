"""What a model is shown of single pages to learn records from: python -m benchmarks.induce_shown DATASET_DIR.

For the product and article pages of a data set (see content_data.py): the share of pages on whose blocks the price of
their structured data stands, and on which it is shown; likewise for title, author, day of publication and for the
wanted snippets of the main content; tokens a page (4 characters each).
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.content_data import pages, words
from llmcrawler.core.content import read_page
from llmcrawler.core.understanding.extraction.blocks import Block, PageBlocks, main_scores, shown_blocks

URL = "http://site.example/"
TYPES = ("product", "article")
_WRITTEN_FOR_MACHINES = ("json-ld", "meta ")
_START_CHARS = 60  # of a snippet: a long block may have lost its end


def prices(value: Any) -> Iterator[str]:
    """Yield the prices of structured data."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
            price = one.get("price") or one.get("lowPrice")
            if isinstance(price, str | int | float) and str(price).strip("0.,"):
                yield str(price)
        elif isinstance(one, list | tuple):
            waiting += one


def patterns(row: dict[str, Any], structured: Any) -> Iterator[tuple[str, re.Pattern[str]]]:
    for price in list(prices(structured))[:1]:
        whole, _, cents = price.replace(",", "").partition(".")
        if whole.isdigit():
            thousands = f"{int(whole):,}".replace(",", "[,. \xa0]?")
            end = rf"[.,]\s?{cents.ljust(2, '0')[:2]}" if cents.strip("0") else r"(?:[.,]\s?0*)?"
            yield "price", re.compile(rf"(?<![\d.,]){thousands}{end}(?![\d])")
    for name in ("title", "author"):
        if text := words(row["fields"].get(name) or ""):
            yield name, re.compile(r"\W+".join(map(re.escape, text)), re.IGNORECASE)
    if day := row["fields"].get("publish_date"):
        yield "publish_date", re.compile(re.escape(day[:10]) + "|" + written(day[:10]), re.IGNORECASE)
    for snippet in row["fields"]["with"]:
        yield (
            "snippet",
            re.compile(r"\W+".join(map(re.escape, words(snippet[:_START_CHARS])[:-1] or ["\0"])), re.IGNORECASE),
        )


def written(day: str) -> str:
    months = "jan feb mar apr may jun jul aug sep oct nov dec".split()
    try:
        year, month, number = map(int, day.split("-"))
    except ValueError:
        return r"\Z\b"
    name, numeral = rf"{months[month - 1]}\w*\.?", rf"0?{number}(?:st|nd|rd|th)?"
    return rf"{name} {numeral},? {year}|{numeral} {name},? {year}"


def found(pattern: re.Pattern[str], blocks: Iterable[Block]) -> bool:
    return any(pattern.search(one.text) for one in blocks if not one.hint.startswith(_WRITTEN_FOR_MACHINES))


def measure(folder: Path, budget_tokens: int) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    for row, html in pages(folder):
        kind = row["page_type"]
        if kind not in TYPES:
            continue
        content = read_page(html, URL)
        listed = PageBlocks(html, URL).listed(main_scores(html, URL))
        shown = shown_blocks(listed, {}, budget_tokens)
        counts[kind, "", "pages"] += 1
        counts[kind, "", "tokens"] += len(json.dumps([asdict(one) for one in shown], ensure_ascii=False)) // 4
        for name, pattern in patterns(row, content.structured_data):
            counts[kind, name, "there"] += found(pattern, listed.blocks)
            counts[kind, name, "shown"] += found(pattern, shown)
    for kind in TYPES:
        count = counts[kind, "", "pages"]
        print(f"{kind}: {count} pages, {counts[kind, '', 'tokens'] / count:.0f} tokens a page")
        for name in ("price", "title", "author", "publish_date", "snippet"):
            there, is_shown = counts[kind, name, "there"], counts[kind, name, "shown"]
            print(f"  {name}: shown {is_shown} of {there} ({is_shown / max(1, there):.3f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset_dir", type=Path)
    parser.add_argument("--budget", type=int, default=3_000)
    options = parser.parse_args()
    measure(options.dataset_dir, options.budget)
