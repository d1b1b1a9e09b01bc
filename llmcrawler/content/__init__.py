"""What a page holds: links, main text as Markdown, title, language, metadata, structured data, fingerprint."""

from llmcrawler.content.boilerplate import Boilerplate
from llmcrawler.content.decoding import decoded
from llmcrawler.content.markdown import content_hash, main_text
from llmcrawler.content.page import read_page
from llmcrawler.content.reader import PageReader

__all__ = ["Boilerplate", "PageReader", "content_hash", "decoded", "main_text", "read_page"]
