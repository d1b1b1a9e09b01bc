"""What most people would write: a stock CrawlSpider that follows all links of one site and yields titles.

scrapy runspider benchmarks/plain_spiders.py -a url=URL [-a markdown=1] -O out.jsonl

With `markdown` each page also goes through trafilatura. One class with a switch, as `runspider` runs one spider a file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class PlainSpider(CrawlSpider):
    name = "plain"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, url: str, markdown: str = "", **kwargs: Any) -> None:
        self._url = url
        self.allowed_domains = [urlsplit(url).hostname or ""]
        self._to_markdown = _trafilatura() if markdown else None
        super().__init__(**kwargs)

    async def start(self) -> AsyncIterator[Request]:
        # CrawlSpider's own start leaves the duplicate filter out, and a start page that is linked comes twice.
        yield Request(self._url)

    def parse_start_url(self, response: Response, **kwargs: Any) -> Iterator[dict[str, Any]]:
        return self.parse_page(response)

    def parse_page(self, response: Response) -> Iterator[dict[str, Any]]:
        page = {"url": response.url, "status": response.status, "title": response.css("title::text").get()}
        if self._to_markdown is not None:
            page["text"] = self._to_markdown(response.text, response.url)
        yield page


def _trafilatura() -> Callable[[str, str], str | None]:
    # Imported on demand: the spider without it must not pay for its import.
    from trafilatura import extract

    def to_markdown(html: str, url: str) -> str | None:
        text: str | None = extract(html, url=url, output_format="markdown")
        return text

    return to_markdown
