"""Reads what a page says of rights itself: in the headers of its response, its meta and link elements, its structured
data.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from llmcrawler.core.politeness.rights.combined_signals import (
    CONTENT_SIGNAL,
    CONTENT_USAGE,
    LICENCE,
    NOAI,
    NOIMAGEAI,
    PAYMENT,
    RSL,
    TDMREP,
    Signal,
)
from llmcrawler.core.politeness.rights.rsl import MEDIA_TYPE
from llmcrawler.core.politeness.rights.uses import (
    CONDITIONS,
    NO,
    USES,
    uses_of_licence,
    uses_of_list,
    uses_of_reservation,
    uses_of_statement,
)
from llmcrawler.items import PageContent

HEADER, META, LINK, STRUCTURED_DATA = "header", "meta", "link", "structured-data"
# Those that are looked at, in lower case.
HEADERS: Final = (
    *("content-usage", "content-signal", "tdm-reservation", "tdm-policy", "link", "x-robots-tag", "crawler-price"),
)
_PAYMENT_REQUIRED: Final = 402
_MAX_HEADER_CHARS: Final = 4_000
_LINK: Final = re.compile(r"<([^<>]*+)>([^<>]*+)")
_REL: Final = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)
_WORD_ENDS: Final = re.compile(r"[\s,;:]+")
# A licence of one of these is about a picture of the page, say.
_MEDIA: Final = frozenset("ImageObject VideoObject AudioObject MediaObject Photograph Clip 3DModel".split())
_LICENCE_NAMES: Final = ("license", "usageInfo", "acquireLicensePage")
_MAX_LICENCES: Final = 5


def header_signals(status: int, headers: Mapping[str, str]) -> list[Signal]:
    """Read the headers of a response: those of HEADERS, by lower-case name, repeated ones joined with commas."""
    texts = {name: headers.get(name, "")[:_MAX_HEADER_CHARS] for name in HEADERS}
    found = [
        Signal(name, HEADER, uses_of_statement(texts[name]), texts[name])
        for name in (CONTENT_USAGE, CONTENT_SIGNAL)
        if texts[name]
    ]
    found += _reservation(texts, HEADER)
    found += [
        Signal(LICENCE, HEADER, uses_of_licence(url), url) for url, is_rsl in _linked(texts["link"]) if not is_rsl
    ]
    if status == _PAYMENT_REQUIRED and texts["crawler-price"]:
        found.append(Signal(PAYMENT, HEADER, dict.fromkeys(USES, CONDITIONS), texts["crawler-price"]))
    return found


def content_signals(content: PageContent) -> list[Signal]:
    """Read what stands in the page."""
    found = list(_reservation(content.metadata, META))
    licences = [(LINK, url) for url in content.metadata.get("license", "").split()]
    for thing in content.structured_data:
        if not _MEDIA.intersection(_texts(thing.get("@type"))):
            licences += [(STRUCTURED_DATA, url) for name in _LICENCE_NAMES for url in _texts(thing.get(name))]
    return found + [Signal(LICENCE, where, uses_of_licence(url), url) for where, url in licences[:_MAX_LICENCES]]


def noai_signals(
    headers: Mapping[str, str], content: PageContent | None, robots: Collection[str] | None
) -> list[Signal]:
    """Read `noai` and `noimageai` of X-Robots-Tag and of meta robots. `robots`: those of the page's directives that are
    for this crawler, where they are known. The first is about training; the second is about pictures, which are not
    taken.
    """
    meta = "" if content is None else content.metadata.get("robots", "")
    found = []
    for where, text in ((HEADER, headers.get("x-robots-tag", "")), (META, meta)):
        words = frozenset(_WORD_ENDS.split(text[:_MAX_HEADER_CHARS].lower()))
        for name, uses in ((NOAI, uses_of_list(["train-ai"], NO)), (NOIMAGEAI, {})):
            if name in words and (robots is None or name in robots):
                found.append(Signal(name, where, uses, text))
    return found


def licence_files(headers: Mapping[str, str], content: PageContent | None) -> list[str]:
    """Return the addresses of RSL licences, as the header and the link elements give them."""
    linked = [url for url, is_rsl in _linked(headers.get("link", "")[:_MAX_HEADER_CHARS]) if is_rsl]
    return (linked + ("" if content is None else content.metadata.get(RSL, "")).split())[:_MAX_LICENCES]


def _reservation(texts: Mapping[str, str], where: str) -> Iterator[Signal]:
    reservation, policy = texts.get("tdm-reservation", ""), texts.get("tdm-policy", "")
    if uses := uses_of_reservation(reservation, policy):
        yield Signal(TDMREP, where, uses, " ".join(filter(None, (reservation, policy))))


def _linked(header: str) -> Iterator[tuple[str, bool]]:
    """Yield the targets of a Link header (RFC 8288) whose relation is "license", each with whether it is an RSL one."""
    for match in _LINK.finditer(header):
        rel = _REL.search(match[2])
        if rel is not None and "license" in (rel[1] or rel[2] or "").lower().split():
            yield match[1].strip(), MEDIA_TYPE in match[2].lower()


def _texts(value: Any) -> Iterable[str]:
    """Return the texts of a property: itself, those of a list, the url or name of a thing."""
    for one in (value if isinstance(value, list) else [value])[:_MAX_LICENCES]:
        text = one
        if isinstance(one, dict):
            text = next((one[name] for name in ("url", "@id", "name") if isinstance(one.get(name), str)), None)
        if isinstance(text, str) and text.strip():
            yield text.strip()
