"""Tells which requests of a page that is rendered may go out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

# Resources that are never text. An EventSource would never end; a frame's content is not the page's.
_BLOCKED_KINDS: Final = frozenset({"Image", "Font", "Media", "TextTrack", "Ping", "CSPViolationReport", "Prefetch"})
_PICTURES: Final = (".ico", ".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".woff", ".woff2", ".ttf")
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """A request of the browser. `kind` is the resource type of the DevTools protocol. `is_page`: the page itself is to
    be another one. `source`: the url of the page that asks, or of what redirects here.
    """

    url: str
    kind: str
    method: str = "GET"
    is_page: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class TrafficRules:
    """Rules of one page. `refuse_url` gives a reason not to go to a url from a source, `is_forbidden` whether a
    robots.txt that is known forbids a url.
    """

    refuse_url: Callable[[str, str], str | None]
    is_forbidden: Callable[[str], bool]

    def reason_to_block(self, ask: BrowserRequest, *, probing: bool = False) -> str | None:
        """Return why a request must not go out, else None. `probing`: links are clicked to see where they lead."""
        parts = urlsplit(ask.url)
        if parts.scheme in ("data", "blob"):
            return None
        if parts.scheme not in ("http", "https"):
            return "scheme"
        if ask.kind in _BLOCKED_KINDS or (ask.kind == "Document" and not ask.is_page):
            return "kind"
        if ask.kind == "Other" and (parts.path.lower().endswith(_PICTURES) or "manifest" in parts.path):
            return "kind"  # the tab's icon
        if self.refuse_url(ask.url, ask.source) is not None:
            return "private_address"
        if probing and ask.method not in _READS:
            return "probing"
        if not ask.is_page and self.is_forbidden(ask.url):
            return "robots"
        return None
