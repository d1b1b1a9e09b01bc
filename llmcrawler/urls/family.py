"""Tells which urls of a site name the same kind of thing, as far as urls can: its tags, its posts, its searches."""

from __future__ import annotations

from functools import lru_cache

from llmcrawler.urls.pattern import ROUTING_KEYS, url_pattern
from llmcrawler.urls.traps import PAGE_PATH, is_order

_MAX_PARAMETERS = 100  # that are looked at


@lru_cache(maxsize=8192)
def family_of(url: str) -> str:
    """Return the family of an absolute url, with its host: "blog.example/tag/*/" for each tag of a blog.

    It is coarser than `url_pattern`: the last word of a path below a section never counts, nor do the page and the
    order of a list. Of a query counts what routes it, and the name of its only other parameter; several of them are
    one search, whichever they are.
    """
    start = url.find("/", url.find("://") + 3)
    address, mark, query = url.partition("?")
    address = PAGE_PATH.sub("", address) if start > 0 else address
    search = _search(query) if mark else ""
    path = url_pattern(address)
    above, _, last = path.rstrip("/").rpartition("/")
    if above:
        stem, dot, extension = last.rpartition(".")
        word, extension = (stem, dot + extension) if dot else (last, "")
        if "{slug}" in word or "{" not in word:
            path = f"{above}/*{extension}{'/' if path.endswith('/') else ''}"
    return f"{url[:start] if start > 0 else url}{path}{'?' if search else ''}{search}"


def _search(query: str) -> str:
    parts = [(key, value) for key, _, value in (part.partition("=") for part in query.split("&", _MAX_PARAMETERS))]
    parts = parts if len(parts) == 1 and parts[0][0] == "p" else [part for part in parts if not is_order(*part)]
    routing = [f"{key}={value}" for key, value in parts if key in ROUTING_KEYS]
    others = {key for key, _value in parts if key not in ROUTING_KEYS}
    return "&".join([*routing, *(others if len(others) < 2 else ("*",))])
