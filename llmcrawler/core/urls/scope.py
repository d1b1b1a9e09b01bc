"""Tells which urls belong to a crawl, and the reasons to refuse others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from llmcrawler.core.urls.normalise import MAX_URL_LENGTH
from llmcrawler.errors import ConfigError


class UrlRefusalKind(StrEnum):
    MALFORMED = "malformed"
    TOO_LONG = "too long"
    TOO_DEEP = "too deep"
    OFFSITE = "offsite"
    NO_PAGE = "no page"
    DENIED = "denied"
    NOT_ALLOWED = "not allowed"
    PRIVATE_HOST = "private host"
    TRAP = "trap"


class UrlRefusal(str):
    """A reason in words; `kind` is what callers decide by."""

    kind: UrlRefusalKind

    def __new__(cls, kind: UrlRefusalKind, detail: str = "") -> Self:
        refusal = super().__new__(cls, f"{kind}: {detail}" if detail else kind.value)
        refusal.kind = kind
        return refusal


# Files that hold no page. What is missing here costs a request and ends at the content type. Left out are those that
# are also the ends of names in urls, like .ai and .so.
_NO_PAGES = frozenset(
    """
    apng avif bmp cdr cur drw dxf eps gif heic heif ico j2k jfif jp2 jpe jpeg jpg jxl mng pct png ps psd svg
    svgz tif tiff webp xcf
    3g2 3gp aac aif aiff asf asx au avi flac flv m3u m3u8 m4a m4v mid midi mkv mov mp2 mp3 mp4 mpeg mpg oga ogg
    ogv opus qt ra ram rm swf ts vob wav webm wma wmv
    7z apk appimage bin bz2 cab cbr cbz crx deb dll dmg ear egg exe gz img iso jar lz lzma msi msix nupkg pkg
    rar rpm sit tar tbz tgz txz vsix war whl xpi xz z zip zst
    azw3 csv doc docm docx dot dotx dvi epub ics mobi odg odp ods odt ott pdf pot potx pps ppsx ppt pptm pptx
    rtf sqlite sxc sxw tex torrent vcf xls xlsb xlsm xlsx xlt
    atom css eot geojson gpx js json kml kmz less map mjs otf rdf rss scss ttf wasm webmanifest woff woff2 xml
    xsd xsl
    asc crt md5 pem sha1 sha256 sha512 sig
    """.split()
)
_EXTENSION = re.compile(r"\.([a-z0-9]{1,11})(?:;|$)", re.IGNORECASE)


class Scope:
    """Judges urls in their normalised form. A host is in scope under both schemes, with and without "www."."""

    def __init__(  # noqa: PLR0913 (each is a filter of its own)
        self,
        start_urls: Iterable[str],
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        max_depth: int | None = None,
        max_url_length: int = MAX_URL_LENGTH,
        subdomains: bool = False,
    ) -> None:
        """Search `allow` and `deny`, regular expressions, in the whole url. Raises ConfigError for a bad one."""
        if max_depth is not None and max_depth < 0:
            raise ConfigError(f"depth: {max_depth} is negative; 0 fetches only the given URLs")
        self._allow = _compile("allow", allow)
        self._deny = _compile("deny", deny)
        self._max_depth = max_depth
        self._start_urls = frozenset(start_urls)
        self._sites = {_site(url) for url in self._start_urls}
        self._subdomains = subdomains
        self._max_url_length = max_url_length

    def reason_to_refuse(self, url: str, depth: int) -> UrlRefusal | None:
        """Return None when the url is in scope. A start url only has to be short enough: the user asked for it."""
        if len(url) > self._max_url_length:
            return UrlRefusal(UrlRefusalKind.TOO_LONG, f"{len(url)} characters")
        if url in self._start_urls:
            return None
        if self._max_depth is not None and depth > self._max_depth:
            return UrlRefusal(UrlRefusalKind.TOO_DEEP, str(depth))
        if not self.has_site_of(url):
            return UrlRefusal(UrlRefusalKind.OFFSITE, _site(url))
        path = url.partition("?")[0]
        extension = _EXTENSION.search(path, max(path.rfind("/") + 1, path.find("/", 8)))
        if extension is not None and extension[1].lower() in _NO_PAGES:
            return UrlRefusal(UrlRefusalKind.NO_PAGE, f".{extension[1].lower()}")
        if any(pattern.search(url) for pattern in self._deny):
            return UrlRefusal(UrlRefusalKind.DENIED)
        if self._allow and not any(pattern.search(url) for pattern in self._allow):
            return UrlRefusal(UrlRefusalKind.NOT_ALLOWED)
        return None

    def has_site_of(self, url: str) -> bool:
        if (site := _site(url)) in self._sites:
            return True
        return self._subdomains and any(site[at + 1 :] in self._sites for at, mark in enumerate(site) if mark == ".")

    def widen(self, url: str) -> None:
        """Take in the site of `url`: a start url was redirected there."""
        self._sites.add(_site(url))


def _site(url: str) -> str:
    start = url.find("://") + 3
    end = url.find("/", start)
    return url[start : end if end >= 0 else len(url)].removeprefix("www.")


def _compile(argument: str, patterns: Iterable[str]) -> list[re.Pattern[str]]:
    compiled = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise ConfigError(f"{argument}: {pattern!r} is not a regular expression: {error}") from error
    return compiled
