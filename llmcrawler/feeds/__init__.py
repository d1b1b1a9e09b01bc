"""Turns the lines of a crawl into other forms: documents, Markdown files, tables, XML. Nothing here knows Scrapy."""

from llmcrawler.feeds.feed_checks import check_feed
from llmcrawler.feeds.note_stores import sweep
from llmcrawler.feeds.notes import INDEX
from llmcrawler.feeds.values import as_json, clean, clean_text

__all__ = ["INDEX", "as_json", "check_feed", "clean", "clean_text", "sweep"]
