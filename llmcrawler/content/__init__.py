"""HTML to main text as Markdown, links, metadata, structured data and cues; one parse a page."""

from .boilerplate import Boilerplate
from .page import read_page
from .selection import content_hash, main_text

__all__ = ["Boilerplate", "content_hash", "main_text", "read_page"]
