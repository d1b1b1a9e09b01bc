"""The shape of a url: what pages of one kind share in their urls, as far as one url can tell."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

_EXTENSION = re.compile(r"\.[a-z][a-z0-9]{1,4}\Z", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)\d\d[-_.]?(?:0?[1-9]|1[0-2])(?:[-_.]?(?:0?[1-9]|[12]\d|3[01]))?\Z")
_ID = re.compile(r"(?=.*\d)(?:[0-9a-f]{8,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_WORD_JOINS = re.compile(r"[-_+]|%20")
_MAX_LITERAL = 24


def url_pattern(url: str) -> str:
    """ "/shop/the-red-shoe_209/?page=2" becomes "/shop/{slug}_{n}/?page={n}". Host and fragment are left out."""
    parts = urlsplit(url)
    path = "/".join(_segment(segment) for segment in parts.path.split("/"))
    if not parts.query:
        return path
    fields = sorted(_parameter(field) for field in parts.query.split("&"))
    return f"{path}?{'&'.join(fields)}"


def _parameter(field: str) -> str:
    name, _, value = field.partition("=")
    if not value:
        return name
    return f"{name}={'{n}' if value.isdigit() else '{v}'}"


@lru_cache(maxsize=10_000)
def _segment(text: str) -> str:
    if not text:
        return text
    extension = _EXTENSION.search(text)
    ending = extension[0] if extension else ""
    stem = text.removesuffix(ending)
    if stem.isdigit() and not _DATE.match(stem):
        return "{n}" + ending
    if _DATE.match(stem):
        return "{date}" + ending
    if _ID.match(stem):
        return "{id}" + ending
    number = re.search(r"([-_.])\d+\Z", stem)
    tail = f"{number[1]}{{n}}" if number else ""
    body = stem[: number.start()] if number else stem
    # A text of three words and more, or a very long one, names one thing; one or two words name a part of the site.
    if len(_WORD_JOINS.findall(body)) >= 2 or len(body) > _MAX_LITERAL or "%" in body:
        return "{slug}" + tail + ending
    if tail:
        return "{slug}" + tail + ending
    return _DIGITS.sub("{n}", body) + ending
