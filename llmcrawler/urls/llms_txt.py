"""Reads llms.txt (llmstxt.org): a site's own list of what is worth reading, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmcrawler.content.decoding import decode, xml_encoding_of
from llmcrawler.urls.url_lists import Listed, Sitemap

# The largest that are known have 1 MB; those with the whole texts of a site have another name (llms-full.txt).
_MAX_BYTES = 4 * 2**20
# The bounded parts are possessive ({,}+), so that text without a link takes linear time too.
_LINK = re.compile(
    r"\[([^\[\]\n]{0,500}+)\]\(\s{0,20}+<?((?:[^\s()<>]|\([^\s()<>]{0,200}+\)){1,2083}+)>?[^()\n]{0,500}+\)"
)
_BARE = re.compile(r"(?<![(<\w])https?://[^\s<>()\[\]\"'`]{1,2083}+")
_MAX_LINKS = 50_000
_LINE_CHARS = 65_536  # a regular expression holds the interpreter's lock


def parse_llms_txt(body: bytes) -> Sitemap:
    """Return the links with their texts as titles; addresses may be relative. Never raises."""
    text = decode(body, xml_encoding_of(body, _MAX_BYTES), _MAX_BYTES)
    if re.match(r"\s*<", text):  # many a site answers all addresses with a web page
        return Sitemap(fault="it is a web page")
    found: dict[str, Listed] = {}
    for line in _short_lines(text):
        for match in _LINK.finditer(line):
            if len(found) < _MAX_LINKS and not match[2].startswith(("#", "mailto:")):
                found.setdefault(match[2], Listed(match[2], "", " ".join(match[1].split())))
        for match in _BARE.finditer(_LINK.sub(" ", line)):
            if len(found) < _MAX_LINKS:
                address = match[0].rstrip(".,;:!?")
                found.setdefault(address, Listed(address))
    return Sitemap(tuple(found.values()), fault="" if found else "it holds no urls")


def _short_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (line[start : start + _LINE_CHARS] for start in range(0, len(line), _LINE_CHARS))
