"""Reads a page: its text blocks, links, metadata, structured data and template features, from one parse."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from selectolax.lexbor import LexborHTMLParser

from llmcrawler.items import PageContent, TextBlock

from .cues import page_cues, price_counts
from .fingerprint import fingerprint
from .layout import layout_of
from .markup import json_ld_scripts, parse, tokens
from .metadata import base_reference, language, metadata, metas
from .page_kind.kind_evidence import KindEvidence
from .page_kind.kinds_on_demand import KindsOnDemand
from .page_links import Resolver, resolve_links
from .scoring import score_blocks
from .segmenter import segment
from .segments import Segments
from .structured import json_ld, microdata, open_graph_product

_LINK_TARGET: Final = re.compile(r"\]\(([^()\s]+)\)")
_MAX_TITLE_CHARS: Final = 500
# Longer than any book. To write one line of the feed with a multiple of that would hold up all other pages.
_MAX_TEXT_CHARS: Final = 2_000_000
_KEPT_CHARS: Final = 500


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.lower().encode("utf-8", "replace"), digest_size=8).digest(), "big")


_cached_hash: Final = lru_cache(maxsize=16384)(_hash)


def _text_blocks(page: Segments, scores: list[float], resolve: Resolver) -> tuple[TextBlock, ...]:
    def absolute(match: re.Match[str]) -> str:
        return f"]({resolve(match[1]) or match[1]})"

    found = []
    left = _MAX_TEXT_CHARS
    for block, score in zip(page.blocks, scores, strict=True):
        markdown = _LINK_TARGET.sub(absolute, block.markdown) if "](" in block.markdown else block.markdown
        # A heading and the menu's link to it share their words, not their key.
        text = f"{block.tag} {block.text}"
        # Keys of short texts are cached, as the pages of one site repeat their blocks.
        key = _cached_hash(text) if len(text) <= _KEPT_CHARS else _hash(text)
        found.append(TextBlock(markdown[:left], block.words, score, key))
        left -= len(markdown)
        if left <= 0:
            break
    return tuple(found)


def read_page(html: str, url: str) -> PageContent:
    """Read all that is used of a page, with one parse. Pure; malformed HTML raises nothing.

    Time is linear in the size of the page; what lies behind its first 6 million characters is not read.
    """
    return read_tree(parse(html), html, url)


def read_tree(tree: LexborHTMLParser, html: str, url: str) -> PageContent:
    """Read a page that is parsed already, as `read_page` does. Removes scripts, styles and frames from the tree."""
    content, evidence = read_with_evidence(tree, html, url)
    return replace(content, kinds=KindsOnDemand(evidence))


def read_with_evidence(tree: LexborHTMLParser, html: str, url: str) -> tuple[PageContent, KindEvidence]:
    """Read a page as `read_tree` does; return also what tells its kind, which the content has not yet."""
    items = microdata(tree) if "itemscope" in html else []
    objects = json_ld(json_ld_scripts(tree)) if "ld+json" in html else []
    page_tokens = tokens(tree)
    page = segment(page_tokens)
    known = metas(page)
    resolve = Resolver(url, base_reference(page))
    links = resolve_links(page, resolve)
    heading = next((block.text for block in page.blocks if block.markdown.startswith("# ")), "")
    if not any(str(item.get("@type")).endswith("Product") for item in objects + items):
        items += open_graph_product(known)
    layout = layout_of(page)
    scores = score_blocks(page, layout)
    prices = price_counts(page)
    content = PageContent(
        title=(page.title or known.get("og:title", "") or heading)[:_MAX_TITLE_CHARS],
        lang=language(page, known),
        links=links,
        blocks=_text_blocks(page, scores, resolve),
        metadata=metadata(page, known, resolve),
        structured_data=(*objects, *items),
        features=fingerprint(page_tokens),
        cues=page_cues(page, len(links), sum(prices)),
    )
    evidence = KindEvidence(
        url=url,
        page=page,
        layout=layout,
        title=content.title,
        links=links,
        metas=known,
        metadata=content.metadata,
        structured_data=content.structured_data,
        cues=content.cues,
        scores=scores,
        prices=prices,
    )
    return content, evidence
