"""Reads a licence of Really Simple Licensing (RSL 1.0, https://rslstandard.org/rsl): what it permits and prohibits, for
which paths, and whether that costs something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from lxml import etree

from llmcrawler.core.politeness.rights.combined_signals import RSL, Signal
from llmcrawler.core.politeness.rights.scoped import ScopedSignals
from llmcrawler.core.politeness.rights.uses import CONDITIONS, NO, USES, YES, uses_of_list

MEDIA_TYPE: Final = "application/rsl+xml"
_DECLARATION: Final = re.compile(r"\A\s*<\?xml[^>]*>", re.IGNORECASE)
_MAX_CONTENTS: Final = 1_000
_MAX_LICENCES: Final = 20  # of one content
_MAX_SHOWN: Final = 500
_MAX_WORDS_CHARS: Final = 1_000
_ASKS_NOTHING: Final = ("", "free", "attribution")  # types of payment that need no agreement


def rsl_signals(body: bytes, where: str, host: str) -> ScopedSignals:
    """Read the licence file at `where` for the pages of `host` (and port). Entities are not expanded, and what is no
    XML says nothing.
    """
    text = _DECLARATION.sub("", body.decode("utf-8-sig", "replace"))
    parser = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        return ScopedSignals(())
    return ScopedSignals(_rules(root, where, host))


def _rules(root: etree._Element, where: str, host: str) -> Iterator[tuple[str, Signal]]:
    # Those within others are none; to write each of them down would take quadratic time.
    for number, content in enumerate(root.iterfind("{*}content")):
        if number >= _MAX_CONTENTS:
            return
        path = _path_at(host, content.get("url", "").strip())
        if path is not None:
            shown = " ".join(etree.tostring(content, encoding="unicode", with_tail=False).split())
            yield path, Signal(RSL, where, _uses_of(content), shown[:_MAX_SHOWN])


def _path_at(host: str, url: str) -> str | None:
    """Return the pattern of the paths that a content is about; None where they are another host's. An empty url is
    what the licence was found on.
    """
    if url.startswith(("/", "*")) and not url.startswith("//"):
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if not url:
        return "/"
    path = url.partition("://")[2].partition("/")[2]
    return f"/{path}" if parts.netloc.lower() == host.lower() else None


def _uses_of(content: etree._Element) -> dict[str, str]:
    """Return what holds of all licences of a content together: what one prohibits is prohibited, and what one gives
    freely is free. Where each of them lists what it permits, nothing else is permitted (3.5 of the standard).
    """
    permitted: dict[str, str] = {}
    prohibited: dict[str, str] = {}
    needs_server = bool(content.get("server"))
    licences = list(content.iterfind("{*}license"))[:_MAX_LICENCES]
    if licences and all(_words(licence, "permits") for licence in licences):
        permitted = dict.fromkeys(USES, NO)
    for licence in licences:
        terms = _terms_of(licence, needs_server=needs_server)
        words, forbidden = _words(licence, "permits"), _words(licence, "prohibits")
        permits = uses_of_list(words, terms)
        if not words and not forbidden and terms == CONDITIONS:
            permits = dict.fromkeys(USES, terms)
        permitted |= {use: terms for use in permits if permitted.get(use) != YES}
        prohibited |= uses_of_list(forbidden, NO)
    return permitted | prohibited


def _terms_of(licence: etree._Element, *, needs_server: bool) -> str:
    """Return whether a licence gives freely what it permits: to everybody, everywhere, for nothing."""
    payments = {one.get("type", "").strip().lower() for one in licence.iterfind("{*}payment")}
    limits = any(one.get("type") in ("user", "geo") for name in ("permits", "prohibits") for one in _all(licence, name))
    is_free = not payments or any(one in _ASKS_NOTHING for one in payments)
    return YES if is_free and not limits and not needs_server else CONDITIONS


def _words(licence: etree._Element, name: str) -> list[str]:
    texts = (one.text or "" for one in _all(licence, name) if one.get("type", "usage") == "usage")
    return [word for text in texts for word in re.split(r"[\s,]+", text[:_MAX_WORDS_CHARS].lower()) if word]


def _all(licence: etree._Element, name: str) -> list[etree._Element]:
    return list(licence.iterfind(f"{{*}}{name}"))[:_MAX_LICENCES]
