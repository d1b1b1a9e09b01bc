"""Reads HTML: main text as Markdown, links, metadata, structured data and cues, with one parse a page."""

from llmcrawler.core.content.decoding import (
    decode,
    decode_page,
    encoding_of,
    html_of,
    is_binary,
    is_text,
    looks_like_html,
)
from llmcrawler.core.content.markup import is_cheap, with_streamed_parts
from llmcrawler.core.content.metadata import robots_metas
from llmcrawler.core.content.page import Outline, block_key, read_names, read_outline, read_page
from llmcrawler.core.content.page_kinds import forget_kinds
from llmcrawler.core.content.reader import PageReader
from llmcrawler.core.content.selection import Boilerplate, content_hash, joined, main_blocks, main_text
