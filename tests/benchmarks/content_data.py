"""Reads a data set of pages with known main content: index.jsonl with file, site, page_type and fields.main_content."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORD = re.compile(r"\w+")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^()\s]*\)")
_MARKS = re.compile(r"^ *(?:> )*(?:#{1,6} |- |\d+\. |```+.*$|\|(?: --- \|)+ *$)", re.MULTILINE)


def pages(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    with (folder / "index.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield row, gzip.decompress((folder / row["file"]).read_bytes()).decode("utf-8", "replace")


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def without_marks(markdown: str) -> str:
    """Link targets, marks at line starts (heading, list, quote, fence, table rule) and emphasis signs removed."""
    return _MARKS.sub("", _LINK.sub(r"\1", markdown)).replace("*", "").replace("`", "").replace("\\|", " ")


def word_f1(found: list[str], wanted: list[str]) -> float:
    """Of two bags of words; two empty ones agree."""
    if not found or not wanted:
        return float(not found and not wanted)
    return 2 * sum((Counter(found) & Counter(wanted)).values()) / (len(found) + len(wanted))
