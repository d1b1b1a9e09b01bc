"""Crawlers and downloaders without a network, as a crawl has them."""

from __future__ import annotations

import socket
from typing import Any

from scrapy import Spider
from scrapy.utils.test import get_crawler

from llmcrawler import settings as project_settings
from llmcrawler.core.urls import NameLookup
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.context import build_crawl
from llmcrawler.engine.downloader import PoliteDownloader
from llmcrawler.spiders.explore import ExploreSpider
from tests.adapters.stubs import stub

PUBLIC = "https://example.com/"
NO_HANDLERS = dict.fromkeys(("data", "file", "ftp", "http", "https", "s3"))
SETTINGS = {name: getattr(project_settings, name) for name in dir(project_settings) if name.isupper()}
THROTTLE = {name: value for name, value in SETTINGS.items() if name.startswith("THROTTLE_")}
FIXED: dict[str, Any] = THROTTLE | {
    "AUTOTHROTTLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 5,
}


def crawler_of(*urls: str, names: dict[str, list[str]] | None = None, **settings: Any) -> Any:
    """A crawler whose parts are built, with the settings of the project; `names` has the addresses of hosts."""
    crawler = get_crawler(ExploreSpider, SETTINGS | {"LLM_PROVIDER": "none"} | settings)
    crawler.spider = stub(options=ExploreOptions(urls=urls or (PUBLIC,)), request_of=None)

    def resolve(host: str, _port: int, **_options: Any) -> list[Any]:
        if host not in (names or {}):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in (names or {})[host]]

    build_crawl(crawler, names=NameLookup(resolve=resolve))
    return crawler


def downloader_of(handlers: Any, **settings: Any) -> PoliteDownloader:
    """A downloader that asks `handlers`."""
    crawler = get_crawler(Spider, {"DOWNLOAD_HANDLERS": NO_HANDLERS, "DOWNLOADER": PoliteDownloader, **settings})
    crawler.spider = crawler._create_spider("test")
    downloader = PoliteDownloader(crawler)
    downloader.handlers = handlers
    crawler.engine = stub(downloader=downloader, scheduler=None)
    return downloader
