"""The leanest stock spider that queues all links of all pages, to compare queues with.

scrapy runspider benchmarks/queue_spider.py -a url=URL -s CLOSESPIDER_PAGECOUNT=300 -s JOBDIR=DIR -O out.jsonl
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response


class QueueSpider(Spider):
    name = "queue"

    def __init__(self, url: str, **kwargs: Any) -> None:
        self._url = url
        super().__init__(**kwargs)

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self._url)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url, "status": response.status, "title": response.css("title::text").get()}
        for link in response.css("a::attr(href)").getall():
            yield Request(response.urljoin(link))
