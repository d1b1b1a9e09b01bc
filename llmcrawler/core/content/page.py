"""Reads a page by one parse: text blocks, links, metadata, structured data, template features, cues of its type; or
only its outline, for a map of the site.
"""

from __future__ import annotations

import html as html_text
import json
import re
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from llmcrawler.core.content.block_markdown import is_code
from llmcrawler.core.content.caching import cached_if_short
from llmcrawler.core.content.embedded_text import article_body, embedded_text
from llmcrawler.core.content.fingerprint import fingerprint
from llmcrawler.core.content.layout import block_regions, framed, layout_of
from llmcrawler.core.content.markup import H1, TAG_IDS, json_ld_scripts, parse, tokens
from llmcrawler.core.content.metadata import (
    Resolver,
    add_licences,
    base_reference,
    language,
    metadata,
    metas,
    resolve_links,
    robots_metas,
)
from llmcrawler.core.content.page_kind_numbers import KindEvidence
from llmcrawler.core.content.page_kinds import KindsOnDemand, kind_probabilities
from llmcrawler.core.content.part_names import PART_BITS
from llmcrawler.core.content.scoring import score_blocks
from llmcrawler.core.content.segmenter import FEW_WORDS, Segments, segment
from llmcrawler.core.content.selection import SURE
from llmcrawler.core.content.structured_data import json_ld, microdata, open_graph_product
from llmcrawler.items import PageContent, TextBlock

# A number without a currency matches too, with empty groups: so it is not looked at again from each of its digits.
_PRICE: Final = re.compile(
    r"([$€£¥₹₽]|\b(?:USD|EUR|GBP|CHF)\b) ?\d[\d.,]*+|\d[\d.,]*+( ?(?:[€£₽]|(?:zł|kr|Kč|USD|EUR|GBP|CHF)\b))?+"
)
# Without one of these there is no price, and this is found faster.
_CURRENCY: Final = re.compile("[$€£¥₹₽]|USD|EUR|GBP|CHF|zł|kr|Kč")
_MAX_PRICE_CHARS: Final = 2000
_CART: Final = re.compile(r'(?:action|name|class|id|data-action)="[^"]*(?:cart|basket)')
_COUNTED: Final = (
    ("form_count", ("form",)), ("article_tags", ("article",)), ("code_blocks", ("pre",)),
    ("heading_count", ("h1", "h2", "h3", "h4", "h5", "h6")), ("list_items", ("li",)), ("images", ("img",)),
    ("tables", ("table",)), ("time_tags", ("time",)),
)  # fmt: skip


def price_counts(page: Segments) -> list[int]:
    """Return for each block how many prices stand near its beginning."""
    return [_prices(block.text) for block in page.blocks]


@cached_if_short(200, size=8192)
def _prices(text: str) -> int:
    text = text[:_MAX_PRICE_CHARS]
    if _CURRENCY.search(text) is None:
        return 0
    return sum([bool(before or behind) for before, behind in _PRICE.findall(text)])


def page_cues(page: Segments, link_count: int, price_count: int) -> dict[str, float]:
    """Return counts that rules tell a page's type by, as floats; one that is 0 is given, too.

    link_count, word_count, link_density (share of words in links, 0..1), form_count, password_inputs, search_inputs,
    article_tags, code_blocks (pre), price_count (amounts with a currency), heading_count, list_items, images, tables,
    time_tags, add_to_cart (forms and buttons that name a cart or basket in action, name, class or id), comment_blocks
    (blocks within an element that is named for comments).
    """
    words = sum([block.words for block in page.blocks])
    linked = sum([block.link_words for block in page.blocks])
    is_comment = [bits & PART_BITS["comment"] != 0 for bits in page.part_bits]
    inputs = [source for tag, source in page.controls if tag == "input"]
    cues = {
        "link_count": float(link_count),
        "word_count": float(words),
        "link_density": linked / words if words else 0.0,
        "password_inputs": float(sum('type="password"' in source for source in inputs)),
        "search_inputs": float(sum('type="search"' in source or 'name="q"' in source for source in inputs)),
        "price_count": float(price_count),
        "add_to_cart": float(sum(_CART.search(source.lower()) is not None for _, source in page.controls)),
        "comment_blocks": float(sum([is_comment[block.container] for block in page.blocks])),
    }
    for name, tags in _COUNTED:
        cues[name] = float(sum(page.counts.get(tag, 0) for tag in tags))
    return cues


