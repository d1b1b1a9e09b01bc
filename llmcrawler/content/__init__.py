"""Reads HTML: main text as Markdown, links, metadata, structured data and cues, with one parse a page."""

from .cost import is_cheap
from .decoding import decode, decode_page, encoding_of, is_binary, looks_like_html
from .outline import Outline, read_outline
from .page import read_page, read_tree
from .page_kind.kinds_on_demand import forget_kinds
from .reader import PageReader
from .selection import Boilerplate, content_hash, main_blocks, main_text
