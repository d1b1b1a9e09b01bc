"""Numbers from the title, the metadata, the structured data and the counts of tags of a page.

What only scripts, styles or data attributes hold is left out: half of the training pages have lost these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import log1p
from typing import Any, Final

from llmcrawler.core.content.page_kind.kind_evidence import KindEvidence

_OPENING: Final = re.compile(r"(?:how|what|why|when|where|\d+|best|top|the \d)\b")
_MAX_NODES: Final = 3000
_MAX_DEPTH: Final = 5
_MAX_LISTED: Final = 200
_SCHEMA_TYPES: Final = tuple("Product Offer QAPage DiscussionForumPosting Comment Person InteractionCounter".split())
_TOP: Final = {
    "product": ("Product", "ProductGroup"),
    "article": ("Article", "NewsArticle", "BlogPosting", "TechArticle"),
    "web page": ("WebPage",),
}
_TAGS: Final = tuple(
    "p a img ul h2 td button pre code article section time video label strong span div br kbd meta link".split()
)
_CUES: Final = ("add_to_cart", "price_count", "password_inputs")


def title_numbers(evidence: KindEvidence) -> dict[str, float]:
    """Return the form of the title."""
    title = evidence.title
    return {
        "title chars": len(title),
        "title words": title.count(" ") + 1,
        "title asks": "?" in title,
        "title digit": any(map(str.isdigit, title)),
        "title colon": ":" in title,
        "title opens like an article": _OPENING.match(title.lower()) is not None,
    }


def metadata_numbers(evidence: KindEvidence) -> dict[str, float]:
    """Return what the page says of itself in meta and link elements."""
    metas, metadata, page = evidence.metas, evidence.metadata, evidence.page
    kind = metas.get("og:type", "").lower()
    language = page.html_attributes.get("lang", "").lower()
    links = [attributes for tag, attributes in page.metas if tag == "link"]
    labels = f"{metas.get('twitter:label1', '')} {metas.get('twitter:label2', '')}".lower()
    found: dict[str, float] = {
        "meta description chars": len(metadata.get("description", "")),
        "og article": kind == "article",
        "og product": "product" in kind,
        "og website": kind == "website",
        "meta canonical is page": metadata.get("canonical", "").rstrip("/") == evidence.url.split("#")[0].rstrip("/"),
        "meta names": len(metas),
        "meta price": any("price" in name for name in metas),
        "meta links": len(links),
        "meta languages": sum("hreflang" in attributes for attributes in links),
        "meta reading time": "read" in labels,
        "language none": not language,
    }
    for name in ("published", "modified", "author", "generator"):
        found[f"meta {name}"] = name in metadata
    for name in ("twitter:label1", "og:image"):
        found[f"meta {name}"] = name in metas
    for name in _CUES:
        found[f"cue {name}"] = log1p(evidence.cues[name])
    return found


def schema_types(objects: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the schema.org types of objects and of what is in them, with the depth they stand at; 0 is the top."""
    waiting: list[tuple[Any, int]] = [(one, 0) for one in objects]
    for _ in range(_MAX_NODES):
        if not waiting:
            return
        value, depth = waiting.pop()
        if isinstance(value, list):
            waiting += [(one, depth) for one in value[:_MAX_LISTED]]
        elif isinstance(value, dict):
            declared = value.get("@type")
            for name in declared if isinstance(declared, list) else [declared]:
                if isinstance(name, str):
                    yield name.rstrip("/").rpartition("/")[2].rpartition(":")[2], depth
            if depth < _MAX_DEPTH:
                waiting += [(one, depth + 1) for one in value.values() if isinstance(one, dict | list)]


def schema_numbers(objects: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return counts of schema.org types, and what articles and breadcrumbs say more."""
    types = list(schema_types(objects))
    everywhere = Counter(name for name, _ in types)
    top = Counter(name for name, depth in types if depth == 0)
    found: dict[str, float] = {f"schema {name}": log1p(everywhere[name]) for name in _SCHEMA_TYPES}
    for name, members in _TOP.items():
        found[f"schema top {name}"] = log1p(sum(top[member] for member in members))
    found |= {"schema objects": log1p(len(objects)), "schema types": log1p(len(types))}
    words, article_dated, page_dated, crumbs = 0, False, False, 0
    for one in objects:
        declared = one.get("@type")
        kind = str(declared[0] if isinstance(declared, list) and declared else declared)
        if kind.endswith(("Article", "BlogPosting")):
            article_dated |= "datePublished" in one
            count = str(one.get("wordCount", ""))[:9]
            words = max(words, int(count) if count.isdecimal() else 0)
        elif kind == "WebPage":
            page_dated |= "datePublished" in one
        elif kind == "BreadcrumbList":
            listed = one.get("itemListElement")
            crumbs = max(crumbs, len(listed) if isinstance(listed, list) else 1)
    found["schema article words"] = log1p(words)
    found["schema article dated"] = article_dated
    found["schema page dated"] = page_dated
    found["schema breadcrumbs"] = crumbs
    return found


def tag_numbers(evidence: KindEvidence) -> dict[str, float]:
    """Return how many elements of each tag the page has."""
    counts = evidence.page.counts
    found: dict[str, float] = {f"tags {tag}": log1p(counts.get(tag, 0)) for tag in _TAGS}
    found["tags div to p"] = found["tags div"] - found["tags p"]
    found["tags img a block"] = counts.get("img", 0) / len(evidence.blocks.texts)
    return found
