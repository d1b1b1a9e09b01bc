"""Tells which urls of a site name the same kind of thing, as far as urls can: its tags, its posts, its searches."""

from __future__ import annotations

import re
from functools import lru_cache

from llmcrawler.core.urls.pattern import ROUTING_KEYS, url_pattern
from llmcrawler.core.urls.traps import PAGE_PATH

_END_NUMBER = re.compile(r"(?<=[A-Za-z])(?:\d+|\{n\})$")
_MAX_PARAMETERS = 100  # that are looked at


@lru_cache(maxsize=8192)
def family_of(url: str) -> str:
    """Return the family of an absolute url, with its host: "blog.example/tag/*/" for each tag of a blog.

    It is coarser than `url_pattern`: the last word of a path below a section never counts. Of a query counts what
    routes it, and the name of its only other parameter; several of them are one search, whichever they are. A page
    number in the path counts as a parameter.
    """
    start = url.find("/", url.find("://") + 3)
    address, _, query = url.partition("?")
    keys = set()
    if start > 0 and (bare := PAGE_PATH.sub("", address)) != address:
        address = bare
        keys.add("page")
    path = url_pattern(address)
    above, _, last = path.rstrip("/").rpartition("/")
    stem, dot, extension = last.rpartition(".")
    word, extension = (stem, dot + extension) if dot else (last, "")
    word = "*" if above and ("{slug}" in word or "{" not in word) else _END_NUMBER.sub("", word)
    path = f"{above}/{word}{extension}{'/' if last and path.endswith('/') else ''}"
    search = _search(query, keys) if query or keys else ""
    return f"{url[:start] if start > 0 else url}{path}{'?' if search else ''}{search}"


def _search(query: str, keys: set[str]) -> str:
    parts = [part.partition("=") for part in query.split("&", _MAX_PARAMETERS)] if query else []
    routing = [f"{key}={value}" for key, _, value in parts if key in ROUTING_KEYS]
    keys = keys | {key for key, _, _ in parts if key not in ROUTING_KEYS}
    return "&".join([*routing, *(keys if len(keys) < 2 else ("*",))])
