"""The old name of llmcrawler.crawl.context."""

from llmcrawler.crawl.context import CrawlContext as Crawl
from llmcrawler.crawl.context import crawl_of

__all__ = ["Crawl", "crawl_of"]
