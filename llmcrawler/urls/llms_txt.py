"""llms.txt (llmstxt.org): a site's own list of what is worth reading, in Markdown."""

from __future__ import annotations

import re

from llmcrawler.urls.sitemaps import MAX_BODY_BYTES, Listed, Sitemap

_LINK = re.compile(r"\[([^\]\n]{0,500})\]\(\s*<?([^\s)>]{1,2083})>?[^)\n]{0,500}\)")
_BARE = re.compile(r"(?<![(<\w])https?://[^\s<>()\[\]\"'`]+")
_MAX_LINKS = 50_000


def parse_llms_txt(body: bytes) -> Sitemap:
    """Its links with their texts as titles; addresses may be relative. Never raises."""
    text = body[:MAX_BODY_BYTES].decode("utf-8-sig", "replace")
    if re.match(r"\s*<", text):  # many a site answers all addresses with a web page
        return Sitemap(fault="it is a web page")
    found: dict[str, Listed] = {}
    for match in _LINK.finditer(text):
        if len(found) < _MAX_LINKS and not match[2].startswith(("#", "mailto:")):
            found.setdefault(match[2], Listed(match[2], "", " ".join(match[1].split())))
    for match in _BARE.finditer(_LINK.sub(" ", text)):
        if len(found) < _MAX_LINKS:
            address = match[0].rstrip(".,;:!?")
            found.setdefault(address, Listed(address))
    return Sitemap(tuple(found.values()), fault="" if found else "it holds no urls")
