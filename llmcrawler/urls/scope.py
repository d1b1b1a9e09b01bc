"""Which urls belong to a crawl."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from llmcrawler.urls.normalise import MAX_URL_LENGTH

# What a link with such an ending leads to is no web page.
_OTHER_FILES = frozenset(
    "7z 7zip bz2 rar tar gz tgz xz zip zst jar war deb rpm msi dmg exe bin iso apk ipa pkg "
    "jpg jpeg png gif webp avif svg bmp ico tif tiff psd ai eps heic "
    "mp3 wma ogg oga wav ra aac flac m4a m4b opus mp4 m4v avi mov mpg mpeg mkv webm wmv flv 3gp swf "
    "css js mjs map json woff woff2 ttf otf eot wasm "
    "pdf doc docx xls xlsx xlsm ppt pptx odt ods odp rtf epub mobi csv tsv ics vcf torrent "
    "rss atom".split()
)


class Scope:
    """The hosts of the start urls (with and without www), minus what the user's patterns rule out."""

    def __init__(
        self,
        start_urls: Iterable[str],
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        max_depth: int | None = None,
        max_url_length: int = MAX_URL_LENGTH,
    ) -> None:
        self._hosts = {_host(url) for url in start_urls}
        self._allow = [re.compile(expression) for expression in allow]
        self._deny = [re.compile(expression) for expression in deny]
        self._max_depth = max_depth
        self._max_url_length = max_url_length

    def reason_to_refuse(self, url: str, depth: int) -> str | None:
        """For a normalised url that was found `depth` links away from the start."""
        if _host(url) not in self._hosts:
            return "offsite"
        if self._max_depth is not None and depth > self._max_depth:
            return "too deep"
        if len(url) > self._max_url_length:
            return "too long"
        if _extension(url) in _OTHER_FILES:
            return "not a page"
        if self._allow and not any(expression.search(url) for expression in self._allow):
            return "not allowed"
        if any(expression.search(url) for expression in self._deny):
            return "denied"
        return None

    def widen(self, url: str) -> None:
        """A start url led here, so this host is what the user meant."""
        self._hosts.add(_host(url))


def _host(url: str) -> str:
    return url.split("/", 3)[2].removeprefix("www.")


def _extension(url: str) -> str:
    last = urlsplit(url).path.rpartition("/")[2]
    return last.rpartition(".")[2].lower() if "." in last else ""
