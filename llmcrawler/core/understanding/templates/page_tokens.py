"""Turns what a page says of itself (name of its file, title, headings, breadcrumb) into words that pages of one kind
may share.

Nothing is chosen here. Most tokens belong to one page; those that tell kinds apart on a site ("class reference" at the
end of titles, `struct` at the beginning of file names, a heading "Comments") are found by who has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from llmcrawler.core.urls import routed_path
from llmcrawler.items import PageContent

_MAX_CHARS = 40  # of a token's text
MAX_TITLE_CHARS = 300
_MAX_PARTS = 5
_MAX_HEADINGS = 12
_MAX_CRUMBS = 8
_PREFIX_LENGTHS = (3, 5, 7)  # of names whose first word nothing ends: classeigen.html
_EDGE_WORDS = 3

_DIGITS = re.compile(r"\d+")
_WORDS = re.compile(r"[^\W_]+")
_NAME_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_PART = re.compile(r"\s+[-|–—·•:»›<>/]+\s+|:\s+|\s*[|»›–—]\s*")
_HEADING = re.compile(r"(#{1,3}) +(.+)")
_MARKS = re.compile(r"[*`\\]|\]\([^()]*\)|[\[¶#]")


def name_tokens(url: str) -> set[str]:
    """Return the words that the last segment of the url's path begins and ends with, and its first few letters."""
    segments = [one for one in urlsplit(routed_path(url)).path.split("/") if one]
    if not segments:
        return set()
    name = unquote(segments[-1])[:MAX_TITLE_CHARS]
    stem = name.rpartition(".")[0] or name
    words = [_DIGITS.sub("#", word.lower())[:_MAX_CHARS] for word in _NAME_WORDS.findall(stem)]
    tokens = {f"name words:{min(len(words), 5)}"}
    if len(words) > 1:
        tokens |= {f"name begins:{words[0]}", f"name ends:{words[-1]}"}
    tokens.update(f"name letters:{stem[:length].lower()}" for length in _PREFIX_LENGTHS if len(stem) > length)
    return tokens


def title_tokens(title: str) -> set[str]:
    """Return the words that the title, and each part of it between dashes, bars and the like, begins and ends with."""
    parts = [words for part in _PART.split(title[:MAX_TITLE_CHARS]) if (words := _words(part))]
    tokens = {f"title parts:{min(len(parts), _MAX_PARTS)}"}
    for at, words in enumerate(parts[:_MAX_PARTS]):
        tokens.update(_edges("title" if len(parts) == 1 else f"title{at}", words))
    if parts:
        tokens.update(_edges("title", [word for words in parts for word in words]))
    return tokens


def words_of(content: PageContent) -> frozenset[str]:
    """Return tokens of the headings and the breadcrumb of a page, at most a hundred. Each begins with the place that it
    stands in: `h1 begins:class reference`. Digits are folded into one `#`."""
    tokens: set[str] = set()
    for level, text in _headings(content):
        if level == 1:
            tokens.update(_edges("h1", _words(text)))
        tokens.add(f"h{level}:{_fold(text)}")
    breadcrumb = _breadcrumb(content)
    tokens.add(f"crumbs:{len(breadcrumb)}")
    tokens.update(f"crumb{at}:{_fold(text)}" for at, text in enumerate(breadcrumb))
    return frozenset(tokens)


def _headings(content: PageContent) -> list[tuple[int, str]]:
    """Return level and text of the page's first main headings."""
    headings = []
    for block in content.blocks:
        if block.markdown.startswith("#") and (match := _HEADING.match(block.markdown)):
            headings.append((len(match[1]), _MARKS.sub("", match[2][:MAX_TITLE_CHARS])))
            if len(headings) == _MAX_HEADINGS:
                break
    return headings


def _breadcrumb(content: PageContent) -> list[str]:
    """Return the names of the pages above this one, as its structured data lists them."""
    for item in content.structured_data:
        listed = item.get("itemListElement")
        if item.get("@type") == "BreadcrumbList" and isinstance(listed, list):
            entries = [entry for entry in listed[:_MAX_CRUMBS] if isinstance(entry, dict)]
            things = [entry["item"] if isinstance(entry.get("item"), dict) else {} for entry in entries]
            return [str(e.get("name") or thing.get("name") or "") for e, thing in zip(entries, things, strict=True)]
    return []


def _edges(place: str, words: Sequence[str]) -> set[str]:
    """Return the first and the last words, one to three of them; all of them only where there are no more."""
    counts = range(1, min(_EDGE_WORDS, len(words)) + 1)
    return {f"{place} begins:{' '.join(words[:count])[:_MAX_CHARS]}" for count in counts} | {
        f"{place} ends:{' '.join(words[-count:])[-_MAX_CHARS:]}" for count in counts
    }


def _words(text: str) -> list[str]:
    words = _WORDS.findall(text[:MAX_TITLE_CHARS].lower())
    return [word if word.isalpha() else _DIGITS.sub("#", word) for word in words]


def _fold(text: str) -> str:
    return " ".join(_words(text))[:_MAX_CHARS]
