"""Reads a data set of pages with known main content: index.jsonl with file, site, page_type and fields.main_content."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"\w+")
_IMAGE = re.compile(r"!\[[^\[\]]*\]\([^()\s]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^()\s]*\)")
_MARKS = re.compile(
    r"^ *(?:> )*(?:#{1,6} |- (?:\[[ x]\] )?|\d+\. |```+.*$|\|(?: --- \|)+ *$|\[\^[^\]\s]+\]: )|<br>", re.MULTILINE
)


def pages(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    with (folder / "index.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row, gzip.decompress((folder / row["file"]).read_bytes()).decode("utf-8", "replace")


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def without_marks(markdown: str) -> str:
    """Images, link targets, marks at line starts (heading, list, quote, fence, table, note) and emphasis removed."""
    return (
        _MARKS.sub(" ", _LINK.sub(r"\1", _IMAGE.sub(" ", markdown)))
        .replace("*", "")
        .replace("`", "")
        .replace("\\|", " ")
    )


def word_f1(found: list[str], wanted: list[str]) -> float:
    """Of two bags of words; two empty ones agree."""
    if not found or not wanted:
        return float(not found and not wanted)
    return 2 * sum((Counter(found) & Counter(wanted)).values()) / (len(found) + len(wanted))


def labels(blocks: list[list[str]], gold: list[str]) -> NDArray[np.float64]:
    """Return for each block the share of its word trigrams in the main content. A short one needs a neighbour's words
    beside it; what the page has more often than the main content is main where it comes first.
    """
    joined = f" {' '.join(gold)} "
    grams = set(zip(gold, gold[1:], gold[2:], strict=False))
    seen: Counter[str] = Counter()
    found = []
    for index, block in enumerate(blocks):
        text = " ".join(block)
        if len(block) >= 4:
            share = float(np.mean([gram in grams for gram in zip(block, block[1:], block[2:], strict=False)]))
            seen[text] += 1
            found.append(0.0 if seen[text] > 1 and share > 0.3 and joined.count(f" {text} ") < seen[text] else share)
        elif not block or f" {text} " not in joined:
            found.append(0.0)
        else:
            before = " ".join(blocks[index - 1][-3:]) if index else ""
            after = " ".join(blocks[index + 1][:3]) if index + 1 < len(blocks) else ""
            beside = (before and f" {before} {text} " in joined) or (after and f" {text} {after} " in joined)
            found.append(1.0 if beside else 0.3)
    return np.array(found)
