"""Quality and cost of main text, beside other extractors where they are installed:

    python -m benchmarks.content_train DATASET_DIR --scores SCORES.json
    python -m benchmarks.content_quality DATASET_DIR --scores SCORES.json [--every 1]

Our blocks have the scores of models that saw no page of the page's site. Word F1 (bags of lower-case \\w+ words) per
type of page, for our text without its Markdown and for the plain text of the same blocks; CPU ms a page, where each
page is given to all extractors in turn. The truth leaves most titles out, which are part of our text; the second F1 is
that against the truth with each page's title. News are the articles that say so: schema.org's NewsArticle, a section or
keywords of news in their metadata, or a word like news or times in their address.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.content_data import pages, without_marks, word_f1, words
from llmcrawler.core.content import main_text, read_page
from llmcrawler.core.content.markup import parse
from llmcrawler.core.content.page import read_with_evidence, title_and_price
from llmcrawler.core.content.selection import SURE, main_blocks

NEWS_HTML = re.compile(
    r'"@type"\s*:\s*(?:\[[^\]]*)?"\w*NewsArticle"|itemtype="[^"]*NewsArticle"'
    r'|<meta[^>]+(?:name|property)="(?:news_keywords|article:section)"',
    re.IGNORECASE,
)
NEWS_ADDRESS = re.compile(r"news|times|tribune|herald|gazette|guardian|daily", re.IGNORECASE)
OURS, PLAIN = "ours", "ours, plain text of the same blocks"


def peers() -> dict[str, Callable[[str], str]]:
    found: dict[str, Callable[[str], str]] = {}
    for name, module, run in (
        ("trafilatura", "trafilatura", lambda it: lambda html: it.extract(html) or ""),
        (
            "resiliparse",
            "resiliparse.extract.html2text",
            lambda it: lambda html: it.extract_plain_text(html, main_content=True),
        ),
        ("rs-trafilatura", "rs_trafilatura", lambda it: lambda html: it.extract(html).main_content or ""),
    ):
        try:
            found[name] = run(importlib.import_module(module))
        except ImportError:
            print(f"{name} is not installed")
    return found


def ours(html: str, scores: list[float]) -> tuple[str, str]:
    """Return the text without marks, and the plain words of the same blocks."""
    content, evidence = read_with_evidence(parse(html), html, "http://site.example/")
    if len(scores) != len(content.blocks):  # text out of embedded data, which training does not read
        scores = [block.score for block in content.blocks]
    sure = title_and_price(replace(evidence, scores=scores))
    blocks = [
        replace(block, score=SURE if number in sure else score)
        for number, (block, score) in enumerate(zip(content.blocks, scores, strict=False))
    ]
    chosen = {id(block) for block in main_blocks(blocks)}
    plain = [raw.text for raw, block in zip(evidence.page.blocks, blocks, strict=False) if id(block) in chosen]
    return without_marks(main_text(blocks)), " ".join(plain)


def cost_of_ours(html: str) -> str:
    """Read all of the page, which is more than its text."""
    return main_text(read_page(html, "http://site.example/").blocks)


def precision_recall(found: list[str], wanted: list[str]) -> tuple[float, float]:
    both = sum((Counter(found) & Counter(wanted)).values())
    return both / max(1, len(found)), both / max(1, len(wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset_dir", type=Path)
    parser.add_argument("--scores", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="the peers see one of so many pages")
    options = parser.parse_args()
    scores = json.loads(options.scores.read_text())
    others = peers()
    quality: dict[str, dict[str, list[float]]] = {}
    cost: dict[str, list[float]] = {}
    news: dict[str, list[tuple[float, float, float]]] = {}
    titled: dict[str, list[float]] = {}
    hosts = set()
    for number, (row, html) in enumerate(pages(options.dataset_dir)):
        if number % options.every:
            continue
        texts = dict(zip((OURS, PLAIN), ours(html, scores[row["file"]]), strict=True))
        for name, extract in {OURS: cost_of_ours, **others}.items():
            start = time.process_time()
            text = extract(html)
            cost.setdefault(name, []).append((time.process_time() - start) * 1000)
            texts.setdefault(name, text)
        gold = words(row["fields"]["main_content"] or "")
        kind = row["page_type"] if gold else "(no content)"
        title = words(row["fields"]["title"] or "")
        with_title = gold if f" {' '.join(title)} " in f" {' '.join(gold)} " else title + gold
        is_news = kind == "article" and (NEWS_HTML.search(html) or NEWS_ADDRESS.search(row["url"].partition("?")[0]))
        hosts |= {row["site"]} if is_news else set()
        for name, text in texts.items():
            shown = words(text)
            quality.setdefault(name, {}).setdefault(kind, []).append(word_f1(shown, gold))
            if gold:
                titled.setdefault(name, []).append(word_f1(shown, with_title))
            if is_news:
                news.setdefault(name, []).append((word_f1(shown, gold), *precision_recall(shown, gold)))
    for name, by_type in quality.items():
        content = [value for kind, values in by_type.items() if kind != "(no content)" for value in values]
        both = f"F1 {np.mean(content):.4f}, with titles {np.mean(titled[name]):.4f}"
        print(f"{name}: {both}, of {len(content)} pages with content")
        print("  " + ", ".join(f"{kind} {np.mean(values):.3f}" for kind, values in sorted(by_type.items())))
        f1, precision, recall = np.mean(news[name], 0)
        found = f"F1 {f1:.3f}, P {precision:.3f}, R {recall:.3f}"
        print(f"  news, {len(news[name])} articles of {len(hosts)} hosts: {found}")
        if took := cost.get(name):
            median, most, mean = np.median(took), np.quantile(took, 0.95), np.mean(took)
            print(f"  ms a page: median {median:.1f}, p95 {most:.1f}, mean {mean:.1f}")


if __name__ == "__main__":
    main()
