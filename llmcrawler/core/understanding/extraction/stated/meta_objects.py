"""Turns Open Graph and meta elements into objects with schema.org's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

Object = dict[str, Any]

# Property -> the names of meta elements that have it, the best first. `offers.` leads into the offer.
_OPEN_GRAPH: Final = {
    "name": "og:title",
    "description": "og:description",
    "image": "og:image og:image:secure_url og:image:url",
    "url": "og:url",
    "datePublished": "article:published_time og:article:published_time book:release_date video:release_date",
    "dateModified": "article:modified_time og:article:modified_time og:updated_time",
    "author": "article:author og:article:author book:author",
    "articleSection": "article:section og:article:section",
    "keywords": "article:tag og:article:tag book:tag video:tag",
    "isbn": "book:isbn",
    "brand": "product:brand og:brand",
    "sku": "product:retailer_item_id product:sku og:retailer_item_id",
    "mpn": "product:mfr_part_no product:mpn",
    "gtin": "product:gtin product:ean product:upc og:upc og:ean",
    "category": "product:category",
    "color": "product:color",
    "duration": "video:duration",
    "offers.price": "product:price:amount product:sale_price:amount og:price:amount product:price",
    "offers.priceCurrency": "product:price:currency product:sale_price:currency og:price:currency",
    "offers.availability": "product:availability og:availability",
    "offers.itemCondition": "product:condition og:condition",
}
_META: Final = {
    "name": """citation_title dc.title dcterms.title parsely-title sailthru.title twitter:title""",
    "description": "description dc.description dcterms.description sailthru.description twitter:description",
    "image": "twitter:image twitter:image:src parsely-image-url sailthru.image.full sailthru.image.thumb thumbnail",
    "author": """author citation_author dc.creator dcterms.creator parsely-author sailthru.author article.author
        byl dc.contributor""",
    "datePublished": """datepublished article.published citation_publication_date citation_online_date citation_date
        dc.date.issued dcterms.issued dcterms.created dc.date.created parsely-pub-date sailthru.date publication_date
        publish-date publish_date pubdate date dc.date dcterms.date""",
    "dateModified": "datemodified dcterms.modified dc.date.modified article.updated lastmod last-modified",
    "articleSection": "parsely-section article.section section",
    "keywords": "news_keywords parsely-tags sailthru.tags citation_keywords keywords dc.subject",
    "publisher": "citation_publisher dc.publisher dcterms.publisher og:site_name",
    "isbn": "citation_isbn",
    "identifier": "citation_doi dc.identifier",
    "inLanguage": "citation_language dc.language",
}
# These say one thing each time they stand on a page.
_MANY: Final = frozenset({"author", "keywords", "image"})
# All pages of a site have these: nothing of a record rests on them.
COMMON: Final = frozenset({"keywords", "url", "publisher", "inLanguage"})

OF_META_NAMES: Final = frozenset(
    name for names in (*_OPEN_GRAPH.values(), *_META.values()) for name in names.split()
) | {"og:type"}
# Values that what is said in a page's head makes a record of, and what each of its names may give of them.
LEAST: Final = 2
TELLING: Final = {
    name: said.partition(".")[0]
    for table in (_OPEN_GRAPH, _META)
    for said, names in table.items()
    for name in names.split()
    if said not in COMMON
}
_OG_TYPES: Final = {
    "article": "Article", "product": "Product", "og:product": "Product", "product.item": "Product", "book": "Book",
    "books.book": "Book", "video.movie": "Movie", "video.other": "VideoObject",
}  # fmt: skip


def open_graph_object(metas: Mapping[str, list[str]]) -> Object:
    """Return what Open Graph says of a page."""
    return _object(metas, _OPEN_GRAPH)


def meta_object(metas: Mapping[str, list[str]]) -> Object:
    """Return what other meta elements say of a page: plain ones, Dublin Core, those for search engines of papers and
    for services that news sites use."""
    return _object(metas, _META)


def open_graph_type(metas: Mapping[str, list[str]]) -> str:
    """Return schema.org's type for that of Open Graph, "" for one that says nothing."""
    kind = next(iter(metas.get("og:type", ())), "").strip().lower()
    has_price = any(name in metas for name in ("product:price:amount", "og:price:amount"))
    return _OG_TYPES.get(kind, "Product" if has_price else "")


def _object(metas: Mapping[str, list[str]], table: Mapping[str, str]) -> Object:
    found: Object = {}
    for name, sources in table.items():
        given = next((metas[source] for source in sources.split() if source in metas), [])
        if given:
            *parents, last = name.split(".")
            inner = found.setdefault(parents[0], {}) if parents else found
            inner[last] = _several(given) if name in _MANY and len(given) > 1 else given[0]
    return found


def _several(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
