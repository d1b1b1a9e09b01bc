"""HTML to main text as Markdown, links, metadata, structured data and cues; one parse a page."""

from .boilerplate import Boilerplate
from .decoding import decoded
from .page import read_page
from .reader import PageReader
from .selection import content_hash, main_blocks, main_text

__all__ = ["Boilerplate", "PageReader", "content_hash", "decoded", "main_blocks", "main_text", "read_page"]
