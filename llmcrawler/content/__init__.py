"""Reads HTML: main text as Markdown, links, metadata, structured data and cues, with one parse a page."""

from .boilerplate import Boilerplate
from .cost import is_cheap
from .decoding import decode, decode_page, encoding_of
from .outline import Outline, read_outline
from .page import read_page, read_tree
from .reader import PageReader
from .selection import content_hash, main_blocks, main_text
from .sniffing import is_binary, looks_like_html

__all__ = [
    "Boilerplate",
    "Outline",
    "PageReader",
    "content_hash",
    "decode",
    "decode_page",
    "encoding_of",
    "is_binary",
    "is_cheap",
    "looks_like_html",
    "main_blocks",
    "main_text",
    "read_outline",
    "read_page",
    "read_tree",
]
