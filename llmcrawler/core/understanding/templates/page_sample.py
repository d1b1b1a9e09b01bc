"""Reduces a page to what tells its template: features of its DOM, and tokens of what its site calls it.

Tokens are made of the url, the title, headings and the breadcrumb. Nothing is chosen here: most of them belong to one
page, and those that tell kinds apart on a site ("class reference" at the end of titles, `struct` at the beginning of
file names, a heading "Comments") are found by who has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

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

Names = frozenset[str]  # of features or tokens


@dataclass(frozen=True, slots=True)
class PageSample:
    """A page reduced to what grouping needs: its DOM features, and the tokens of what its site calls it (url, title,
    body classes). `words` (tokens of its headings, too) only tell apart what the model has called by different names;
    they are not kept for the next crawl.
    """

    url: str
    features: Names
    tokens: Names
    title: str = ""
    words: Names = frozenset()

    @classmethod
    def of(cls, url: str, features: Names, title: str = "", words: Names = frozenset()) -> Self:
        declared = {"declared " + name for name in features if name.startswith(("body.", "html."))}
        title = title[:MAX_TITLE_CHARS]
        return cls(url, features, url_tokens(url) | name_tokens(url) | title_tokens(title) | declared, title, words)

    @property
    def names(self) -> frozenset[str]:
        return self.features | self.tokens | self.words


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
    """Return tokens of the headings and the breadcrumb, at most a hundred: `h1 begins:class reference`, digits as one
    `#`.
    """
    tokens: set[str] = set()
    starts = (block.markdown for block in content.blocks if block.markdown.startswith("#"))
    for heading in islice(filter(None, map(_HEADING.match, starts)), _MAX_HEADINGS):
        level, text = len(heading[1]), _MARKS.sub("", heading[2][:MAX_TITLE_CHARS])
        if level == 1:
            tokens.update(_edges("h1", _words(text)))
        tokens.add(f"h{level}:{_fold(text)}")
    breadcrumb: list[Any] = []
    for item in content.structured_data:
        listed = item.get("itemListElement")
        if item.get("@type") == "BreadcrumbList" and isinstance(listed, list):
            breadcrumb = [entry for entry in listed[:_MAX_CRUMBS] if isinstance(entry, dict)]
            break
    tokens.add(f"crumbs:{len(breadcrumb)}")
    for at, entry in enumerate(breadcrumb):
        thing = entry["item"] if isinstance(entry.get("item"), dict) else {}
        tokens.add(f"crumb{at}:{_fold(str(entry.get('name') or thing.get('name') or ''))}")
    return frozenset(tokens)


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


_MAX_SEGMENTS = 8
_MAX_KEYS = 8
_WORD = re.compile(r"[A-Za-z]{1,16}")
_HEX = re.compile(r"(?=[0-9a-f-]*\d)[0-9a-f-]{8,}", re.IGNORECASE)


def url_tokens(url: str) -> frozenset[str]:
    """Return path segments counted from both ends, the shape of each (what pages with slugs share), the extension, the
    depth and the query keys.
    """
    parts = urlsplit(routed_path(url))
    segments = [segment for segment in parts.path.split("/") if segment][:_MAX_SEGMENTS]
    tokens = {f"depth:{len(segments)}", f"slash:{parts.path.endswith('/')}"}
    for index, segment in enumerate(segments):
        tokens.add(f"at{index}:{_fold_segment(segment)}")
        tokens.add(f"from_end{len(segments) - 1 - index}:{_fold_segment(segment)}")
        tokens.add(f"shape{index}:{_shape(segment)}")
    if segments and "." in segments[-1]:
        tokens.add("ext:" + segments[-1].rpartition(".")[2][:8].lower())
    for key, value in _query(parts.query):
        tokens.add("key:" + key)
        # do=edit names a view; a long or free value names a page.
        if _WORD.fullmatch(value):
            tokens.add(f"key:{key}={value.lower()}")
    return frozenset(tokens)


def common_pattern(urls: Iterable[str]) -> str:
    """Return the path that the urls have in common, for people: `*` where they differ, then the query keys of all."""
    paths: list[list[str]] = []
    keys: list[set[str]] = []
    slash = True
    for url in urls:
        parts = urlsplit(routed_path(url))
        paths.append([segment[:_MAX_CHARS] for segment in parts.path.split("/") if segment])
        keys.append({key for key, _ in _query(parts.query)})
        slash = slash and parts.path.endswith("/")
    if not paths:
        return ""
    shortest, longest = min(map(len, paths)), max(map(len, paths))
    shared = [
        segment if all(path[i] == segment for path in paths) else "*" for i, segment in enumerate(paths[0][:shortest])
    ]
    if longest > shortest:
        last = {path[-1] for path in paths} if shortest else set()
        shared = [*shared[: max(0, shortest - 1)], "**", *(last if len(last) == 1 else ())]
    pattern = "/" + "/".join(shared) + ("/" if slash and shared else "")
    common_keys = sorted(set.intersection(*keys))
    return pattern + ("?" + "&".join(common_keys) if common_keys else "")


def _query(query: str) -> list[tuple[str, str]]:
    pairs = parse_qsl(query[:1000], keep_blank_values=True)
    return [(key[:_MAX_CHARS], value) for key, value in pairs[:_MAX_KEYS]]


def _fold_segment(segment: str) -> str:
    segment = segment[:_MAX_CHARS].lower()
    return "#" if _HEX.fullmatch(segment) else _DIGITS.sub("#", segment)


def _shape(segment: str) -> str:
    stem = segment.rpartition(".")[0] or segment
    if stem.isdigit():
        return "number"
    if _HEX.fullmatch(stem):
        return "hash"
    ends_in_number = "+number" if stem[-1:].isdigit() else ""
    if _WORD.fullmatch(stem):
        return "word"
    return ("slug" if "-" in stem or "_" in stem else "name") + ends_in_number
