"""Numbers from the blocks of text of a page: their lengths, tags and links, and where its main content stands."""

from __future__ import annotations

from math import log1p, sqrt
from typing import Final

import numpy as np

from llmcrawler.core.content.elements import H1, TAG_IDS, TAGS
from llmcrawler.core.content.page_kind.kind_evidence import BlockNumbers, Floats

_TAGS: Final = ("p", "li", "pre", "h1", "h2", "h3", "div", "figcaption")
_MAIN_TAGS: Final = ("li", "pre", "p", "div")
_LI: Final = TAG_IDS["li"]


def block_totals(blocks: BlockNumbers) -> dict[str, float]:
    """Return lengths of blocks, shares of prose and links, and the words under each tag."""
    words, prose, headings, tags = blocks.words, blocks.prose, blocks.headings, blocks.tags
    total, count = blocks.total_words, len(words)
    prose_words, prose_count = float(words @ prose), float(prose.sum())
    mean_prose = prose_words / max(1.0, prose_count)
    ordered = np.sort(words)
    found: dict[str, float] = {
        "words": log1p(total),
        "linked words": float(blocks.link_words.sum()) / total,
        "words a block": total / count,
        "words longest": log1p(ordered[-1]),
        "prose words": log1p(prose_words),
        "prose share": prose_words / total,
        "prose blocks": log1p(prose_count),
        "prose sentences": log1p(prose @ blocks.ends),
        "prose of 40 words": log1p(float(prose[words >= 40].sum())),
        "prose mean": mean_prose,
        "prose deviation": sqrt(max(0.0, float((words * words) @ prose) / max(1.0, prose_count) - mean_prose**2)),
        "short blocks": float((words <= 3).mean()),
        "heading words": float(words @ headings) / total,
        "headings": log1p(headings.sum()),
        "headings linked": log1p(headings @ blocks.linked),
        "headings linked share": float(headings @ blocks.linked) / max(1.0, float(headings.sum())),
        "prose a heading": prose_words / (1 + float(headings.sum())),
        "emphasis": log1p(blocks.emphasis.sum()),
    }
    for percent in (25, 90, 97):
        found[f"words at {percent}%"] = ordered[min(count - 1, int(percent / 100 * count))]
    words_of = np.bincount(tags, words, len(TAGS))
    blocks_of = np.bincount(tags, minlength=len(TAGS))
    for tag in _TAGS:
        number = TAG_IDS[tag]
        found[f"words in {tag}"] = words_of[number] / total
        found[f"blocks in {tag}"] = log1p(blocks_of[number])
        found[f"words a {tag}"] = words_of[number] / max(1, blocks_of[number])
    items = tags == _LI
    found["items prose"] = float(prose[items].sum()) / max(1, blocks_of[_LI])
    found["items linked"] = float(blocks.linked[items].sum()) / max(1, blocks_of[_LI])
    return found | _longest_run(blocks)


def _longest_run(blocks: BlockNumbers) -> dict[str, float]:
    """Return the longest run of prose, in which headings may stand."""
    best = most_words = run = run_words = 0.0
    for words, is_prose, is_heading in zip(
        blocks.words.tolist(), blocks.prose.tolist(), blocks.headings.tolist(), strict=True
    ):
        if is_prose:
            run += 1
            run_words += words
            best, most_words = max(best, run), max(most_words, run_words)
        elif not is_heading:
            run = run_words = 0.0
    return {
        "run blocks": log1p(best),
        "run words": log1p(most_words),
        "run share": most_words / blocks.total_words,
    }


def main_numbers(blocks: BlockNumbers) -> dict[str, float]:
    """Return how much of the page is main content, what that is made of, and how it lies."""
    words, main, scores, headings = blocks.words, blocks.main, blocks.scores, blocks.headings
    total, count = blocks.total_words, len(words)
    main_words = words * main
    total_main, main_count = max(1.0, float(main_words.sum())), float(main.sum())
    main_headings = float(main @ headings)
    found: dict[str, float] = {
        "main words": log1p(main_words.sum()),
        "main share": float(main_words.sum()) / total,
        "main blocks": log1p(main_count),
        "main blocks share": float(main.mean()),
        "main linked words": float(blocks.link_words @ main) / total_main,
        "main words a block": float(main_words.sum()) / max(1.0, main_count),
        "main prose": float(main_words @ blocks.prose) / total_main,
        "main headings": log1p(main_headings),
        "main headings linked": float((main * headings)[blocks.link_words > 0].sum()) / max(1.0, main_headings),
        "main longest": log1p(main_words.max()),
        "main sentences": float(main @ blocks.ends) / max(1.0, main_count),
        "main score of words": float(scores @ words) / total,
        "main sure": float((scores > 0.9).mean()),
        "main unsure": float(((scores > 0.2) & (scores < 0.8)).mean()),
    }
    words_of = np.bincount(blocks.tags, main_words, len(TAGS)) / total_main
    for tag in _MAIN_TAGS:
        found[f"main words in {tag}"] = words_of[TAG_IDS[tag]]
    return found | _place_of_main(main, count)


def _place_of_main(main: Floats, count: int) -> dict[str, float]:
    where = np.flatnonzero(main)
    changes = float(np.abs(np.diff(main)).sum())
    first, last = (int(where[0]), int(where[-1])) if len(where) else (count, count)
    return {
        "main changes a block": changes / count,
        "main gaps": 1 - len(where) / (last - first + 1),
        "main ends": last / count,
    }


def heading_numbers(blocks: BlockNumbers, title: str) -> dict[str, float]:
    """Return the form of the first h1 and of the other headings."""
    firsts = np.flatnonzero(blocks.tags == H1)
    first = blocks.texts[firsts[0]] if len(firsts) else ""
    others = [blocks.texts[index] for index in np.flatnonzero((blocks.tags > H1) & (blocks.headings > 0))]
    count = max(1, len(others))
    return {
        "h1 words": first.count(" ") + 1 if first else -1,
        "h1 in title": bool(first) and first.lower()[:40] in title.lower(),
        "h1 place": firsts[0] / len(blocks.texts) if len(firsts) else -1,
        "heading length": sum(text.count(" ") + 1 for text in others) / count,
        "heading numbered": sum(text[:1].isdigit() for text in others) / count,
    }
