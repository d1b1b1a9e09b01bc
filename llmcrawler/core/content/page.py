"""Reads a page: its text blocks, links, metadata, structured data and template features, from one parse."""

from __future__ import annotations

import html as html_text
import re
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser

from llmcrawler.core.content.cues import page_cues, price_counts
from llmcrawler.core.content.elements import TAG_IDS
from llmcrawler.core.content.embedded_text import article_body, embedded_text
from llmcrawler.core.content.fingerprint import fingerprint
from llmcrawler.core.content.item_markup import microdata
from llmcrawler.core.content.layout import layout_of
from llmcrawler.core.content.line_marks import is_code
from llmcrawler.core.content.markup import json_ld_scripts, parse, tokens
from llmcrawler.core.content.metadata import add_licences, base_reference, language, metadata, metas, robots_metas
from llmcrawler.core.content.page_kind_numbers import KindEvidence
from llmcrawler.core.content.page_kinds import KindsOnDemand, kind_probabilities
from llmcrawler.core.content.page_links import Resolver, resolve_links
from llmcrawler.core.content.regions import block_regions
from llmcrawler.core.content.scoring import score_blocks
from llmcrawler.core.content.segmenter import FEW_WORDS, segment
from llmcrawler.core.content.segments import Segments
from llmcrawler.core.content.structured import json_ld, open_graph_product
from llmcrawler.items import PageContent, TextBlock

_LINK_TARGET: Final = re.compile(r"\]\(([^()\s]+)\)")
_MAX_TITLE_CHARS: Final = 500
# Longer than any book. To write one line of the feed with a multiple of that would hold up all other pages.
_MAX_TEXT_CHARS: Final = 2_000_000
_KEPT_CHARS: Final = 500
_MUCH_MORE: Final = 2  # times the words of the whole page has a body that it shows only to machines


def block_key(tag: str, text: str) -> int:
    """Return the key of the block that a tag's text makes; its white space is folded."""
    return _key(TAG_IDS.get(tag, 0), text)


def _key(tag: int, text: str) -> int:
    # Keys of short texts are cached, as the pages of one site repeat their blocks.
    return _cached_hash(tag, text) if len(text) <= _KEPT_CHARS else _hash(tag, text)


def _hash(tag: int, text: str) -> int:
    # A heading and the menu's link to it share their words, not their key.
    source = f"{tag} {text}".lower().encode("utf-8", "replace")
    return int.from_bytes(blake2b(source, digest_size=8).digest(), "big")


_cached_hash: Final = lru_cache(maxsize=16384)(_hash)


def _text_blocks(evidence: KindEvidence, resolve: Resolver) -> tuple[TextBlock, ...]:
    def absolute(match: re.Match[str]) -> str:
        reference = match[1]
        return f"]({resolve(reference) or reference})"

    found = []
    left = _MAX_TEXT_CHARS
    for block, score, region in zip(
        evidence.page.blocks, evidence.scores, evidence.layout.once(block_regions), strict=True
    ):
        markdown = block.markdown
        if "](" in markdown and not is_code(markdown):
            markdown = _LINK_TARGET.sub(absolute, markdown)
        if len(markdown) > left:
            markdown = markdown[:left]
        found.append(TextBlock(markdown, block.words, score, _key(block.tag, block.text), block.unit, region))
        left -= len(markdown)
        if left <= 0:
            break
    return tuple(found)


def read_page(html: str, url: str) -> PageContent:
    """Read all that is used of a page, with one parse. Pure; malformed HTML raises nothing.

    Time is linear in the size of the page; what lies behind its first 6 million characters is not read.
    """
    return read_with_evidence(parse(html), html, url)[0]


def read_names(html: str, url: str) -> PageContent:
    """Read what a page calls itself, with half the work of `read_page`: title, language, headings (its only blocks),
    structured data, features and metadata (but `robots`) are the same, and nothing else is there.
    """
    tree = parse(html)
    objects = json_ld(json_ld_scripts(tree)) if "ld+json" in html else []
    page_tokens = tokens(tree)
    items = microdata(tree) if "itemscope" in html else []
    page = _with_embedded_text(segment(page_tokens), objects, html)
    known = metas(page)
    return PageContent(
        title=_title(page, known),
        lang=language(page, known),
        blocks=tuple(TextBlock(one.markdown, one.words, 0.0, 0) for one in page.blocks if one.markdown.startswith("#")),
        metadata=metadata(page, known, Resolver(url, base_reference(page))),
        structured_data=_stated(objects, items, known),
        features=fingerprint(page_tokens),
    )


def _title(page: Segments, known: dict[str, str]) -> str:
    heading = next((block.text for block in page.blocks if block.markdown.startswith("# ")), "")
    return (page.title or known.get("og:title", "") or heading)[:_MAX_TITLE_CHARS]


def _stated(
    objects: list[dict[str, Any]], items: list[dict[str, Any]], known: dict[str, str]
) -> tuple[dict[str, Any], ...]:
    if not any(str(item.get("@type")).endswith("Product") for item in objects + items):
        items = items + open_graph_product(known)
    return (*objects, *items)


def _with_embedded_text(page: Segments, objects: list[dict[str, Any]], html: str) -> Segments:
    """Return the pieces of a page that keeps its text for its scripts, with that text; any other as it is."""
    words = sum(block.words for block in page.blocks)
    body = article_body(objects)
    if words >= FEW_WORDS and body.count(" ") < _MUCH_MORE * words:
        return page
    if not (objects or "application/json" in html or "__=" in html or "__ =" in html):
        return page
    tree = parse(html)
    text = f"<article>{html_text.escape(body)}</article>" if words >= FEW_WORDS else embedded_text(tree, objects)
    if not text or tree.body is None:
        return page
    found = segment(tokens(parse(f"{tree.html or ''}{text}")))
    found.has_hidden = True
    return found


def read_with_evidence(tree: LexborHTMLParser, html: str, url: str) -> tuple[PageContent, KindEvidence]:
    """Read a page that is parsed already; return also what tells its kind. Removes scripts, styles and frames from the
    tree.
    """
    objects = json_ld(json_ld_scripts(tree)) if "ld+json" in html else []
    page_tokens = tokens(tree)
    items = microdata(tree) if "itemscope" in html else []
    page = _with_embedded_text(segment(page_tokens), objects, html)
    known = metas(page)
    robots = robots_metas((of.get("name", ""), of.get("content", "")) for tag, of in page.metas if tag == "meta")
    resolve = Resolver(url, base_reference(page))
    links = resolve_links(page, resolve)
    layout = layout_of(page)
    prices = price_counts(page)
    facts = metadata(page, {**known, "robots": robots.get("robots", "")}, resolve)
    if "license" in html:
        add_licences(facts, page_tokens, resolve)
    stated = _stated(objects, items, known)
    evidence = KindEvidence(
        url=url,
        page=page,
        layout=layout,
        title=_title(page, known),
        links=links,
        metas=known,
        metadata=facts,
        structured_data=stated,
        cues=page_cues(page, len(links), sum(prices)),
        scores=score_blocks(page, layout, prices),
        prices=prices,
    )
    content = PageContent(
        title=evidence.title,
        lang=language(page, known),
        links=links,
        blocks=_text_blocks(evidence, resolve),
        metadata=facts,
        robots=robots,
        structured_data=stated,
        features=fingerprint(page_tokens),
        cues=evidence.cues,
        kinds=KindsOnDemand(partial(kind_probabilities, evidence)),
    )
    return content, evidence
