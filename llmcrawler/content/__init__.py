"""HTML to main text as Markdown, links, metadata, structured data and cues; one parse a page."""

from .boilerplate import Boilerplate
from .decoding import decoded
from .outline import Outline, read_outline
from .page import read_page
from .reader import PageReader
from .selection import content_hash, main_blocks, main_text

__all__ = [
    "Boilerplate",
    "Outline",
    "PageReader",
    "content_hash",
    "decoded",
    "main_blocks",
    "main_text",
    "read_outline",
    "read_page",
]
