"""Turns the lines of a crawl into other forms: documents, Markdown files, tables, XML. Nothing here knows Scrapy."""

from llmcrawler.core.storage.feeds.feed_checks import check_feed
from llmcrawler.core.storage.feeds.markdown_files import INDEX, sweep
from llmcrawler.core.storage.feeds.rights_table import RIGHTS, RIGHTS_COLUMNS, rights_row, write_rights
from llmcrawler.core.storage.feeds.tables import clean, clean_text
