"""Lists of urls that a site publishes: sitemaps of all kinds and feeds.

robots.txt names them; Protego's `RobotFileParser.sitemaps` reads those lines.
"""

from __future__ import annotations

import html
import re
import zlib
from dataclasses import dataclass

from lxml import etree

# sitemaps.org allows 50 MB and 50,000 urls a file; a zip bomb ends here.
MAX_BODY_BYTES = 50 * 1024 * 1024
MAX_URLS = 50_000

_GZIP_MAGIC = b"\x1f\x8b"
_URL = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
_LOC = re.compile(r"<(?:[\w-]+:)?(loc|link)\b[^>]*>\s*(?:<!\[CDATA\[)?\s*([^<\]]+)", re.IGNORECASE)
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True, slots=True)
class Sitemap:
    """`urls` are (address, last modification as the site writes it, or ""); `sitemaps` are further files to read.

    Addresses stand as the file gives them: not normalised, and not yet checked to be on the site.
    """

    urls: tuple[tuple[str, str], ...] = ()
    sitemaps: tuple[str, ...] = ()


def parse_sitemap(body: bytes) -> Sitemap:
    """Read a urlset, a sitemapindex, RSS, Atom, or one url a line; gzipped or not, cut short or malformed.

    Never raises: what cannot be read is left out. Entities are not expanded, so a bomb of them stays small.
    """
    body = _unpack(body[:MAX_BODY_BYTES]).lstrip(b"\x00\t\r\n ")
    bom_encoding = next((encoding for bom, encoding in _BOMS.items() if body.startswith(bom)), "")
    head = body[:1000].decode(bom_encoding or "latin-1", "replace").lstrip("\ufeff \t\r\n")
    if not head.startswith("<"):
        return _parse_lines(body.decode(bom_encoding or "utf-8", "replace"))
    if re.match(r"<!doctype html|<html", head, re.IGNORECASE):  # an error page under the sitemap's address
        return Sitemap()
    sitemap = _parse_xml(body)
    # The recovering parser gives up at some faults, such as an encoding that does not exist.
    return sitemap if sitemap.urls or sitemap.sitemaps else _scan(body.decode(bom_encoding or "utf-8", "replace"))


def _unpack(body: bytes) -> bytes:
    """Unzip, twice when a server zipped a zipped file; a stream that breaks off yields what came before."""
    for _ in range(2):
        if not body.startswith(_GZIP_MAGIC):
            break
        unzip = zlib.decompressobj(wbits=31)
        pieces, size = [], 0
        try:
            for start in range(0, len(body), 65536):
                pieces.append(unzip.decompress(body[start : start + 65536], MAX_BODY_BYTES - size))
                size += len(pieces[-1])
                if unzip.eof or size >= MAX_BODY_BYTES:
                    break
        except zlib.error:  # a damaged end: what was read so far is still a list
            pass
        body = b"".join(pieces)
    return body


def _parse_xml(body: bytes) -> Sitemap:
    parser = etree.XMLPullParser(
        events=("end",), recover=True, resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False
    )
    urls: dict[str, str] = {}
    sitemaps: dict[str, None] = {}
    try:
        for start in range(0, len(body), 65536):
            parser.feed(body[start : start + 65536])
            _collect(parser, urls, sitemaps)
            if len(urls) + len(sitemaps) >= MAX_URLS:
                break
        else:
            parser.close()
            _collect(parser, urls, sitemaps)
    except etree.XMLSyntaxError:  # past recovery: keep what was read so far
        pass
    return Sitemap(tuple(urls.items())[:MAX_URLS], tuple(sitemaps)[:MAX_URLS])


def _collect(parser: etree.XMLPullParser, urls: dict[str, str], sitemaps: dict[str, None]) -> None:
    for _, element in parser.read_events():
        if not isinstance(element, etree._Element) or not isinstance(element.tag, str):  # a comment
            continue
        name = element.tag.rpartition("}")[2].lower()
        if name not in ("url", "sitemap", "item", "entry"):
            continue
        address, modified = _read_entry(element)
        if address and name == "sitemap":
            sitemaps.setdefault(address)
        elif address:
            urls.setdefault(address, modified)
        element.clear()
        parent = element.getparent()
        # Entries that were read are let go, so 50,000 of them never stand in memory.
        while parent is not None and element.getprevious() is not None:
            del parent[0]


def _read_entry(element: etree._Element) -> tuple[str, str]:
    """The address and the date of a <url>, <sitemap>, RSS <item> or Atom <entry>."""
    address = modified = ""
    for child in element.iterchildren("*"):
        name = child.tag.rpartition("}")[2].lower()
        text = (child.text or "").strip()
        if name == "loc" and not address:
            address = text
        elif name == "link" and not address and child.get("rel", "alternate") == "alternate":
            # RSS writes the address as text, Atom as an attribute; xhtml:link of a sitemap is another language.
            address = text or ("" if child.tag.startswith("{http://www.w3.org/1999/xhtml}") else child.get("href", ""))
        elif name in ("lastmod", "updated", "pubdate", "date") and not modified:
            modified = text
    return address, modified


def _parse_lines(text: str) -> Sitemap:
    addresses = dict.fromkeys(_URL.findall(text))
    return Sitemap(tuple((address, "") for address in list(addresses)[:MAX_URLS]))


def _scan(text: str) -> Sitemap:
    """Find addresses in what no XML parser reads."""
    addresses = list(dict.fromkeys(html.unescape(match[2]).strip() for match in _LOC.finditer(text)))[:MAX_URLS]
    addresses = [address for address in addresses if _URL.match(address)]
    if re.search(r"<(?:[\w-]+:)?sitemapindex\b", text, re.IGNORECASE):
        return Sitemap(sitemaps=tuple(addresses))
    return Sitemap(tuple((address, "") for address in addresses))
