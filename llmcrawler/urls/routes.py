"""Addresses of an app behind the "#", as in http://docs.example/#/guide: only a browser follows them."""

from __future__ import annotations

import re
from urllib.parse import quote

from llmcrawler.urls.normalise import MAX_URL_LENGTH, normalise

_ROUTE = re.compile(r"#!?/[^\x00-\x1f\x7f]+")  # "#/" alone is the app's front
_KEPT = "%/:?[]@!$&'()*+,;=~-._"


def route_of(url: str) -> str:
    """ "#/guide"; "" where what follows the mark is a place on the page, or nothing."""
    at = url.find("#")
    return url[at:] if at >= 0 and _ROUTE.fullmatch(url, at) else ""


def normalise_with_route(url: str, base: str | None = None) -> str | None:
    """As `normalise`, which drops all that follows the mark."""
    found = normalise(url, base)
    route = route_of(url.strip()) if "#" in url else ""
    if found is None or not route:
        return found
    whole = f"{found}#{quote(route[1:], safe=_KEPT)}"
    return whole if len(whole) <= MAX_URL_LENGTH else None


def routed_path(url: str) -> str:
    """The route as a path, for who looks at an address's words: http://docs.example/guide."""
    route = route_of(url)
    return f"{url.partition('#')[0].partition('?')[0].rstrip('/')}/{route.lstrip('#!/')}" if route else url
