"""Reads pages of known kinds for the model of page kinds, each as it is and stripped.

A third of WCXB's pages have lost scripts, JSON-LD, styles, drawings, comments, data attributes and handlers, unevenly
by kind. A model of these pages as they are learns who cleaned the file, so each page is taken in both forms.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.content_data import pages
from benchmarks.page_kind_sites import BuiltPage, built_pages
from llmcrawler.core.content.markup import parse
from llmcrawler.core.content.page import read_with_evidence
from llmcrawler.core.content.page_kind_numbers import kind_numbers
from llmcrawler.core.content.page_kinds import kind_tokens

KINDS: Final = ("article", "collection", "documentation", "forum", "listing", "product", "service")
FORMS: Final = ("raw", "stripped")
BUILT: Final = "built"
_REMOVED: Final = re.compile(r"<(script|style|svg|noscript)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_ATTRIBUTES: Final = re.compile(r"""\s(?:data-[\w:.-]+|on[a-z]+)(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+))?(?=[\s/>])""")
_TAG: Final = re.compile(r"<[a-zA-Z][^<>]*>")


@dataclass(frozen=True, slots=True)
class KindExample:
    """One form of a page, or a built page. `fold` is that of its host, or of its family."""

    site: str
    kind: int
    form: str
    fold: int
    numbers: dict[str, float]
    tokens: dict[str, list[str]]


def stripped(html: str) -> str:
    """Return the page as a cleaner leaves it."""
    return _TAG.sub(lambda tag: _ATTRIBUTES.sub("", tag[0]), _REMOVED.sub("", html))


def fold_of(site: str, folds: int) -> int:
    return int(hashlib.md5(site.encode()).hexdigest(), 16) % folds


def examples(folder: Path, folds: int) -> list[KindExample]:
    """Return two examples a page, raw and stripped, and one of each built page."""
    found = []
    for row, html in pages(folder):
        for form, text in zip(FORMS, (html, stripped(html)), strict=True):
            fold = fold_of(row["site"], folds)
            found.append(_example(BuiltPage(row["site"], "", row["url"], row["page_type"], text), form, fold))
    for page in built_pages():
        fold = fold_of(page.family, folds)
        found.append(_example(page, BUILT, fold))
    return found


def _example(page: BuiltPage, form: str, fold: int) -> KindExample:
    _, evidence = read_with_evidence(parse(page.html), page.html, page.url)
    kind = KINDS.index(page.kind)
    return KindExample(page.site, kind, form, fold, kind_numbers(evidence), kind_tokens(evidence))


def cached_examples(folder: Path, folds: int, cache: Path | None) -> list[KindExample]:
    """Return `examples`, from the file `cache` where it is there; it is written where it is not."""
    if cache and cache.exists():
        loaded: list[KindExample] = pickle.loads(cache.read_bytes())
        return loaded
    found = examples(folder, folds)
    if cache:
        cache.write_bytes(pickle.dumps(found))
    return found


def matrix_of(data: list[KindExample], names: list[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return a row per example and a column per name."""
    return np.array([[one.numbers[name] for name in names] for one in data], np.float32)
