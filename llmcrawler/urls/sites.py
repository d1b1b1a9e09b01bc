"""A url as a site and a place on it: what is learned of a site holds under another scheme, port or host as well."""

from __future__ import annotations

from urllib.parse import urlsplit


def site_name(url: str) -> str:
    """Host and port of an absolute url; www.example.com and example.com are one site."""
    return urlsplit(url).netloc.removeprefix("www.")


def origin_of(url: str) -> str:
    """Scheme, host and port: "https://www.example.com"."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def relative_url(url: str) -> str:
    """Path and query of an absolute url, from the slash on."""
    start = url.find("/", url.find("://") + 3)
    return url[start:] if start > 0 else "/"
