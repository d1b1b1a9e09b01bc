"""Parts of a url: its site and place there, and the route behind "#" that only a browser follows."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from llmcrawler.core.urls.normalise import MAX_URL_LENGTH, normalise

# "#/guide" of http://docs.example/#/guide; "#/" alone is the app's front. Control characters and halves of surrogate
# pairs can stand in no url.
_ROUTE = re.compile(r"#!?/[^\x00-\x1f\x7f\ud800-\udfff]+")
_KEPT = "%/:?[]@!$&'()*+,;=~-._"


def site_name(url: str) -> str:
    """Return host and port of an absolute url, without "www.": what is learned of a site holds under other schemes."""
    return site_of(urlsplit(url).netloc)


def site_of(host: str) -> str:
    """Return the site of a host with its port."""
    return host.removeprefix("www.")


def origin_of(url: str) -> str:
    """Return scheme, host and port: "https://www.example.com"."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def relative_url(url: str) -> str:
    """Return path and query of an absolute url, from the slash on."""
    start = url.find("/", url.find("://") + 3)
    return url[start:] if start > 0 else "/"


def route_of(url: str) -> str:
    """Return the route of a url, such as "#/guide"; "" where nothing follows the "#", or a place on the page."""
    at = url.find("#")
    return url[at:] if at >= 0 and _ROUTE.fullmatch(url, at) else ""


def normalise_with_route(url: str, base: str | None = None) -> str | None:
    """Normalise a url as `normalise` does, but keep a route behind the "#"."""
    found = normalise(url, base)
    route = route_of(url.strip()) if "#" in url else ""
    if found is None or not route:
        return found
    whole = f"{found}#{quote(route[1:], safe=_KEPT)}"
    return whole if len(whole) <= MAX_URL_LENGTH else None


def routed_path(url: str) -> str:
    """Return the url with its route as a path, where its words count: http://docs.example/guide."""
    route = route_of(url)
    return f"{url.partition('#')[0].partition('?')[0].rstrip('/')}/{route.lstrip('#!/')}" if route else url