_LINK_TARGET: Final = re.compile(r"\]\(([^()\s]+)\)")
_MAX_TITLE_CHARS: Final = 500
_MAX_DESCRIPTION_CHARS: Final = 20_000
# Longer than any book. To write one line of the feed with a multiple of that would hold up all other pages.
_MAX_TEXT_CHARS: Final = 2_000_000
_MUCH_MORE: Final = 2  # times the words of the whole page has a body that it shows only to machines


def block_key(tag: str, text: str) -> int:
    """Return the key of the block that a tag's text makes; its white space is folded."""
    return _key((TAG_IDS.get(tag, 0), text))


@cached_if_short(500)
def _key(tag_and_text: tuple[int, str]) -> int:
    # A heading and the menu's link to it share their words, not their key.
    source = "{} {}".format(*tag_and_text).lower().encode("utf-8", "replace")
    return int.from_bytes(blake2b(source, digest_size=8).digest(), "big")


def _text_blocks(evidence: KindEvidence, resolve: Resolver) -> tuple[TextBlock, ...]:
    def absolute(match: re.Match[str]) -> str:
        reference = match[1]
        return f"]({resolve(reference) or reference})"

    found = []
    left = _MAX_TEXT_CHARS
    sure = title_and_price(evidence)
    for number, (block, score, region) in enumerate(
        zip(evidence.page.blocks, evidence.scores, evidence.layout.once(block_regions), strict=True)
    ):
        markdown = block.markdown
        if "](" in markdown and not is_code(markdown):
            markdown = _LINK_TARGET.sub(absolute, markdown)
        if len(markdown) > left:
            markdown = markdown[:left]
        own = max(score, SURE) if number in sure else score
        found.append(TextBlock(markdown, block.words, own, _key((block.tag, block.text)), block.unit, region))
        left -= len(markdown)
        if left <= 0:
            break
    return tuple(found)


_WORD: Final = re.compile(r"\w+")
_STATED_PRICE: Final = re.compile(r'"(?:price|lowPrice)": "?(\d[\d.,]*)')
_AMOUNT: Final = re.compile(r"\d[\d.,]*")
_CENTS: Final = re.compile(r"[.,](\d\d?)$")
_MAX_PRICE_WORDS: Final = 15  # of the block that has the price
_BELOW_TITLE: Final = 30  # blocks, among which the price is looked for that no structured data state


def title_and_price(evidence: KindEvidence) -> set[int]:
    """Return the numbers of the blocks that are part of the text wherever a template puts them: the `h1` that shares
    most words with the page's title and, on a product's page, a short block with the price. That is the first below
    the title with an amount that the structured data state, or the nearest above; without these, the first below.
    """
    blocks, site_name = evidence.page.blocks, evidence.metas.get("og:site_name")
    title_words = set(_WORD.findall(f"{evidence.page.title} {evidence.metas.get('og:title', '')}".lower()))
    title, best = -1, (-1, 0.0)
    for number, (block, is_framed) in enumerate(zip(blocks, evidence.layout.once(framed), strict=False)):
        if block.tag == H1 and not is_framed and block.text != site_name:
            found = (len(title_words.intersection(_WORD.findall(block.text.lower()))), evidence.scores[number])
            if found > best:
                title, best = number, found
    products = [item for item in evidence.structured_data if "Product" in str(item.get("@type"))]
    if not products and not evidence.cues["add_to_cart"]:
        return {title}
    stated = set(map(_digits, _STATED_PRICE.findall(json.dumps(products))))
    priced = [
        number for number, count in enumerate(evidence.prices) if count and blocks[number].words <= _MAX_PRICE_WORDS
    ]
    near = [number for number in priced if stated.intersection(map(_digits, _AMOUNT.findall(blocks[number].text)))]
    near = near or [number for number in priced if title < number <= title + _BELOW_TITLE]
    return {title, min(near, key=lambda number: (number < title, abs(number - title)), default=title)}


