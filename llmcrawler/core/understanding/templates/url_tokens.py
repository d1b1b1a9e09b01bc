"""Turns a url into a small set of tokens, most of which pages of one template share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlsplit

from llmcrawler.core.urls import routed_path

_MAX_SEGMENTS = 8
_MAX_KEYS = 8
_MAX_CHARS = 40
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"[A-Za-z]{1,16}")
_HEX = re.compile(r"(?=[0-9a-f-]*\d)[0-9a-f-]{8,}", re.IGNORECASE)


def url_tokens(url: str) -> frozenset[str]:
    """Return path segments counted from both ends, the shape of each, the extension, the depth and the query keys.

    A segment that names one page (a slug) gives a token that occurs once and so weighs little or nothing
    in the clustering; the shape token beside it is what its neighbours share.
    """
    parts = urlsplit(routed_path(url))
    segments = [segment for segment in parts.path.split("/") if segment][:_MAX_SEGMENTS]
    tokens = {f"depth:{len(segments)}", f"slash:{parts.path.endswith('/')}"}
    for index, segment in enumerate(segments):
        tokens.add(f"at{index}:{_fold(segment)}")
        tokens.add(f"from_end{len(segments) - 1 - index}:{_fold(segment)}")
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


def _fold(segment: str) -> str:
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
