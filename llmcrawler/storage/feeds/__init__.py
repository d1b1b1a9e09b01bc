"""Turns the lines of a crawl into other forms: documents, Markdown files, tables, XML. Nothing here knows Scrapy."""

from llmcrawler.storage.feeds.clean_values import as_json, clean, clean_text
from llmcrawler.storage.feeds.feed_checks import RECORDS, check_feed, page_types_of_feed
from llmcrawler.storage.feeds.markdown_files import INDEX
from llmcrawler.storage.feeds.markdown_stores import sweep
from llmcrawler.storage.feeds.rights_table import RIGHTS, RIGHTS_COLUMNS, rights_row, write_rights
