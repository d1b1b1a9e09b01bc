"""Tells which urls of a site name the same kind of thing, as far as urls can tell: its tags, its posts, its searches."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from llmcrawler.urls.pattern import ROUTING_KEYS, url_pattern


@lru_cache(maxsize=8192)
def family_of(url: str) -> str:
    """Return the family of an absolute url, with its host: "blog.example/tag/*/" for each tag of a blog.

    It is coarser than `url_pattern`: the last word of a path below a section never counts. Of a query counts what
    routes it, and the name of its only other parameter; several of them are one search, whichever they are.
    """
    path, mark, query = url_pattern(url).partition("?")
    above, _, last = path.rstrip("/").rpartition("/")
    if above:
        stem, dot, extension = last.rpartition(".")
        word, extension = (stem, dot + extension) if dot else (last, "")
        if word == "{slug}" or "{" not in word:
            path = f"{above}/*{extension}{'/' if path.endswith('/') else ''}"
    return f"{urlsplit(url).netloc}{path}{mark}{_search(query) if mark else ''}"


def _search(query: str) -> str:
    parts = [part.partition("=") for part in query.split("&")]
    routing = [f"{key}={value}" for key, _, value in parts if key in ROUTING_KEYS]
    others = {key for key, _, _value in parts if key not in ROUTING_KEYS}
    return "&".join([*routing, *(others if len(others) < 2 else ("*",))])
