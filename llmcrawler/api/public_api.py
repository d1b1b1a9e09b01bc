"""The Python interface without Scrapy: a page to text and data, and records by what crawls have learned.

import llmcrawler

page = llmcrawler.read_page(html, "https://shop.example/tea/7")
extractor = llmcrawler.Extractor.load("shop.json")
found = extractor.record(html, "https://shop.example/tea/7")
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple, Self

from llmcrawler.api.batch_extractor import learned_file
from llmcrawler.api.offline_extractor import OfflineExtractor
from llmcrawler.core import content
from llmcrawler.items import Link


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Content of one page. `text` is the main content as Markdown; `title` and `lang` are "" where there is none."""

    url: str
    text: str
    title: str
    lang: str
    links: tuple[Link, ...]  # absolute http(s) urls, each with its anchor text
    structured_data: tuple[dict[str, Any], ...]  # JSON-LD objects, and microdata and Open Graph products in their form
    metadata: dict[str, str]  # such as author, date, description


class PageRecord(NamedTuple):
    """A page's type and its record; None where no crawl has learned it, or the page has none of its fields."""

    page_type: str | None
    record: dict[str, Any] | None


def read_page(html: str | bytes, url: str, *, content_type: str | None = None) -> ReadPage:
    """Read a page. Bytes are decoded as a browser does, by the header `content_type`, the page itself, or its bytes.

    It never raises on malformed HTML, and takes time in proportion to the page, of which 6 million characters are read.
    It is meant for pages that one trusts to be pages: a crawl reads costly ones in a process with limits.

    >>> body = b"<html lang=en><title>Tea</title><h1>Tea</h1><p>Green tea is <a href=/7>picked</a> in spring."
    >>> page = read_page(body, "https://a.example")
    >>> print(page.text)
    # Tea
    <BLANKLINE>
    Green tea is [picked](https://a.example/7) in spring.
    >>> page.title, page.lang, [link.url for link in page.links], page.structured_data
    ('Tea', 'en', ['https://a.example/7'], ())
    """
    page = content.read_page(_text(html, content_type), url)
    return ReadPage(
        url=url,
        text=content.main_text(page.blocks),
        title=page.title,
        lang=page.lang,
        links=page.links,
        structured_data=page.structured_data,
        metadata=page.metadata,
    )


class Extractor:
    """Takes records from pages of the sites that crawls have learned, without a model and without the network.

    >>> extractor = Extractor.load("shop.json")
    >>> found = extractor.record(html, url)
    >>> found.page_type, found.record["name"]
    ('product', 'Carlo steel Chair 7')
    """

    def __init__(self, learned: OfflineExtractor) -> None:
        self._learned = learned

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a TEMPLATES_FILE, or what a JOBDIR has learned. Raises llmcrawler.errors.ConfigError for a file that is
        not there or none of ours.
        """
        return cls(OfflineExtractor(learned_file(path, "Extractor.load")))

    def record(self, html: str | bytes, url: str, *, content_type: str | None = None) -> PageRecord:
        """Return the type and the record of a page. Raises llmcrawler.errors.ConfigError where the file has nothing of
        the url's site.
        """
        text = _text(html, content_type)
        return PageRecord(self._learned.page_type(text, url), self._learned.record(text, url))


def _text(html: str | bytes, content_type: str | None) -> str:
    return html if isinstance(html, str) else content.decode_page(html, content_type)
