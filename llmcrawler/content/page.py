"""From a page's HTML to all that the crawl wants of it, in one parse."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from llmcrawler.content.fingerprint import fingerprint
from llmcrawler.content.metadata import language, metadata, title
from llmcrawler.content.scoring import score_blocks
from llmcrawler.content.structured_data import structured_data
from llmcrawler.content.walk import RawBlock, Walk, walk
from llmcrawler.items import Link, PageContent, TextBlock

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_PRICE = re.compile(
    r"(?:[$\u00a3\u20ac\u00a5\u20b9]|\b(?:USD|EUR|GBP|CHF|kr|z\u0142)\b)\s?\d[\d.,]*|\d[\d.,]*\s?(?:[\u20ac$\u00a3]|\b(?:EUR|USD|GBP|CHF|kr|z\u0142)\b)"
)


def read_page(html: str, url: str) -> PageContent:
    """Everything of one page but its main text, which needs the site's boilerplate too (see `main_text`).

    Never raises for malformed HTML. `cues` holds counts for the rules of classification: link_count, word_count,
    link_density (share of the words that are links), form_count, password_inputs, search_inputs, article_tags,
    code_blocks, price_count, heading_count, list_items, images, tables, time_tags, comment_blocks, add_to_cart.
    """
    tree = LexborHTMLParser(html)
    known = metadata(tree)
    walked = walk(tree, _joiner(_base_of(tree, url)))
    scores = score_blocks(walked.blocks, walked.containers)
    return PageContent(
        title=title(tree, known),
        lang=language(tree, known),
        links=tuple(Link(link, text) for link, text in walked.links.items()),
        blocks=tuple(
            TextBlock(_as_markdown(block), len(_WORD.findall(block.text)), float(score), _key(block.text))
            for block, score in zip(walked.blocks, scores, strict=True)
        ),
        metadata=known,
        structured_data=structured_data(tree, html, url),
        features=fingerprint(tree),
        cues=_cues(tree, walked),
    )


def _base_of(tree: LexborHTMLParser, url: str) -> str:
    base = tree.css_first("base[href]")
    if base is None:
        return url
    try:
        return urljoin(url, base.attributes.get("href") or "")
    except ValueError:
        return url


def _joiner(base: str) -> Callable[[str], str | None]:
    def link_of(href: str) -> str | None:
        href = href.strip()
        if href.startswith("#") or (_SCHEME.match(href) and href[:4].lower() != "http"):
            return None
        return _join(base, href)

    return link_of


@lru_cache(maxsize=20_000)
def _join(base: str, href: str) -> str | None:
    try:
        url = urljoin(base, href)
    except ValueError:
        return None
    return url.partition("#")[0] if url[:7].lower() == "http://" or url[:8].lower() == "https://" else None


def _as_markdown(block: RawBlock) -> str:
    text = block.markdown
    if block.tag == "pre":
        return f"```\n{text}\n```"
    if block.heading:
        return f"{'#' * block.heading} {text}"
    if block.tag == "tr":
        return f"| {text} |"
    if block.tag == "li" or (block.list_depth and block.tag in ("p", "div", "a")):
        return f"{'  ' * max(0, block.list_depth - 1)}- {text}"
    return f"> {text}" if block.tag == "blockquote" else text


def _key(text: str) -> int:
    folded = " ".join(text.lower().split())
    return int.from_bytes(blake2b(folded.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def _cues(tree: LexborHTMLParser, walked: Walk) -> dict[str, float]:
    tags = walked.tags
    words = sum(block.text.count(" ") + 1 for block in walked.blocks)
    chars = sum(len(block.text) for block in walked.blocks)
    inputs = [node.attributes for node in tree.css("input")] if tags.get("input") else []
    kinds = [(one.get("type") or "").lower() for one in inputs]
    cues: dict[str, float] = {
        "link_count": len(walked.links),
        "word_count": words,
        "link_density": sum(block.link_chars for block in walked.blocks) / chars if chars else 0.0,
        "form_count": tags.get("form", 0),
        "password_inputs": kinds.count("password"),
        "search_inputs": kinds.count("search") + sum((one.get("name") or "") in ("q", "s", "search") for one in inputs),
        "article_tags": tags.get("article", 0),
        "code_blocks": tags.get("pre", 0),
        "price_count": sum(len(_PRICE.findall(block.text)) for block in walked.blocks if len(block.text) < 300),
        "heading_count": sum(tags.get(f"h{level}", 0) for level in range(1, 7)),
        "list_items": tags.get("li", 0),
        "images": tags.get("img", 0),
        "tables": tags.get("table", 0),
        "time_tags": tags.get("time", 0),
        "comment_blocks": len(tree.css('[class*="comment" i], [id*="comment" i]')),
        "add_to_cart": float(
            tree.css_first('form[action*="cart" i], form[action*="basket" i], [class*="add-to-cart" i]') is not None
        ),
    }
    return {name: float(value) for name, value in cues.items()}
