"""Tells which urls are views of one page: of the other scheme, with "www.", index.html, for printing, AMP, and those
that a site itself names (RFC 6596, canonical links)."""

from __future__ import annotations

import re
from typing import Final

from llmcrawler.core.urls.normalise import dedup_key, normalise
from llmcrawler.core.urls.parts import relative_url, route_of, site_name

_INDEX: Final = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?|jspx?|shtml|cfm)\Z", re.IGNORECASE)
_VIEW: Final = r"(?:amp|print(?:able|er)?(?:[-_]?(?:friendly|mode|page|version|view))?)"
_SEGMENT: Final = re.compile(rf"/{_VIEW}(?=/|\Z)", re.IGNORECASE)
_SUFFIX: Final = re.compile(rf"[._-]{_VIEW}(?=(?:\.[a-z]{{1,5}})?\Z)", re.IGNORECASE)
# A view's name with a value that says no more than yes, or a parameter of the layout that names a view.
_PARAMETER: Final = re.compile(
    rf"{_VIEW}(?:=(?:1|on|print|true|y|yes)?)?"
    rf"|(?:action|display|do|format|layout|mode|output|style|template|tmpl|type|version|view)={_VIEW}",
    re.IGNORECASE,
)
_NAMES_VIEW: Final = re.compile(rf"(?<![a-z]){_VIEW}(?![a-z])|print[a-z_-]{{0,20}}\.(?:aspx?|jsp|php)\b", re.IGNORECASE)
_LINK: Final = re.compile(r"<([^<>\s]{1,2083})>\s{0,9};([^<]{0,500})")
_CANONICAL: Final = re.compile(r"""\brel\s{0,9}=\s{0,9}["']?[^"',;]{0,100}\bcanonical\b""", re.IGNORECASE)
_MAX_HEADER_CHARS: Final = 20_000


def canonical_link(header: str, base: str) -> str | None:
    """Return the url that a Link header (RFC 8288) names as canonical for the page at `base`; None without one."""
    for target, parameters in _LINK.findall(header[:_MAX_HEADER_CHARS]):
        if _CANONICAL.search(parameters):
            return normalise(target, base)
    return None


def view_key(url: str) -> str:
    """Return what all views of a page at a normalised url have in common; pages of other content never share it,
    unless a site tells them apart by what usually names a view.
    """
    path, mark, query = relative_url(dedup_key(url.partition("#")[0])).partition("?")
    path = _INDEX.sub("/", _SUFFIX.sub("", _SEGMENT.sub("", path)))
    kept = [part for part in query.split("&") if not _PARAMETER.fullmatch(part)] if mark else []
    return f"{site_name(url)}{path.rstrip('/')}?{'&'.join(kept)}{route_of(url)}"


def names_view(url: str) -> bool:
    """Tell whether a url says anywhere that it is a view for printing, or AMP."""
    return _NAMES_VIEW.search(relative_url(url)) is not None
