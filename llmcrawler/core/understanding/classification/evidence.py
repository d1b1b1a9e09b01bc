"""Tells the page type from structured data, where that is unambiguous."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urldefrag

from llmcrawler.core.understanding.classification.page_types import PageTypes
from llmcrawler.core.understanding.classification.question import Question
from llmcrawler.items import PageContent

_LIST = "CollectionPage"
_SHELF = "CollectionPage of products"

# schema.org types -> the names that a set of page types may have for them, the most fitting first. What sites put on
# pages of every kind is left out: WebPage, FAQPage, Article of og:type, ContactPage, ItemList (measured on 433 real
# pages of 400 hosts: og:type article stood on 94 pages, of which 34 were articles; FAQPage on 23, none of them a FAQ).
_NAMES: dict[str, tuple[str, ...]] = {
    "Product": ("product",),
    "ProductGroup": ("product",),
    "NewsArticle": ("news_article", "news", "article"),
    "BlogPosting": ("blog_post", "article"),
    "Article": ("article",),
    "Recipe": ("recipe",),
    "JobPosting": ("job", "job_posting", "vacancy"),
    "Event": ("event",),
    "QAPage": ("question", "qa"),
    "DiscussionForumPosting": ("forum_thread", "thread", "discussion", "forum"),
    "ProfilePage": ("profile",),
    "SearchResultsPage": ("search", "search_results"),
    _LIST: ("listing", "index", "archive", "category", "collection"),
    _SHELF: ("collection", "category", "product_listing", "product_list", "listing"),
}
_EVENTS = re.compile(r"[A-Z][a-z]+Event\Z")

# Things that a page may also only mention: they count where the page is named after the only one it has.
_ENTITIES = frozenset(
    {"Product", "ProductGroup", "NewsArticle", "BlogPosting", "Article", "Recipe", "JobPosting", "Event"}
)
# Types of the page itself, which win over the things on it.
_PAGES = frozenset({"QAPage", "ProfilePage", "SearchResultsPage", "CollectionPage", "DiscussionForumPosting"})

# Share of pages with this evidence that had the type: 356 of 370 on the 1,310 pages of WCXB's dev split, 65 of 68 for
# products, 248 of 258 for articles (benchmarks/rules_on_pages.py).
_CONFIDENCE = 0.96

# Service pages carry a Product for its review stars alone; what is sold has one of these.
_SOLD = frozenset({"offers", "sku", "mpn", "gtin", "gtin8", "gtin12", "gtin13", "gtin14", "hasVariant"})

_WORD = re.compile(r"\w{2,}")


class StructuredEvidence:
    """Decides for labels of the given set only. A set that names things otherwise does not get this evidence."""

    def __init__(self, page_types: PageTypes) -> None:
        by_name = {name.casefold().replace("-", "_"): name for name in page_types.names}
        # A set that splits a kind further ("listing" and "product_listing") needs more than schema.org tells.
        self._label_of = {
            kind: by_name[known[0]]
            for kind, names in _NAMES.items()
            if (known := [name for name in names if name in by_name])
            and not any(name.endswith(f"_{known[0]}") for name in by_name)
        }

    def decide(self, question: Question) -> tuple[str, float] | None:
        """Return the label and the confidence, or None."""
        kind = _main_kind(question.content, question.title, question.url)
        kinds = [kind] if kind else []
        if kind == _LIST:  # most shops do not say there of which kind its items are
            objects = question.content.structured_data
            has_products = any("Product" in schema_types(one.get("@type")) for one in objects)
            kinds = [_SHELF] if has_products else [_LIST, _SHELF]
        labels = {self._label_of.get(one) for one in kinds}
        label = labels.pop() if len(labels) == 1 else None
        return (label, _CONFIDENCE) if label else None


def _main_kind(content: PageContent, title: str, url: str) -> str | None:
    """Return the schema.org type (a key of `_NAMES`) of what the page as a whole is, or None in any doubt."""
    objects = [(kind, one) for one in content.structured_data for kind in schema_types(one.get("@type"))]
    pages = {kind for kind, _ in objects if kind in _PAGES}
    if pages == {"CollectionPage"} and any(kind in _ENTITIES - {"Product"} for kind, _ in objects):
        return None
    if pages:
        return pages.pop() if len(pages) == 1 else None
    entities = [(kind, one) for kind, one in objects if kind in _ENTITIES]
    kinds = {kind for kind, _ in entities}
    if kinds in ({"Article", "BlogPosting"}, {"Article", "NewsArticle"}):
        kinds.discard("Article")  # one thing, said twice
    if len(kinds) != 1 or len({_name(one) for _, one in entities}) != 1:
        return None
    kind = kinds.pop()
    is_sold = any(name in ("Offer", "AggregateOffer") or not _SOLD.isdisjoint(one) for name, one in objects)
    if kind in ("Product", "ProductGroup") and not is_sold:
        return None
    # The page is about it if its title has half of the words of its name, or its address is the page's.
    if words := set(_WORD.findall(_name(entities[0][1]))):
        heading = f"{title} {content.metadata.get('og:title', '')}"
        return kind if 2 * len(words & set(_WORD.findall(heading.casefold()))) >= len(words) else None
    address = entities[0][1].get("url")
    is_own = isinstance(address, str) and urldefrag(address).url.rstrip("/") == urldefrag(url).url.rstrip("/")
    return kind if is_own else None


def schema_types(declared: Any) -> Iterable[str]:
    for name in declared if isinstance(declared, list) else [declared]:
        if isinstance(name, str):
            kind = name.rstrip("/").rpartition("/")[2].rpartition(":")[2]
            yield "Event" if _EVENTS.match(kind) else kind


def _name(one: Mapping[str, Any]) -> str:
    for key in ("name", "headline", "title"):
        if isinstance(one.get(key), str) and one[key].strip():
            return " ".join(one[key].split()).casefold()
    return ""
