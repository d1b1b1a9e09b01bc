"""Links that only the browser could find, kept in a header beside the body that does not show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from llmcrawler.urls import normalise_with_route

LINKS_HEADER: Final = "X-Rendered-Links"
_MAX_LINKS: Final = 1000


def links_header(found: Iterable[str], base: str) -> str:
    """`found` as the page's scripts named them: absolute or relative, in any characters."""
    urls: dict[str, None] = {}
    for reference in found:
        url = normalise_with_route(reference.strip(), base)
        if url is not None:
            urls[quote(url, safe="%/:?#[]@!$&'()*+,;=~-._")] = None
        if len(urls) >= _MAX_LINKS:
            break
    return " ".join(urls)


def found_links(header: str) -> list[str]:
    return header.split()
