"""Reads HTML: main text as Markdown, links, metadata, structured data and cues, with one parse a page."""

from .boilerplate import Boilerplate
from .cost import is_cheap
from .decoding import decode, decode_page, encoding_of, is_binary, looks_like_html
from .markup import MAX_HTML_CHARS
from .metadata import robots_metas
from .outline import Outline, read_outline
from .page import block_key, read_names, read_page
from .page_kind.kinds_on_demand import forget_kinds
from .platforms import platform_of
from .reader import PageReader
from .selection import content_hash, joined, main_blocks, main_text
from .streamed_parts import with_streamed_parts