def _digits(amount: str) -> str:
    """Return the digits of an amount down to its hundredths, whatever stands between them."""
    fraction = _CENTS.search(amount.rstrip(".,"))
    whole = amount[: fraction.start()] if fraction else amount
    return re.sub(r"\D", "", whole) + (fraction[1] if fraction else "").ljust(2, "0")


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
        structured_data=_structured_data(objects, items, known),
        features=fingerprint(page_tokens),
    )


def _title(page: Segments, known: dict[str, str]) -> str:
    heading = next((block.text for block in page.blocks if block.markdown.startswith("# ")), "")
    return (page.title or known.get("og:title", "") or heading)[:_MAX_TITLE_CHARS]


def _structured_data(
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
    structured_data = _structured_data(objects, items, known)
    evidence = KindEvidence(
        url=url,
        page=page,
        layout=layout,
        title=_title(page, known),
        links=links,
        metas=known,
        metadata=facts,
        structured_data=structured_data,
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
        structured_data=structured_data,
        features=fingerprint(page_tokens),
        cues=evidence.cues,
        kinds=KindsOnDemand(partial(kind_probabilities, evidence)),
    )
    return content, evidence


_FEED_TYPES: Final = frozenset(("application/rss+xml", "application/atom+xml"))
_WAYS: Final = frozenset(("next", "prev", "canonical", "alternate"))


@dataclass(frozen=True, slots=True)
class Outline:
    """The title, links and feeds of a page; absolute urls, in document order. `robots` is that of PageContent, and
    `description` what the meta element of that name says.
    """

    title: str
    links: tuple[str, ...]
    feeds: tuple[str, ...]
    robots: dict[str, str]
    description: str


def read_outline(html: str, url: str) -> Outline:
    """Read a page's title, links and feeds, at a tenth of the cost of `read_page`. Pure; malformed HTML raises nothing.
    Other addresses of the page (canonical, other languages) are links too.
    """
    tree = parse(html)
    base = tree.css_first("base[href]")
    resolve = Resolver(url, _attribute(base, "href") if base is not None else "")
    title = tree.css_first("title")
    references = [_attribute(node, "href") for node in tree.css("a[href], area[href]")]
    feeds: dict[str, None] = {}
    for node in tree.css("link[href][rel]"):
        kind = _attribute(node, "type").partition(";")[0].strip().lower()
        relations = _WAYS.intersection(_attribute(node, "rel").lower().split())
        if "alternate" in relations and kind in _FEED_TYPES:
            feeds[resolve(_attribute(node, "href"))] = None
        elif relations and kind in ("", "text/html"):
            references.append(_attribute(node, "href"))
    links = dict.fromkeys(
        resolve(reference).partition("#")[0] for reference in references if not reference.startswith("#")
    )
    named = [(_attribute(node, "name"), _attribute(node, "content")) for node in tree.css("meta[name]")]
    description = next((content for name, content in named if content and name.strip().lower() == "description"), "")
    return Outline(
        title=" ".join((title.text() if title is not None else "").split())[:_MAX_TITLE_CHARS],
        links=tuple(filter(None, links)),
        feeds=tuple(filter(None, feeds)),
        robots=robots_metas(named),
        description=" ".join(description[:_MAX_DESCRIPTION_CHARS].split()),
    )


def _attribute(node: LexborNode, name: str) -> str:
    return node.attributes.get(name) or ""
