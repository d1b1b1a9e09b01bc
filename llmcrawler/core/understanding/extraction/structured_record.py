"""Makes a record of a page's structured data, from all sources that describe the thing that the page is about.

The first source counts and the next ones complete it: JSON-LD, microdata, RDFa, Open Graph, what their objects say of
the page itself, meta elements. Fields that a user asks for are found by name, or by schema.org's word for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from llmcrawler.core.content.markup import json_ld_scripts, parse
from llmcrawler.core.content.structured_data import json_ld, microdata, rdfa
from llmcrawler.core.understanding.extraction.field_names import schema_paths
from llmcrawler.core.understanding.extraction.page_subject import (
    PageNames,
    Subject,
    family_of_page,
    family_of_type,
    find_subject,
)
from llmcrawler.core.understanding.extraction.record_schema import Field, assemble
from llmcrawler.core.understanding.extraction.structured_values import StructuredValues, in_one
from llmcrawler.core.understanding.extraction.tree import PAGE_STEPS, Work
from llmcrawler.core.understanding.extraction.typed_values import Scalar, typed

Object = dict[str, Any]

_MAX_LEAVES: Final = 500
_NO_LETTER: Final = re.compile(r"[\W_]+")


def asked_of(record: Object, fields: Sequence[Field], *, base_url: str, work: Work) -> Object | None:
    """Return a record with these fields, None where the page has none of them. Raises TooCostly as `typed` does."""

    def value_of(one: Field, leaves: Mapping[str, Any]) -> Any:
        for given in _options(one.name, leaves):
            read = (_scalar(value, one, base_url, work) for value in (given if isinstance(given, list) else [given]))
            found = [value for value in read if value is not None]
            if found and not one.many:
                texts = [value for value in found if isinstance(value, str) and not value.startswith("http")]
                is_text = one.type in (None, "string") and len(texts) == len(found)
                return ", ".join(texts) if is_text else found[0]
            if found:
                return found
        return None

    leaves = _by_name(record)
    values: Object = {one.key: value_of(one, leaves) for one in fields if not one.group}
    for group in dict.fromkeys(one.group for one in fields if one.group):
        rows = next((rows for given in _options(group, leaves) if (rows := _rows(given))), [])
        columns = [one for one in fields if one.group == group]
        values[group] = []
        for row in map(_by_name, rows):
            found = {one.name: value for one in columns if (value := value_of(one, row)) is not None}
            values[group] += [found] if found else []
    return assemble(fields, values) if any(value not in (None, []) for value in values.values()) else None


def not_stated_in(stated: Object, record: Object) -> Object:
    """Return what a record has that structured data does not say under schema.org's name for it. What a site says on
    all pages counts for nothing: a book has a publisher, and so has its page."""
    said = stated.keys() - _COMMON - {"@type"}
    return {name: value for name, value in record.items() if said.isdisjoint(schema_paths(name))}


def _options(name: str, leaves: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what may be meant by a name, the surest first: a path of that name, what people mean by it, a property of
    that name within something."""
    for said in dict.fromkeys((name, name.rpartition(".")[2])):
        folded = _folded(said)
        for path in (folded, *map(_folded, schema_paths(said))):
            if path in leaves:
                yield leaves[path]
        inner = [value for path, value in leaves.items() if path.endswith(f"/{folded}")]
        if len(inner) == 1:
            yield inner[0]


def _by_name(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", record)]
    for path, value in waiting:
        if not isinstance(value, dict):
            continue
        for name, inner in value.items():
            if len(found) >= _MAX_LEAVES:
                return found
            last = _folded(name)
            found.setdefault(path + last, inner)
            if path:
                found.setdefault(f"{path}/{last}", inner)
            waiting.append((path + last, inner))
    return found


def _rows(value: Any) -> list[Object]:
    if isinstance(value, dict):
        value = value.get("offers", [value])
    rows = value if isinstance(value, list) else []
    return [one if isinstance(one, dict) else {"name": one, "text": one} for one in rows]


def _scalar(value: Any, one: Field, base_url: str, work: Work) -> Scalar | None:
    if isinstance(value, dict):
        value = value.get("name") or ", ".join(str(inner) for inner in value.values() if isinstance(inner, str))
    if isinstance(value, bool):
        value = "true" if value else "false"
    # Values for machines are written alike in all languages.
    return typed(str(value), one.type, base_url=base_url, work=work) if isinstance(value, str | int | float) else None


def _folded(name: str) -> str:
    return _NO_LETTER.sub("", name).lower()


_BLANK: Final = r"[\t\n\f\r ]"
_ATTRIBUTE: Final = (
    rf"""[\t\n\f\r /]*+([^\s"'<>/=`]++)(?:{_BLANK}*+={_BLANK}*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'<>=`]++)))?+"""
)
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
_META_TAG: Final = re.compile(r"<[mM][eE][tT][aA](?=[\t\n\f\r />])")
# Of a tag as nearly all are written; one that is not may say anything.
_REST: Final = re.compile(rf"(?:{_ATTRIBUTE})*+[\t\n\f\r /]*+>")
_NAMING: Final = frozenset(("property", "name", "itemprop"))
# An attribute, with a value or beside others; what stands behind that word in scripts is neither.
_TYPE: Final = re.compile(r"typeof(?:[\s/]++[\w:@.-]++){0,8}+[\s/]*+(?:>|=(?![=>]))")


def may_have_record(html: str, *, of_metas: bool) -> bool:
    """Tell whether a page may have objects, or with `of_metas` enough meta elements, that make a record. Time is linear
    in the size of the page."""
    if "ld+json" in html or "itemscope" in html:
        return True
    if "typeof" in html and ("TYPEOF" in html or _TYPE.search(html) is not None):
        return True
    return of_metas and _may_have_metas(html)


def _may_have_metas(html: str) -> bool:
    said: set[str] = set()
    for start in _META_TAG.finditer(html):
        tag = _REST.match(html, start.end())
        if tag is None:
            return True
        for name, *values in _ATTRIBUTES.findall(tag[0]):
            if name.lower() in _NAMING:
                value = "".join(values)
                if "&" in value:
                    return True
                said.add(_TELLING.get(value.strip().lower(), ""))
        if len(said - {""}) >= _LEAST:
            return True
    return False


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
# Plain ones, Dublin Core, those for search engines of papers and for services that news sites use.
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
_COMMON: Final = frozenset({"keywords", "url", "publisher", "inLanguage"})

_META_NAMES: Final = frozenset(name for names in (*_OPEN_GRAPH.values(), *_META.values()) for name in names.split()) | {
    "og:type"
}
# Values that what is said in a page's head makes a record of, and what each of its names may give of them.
_LEAST: Final = 2
_TELLING: Final = {
    name: said.partition(".")[0]
    for table in (_OPEN_GRAPH, _META)
    for said, names in table.items()
    for name in names.split()
    if said not in _COMMON
}
_OG_TYPES: Final = {
    "article": "Article", "product": "Product", "og:product": "Product", "product.item": "Product", "book": "Book",
    "books.book": "Book", "video.movie": "Movie", "video.other": "VideoObject",
}  # fmt: skip


def _object(metas: Mapping[str, list[str]], table: Mapping[str, str]) -> Object:
    found: Object = {}
    for name, sources in table.items():
        given = next((metas[source] for source in sources.split() if source in metas), [])
        if given:
            *parents, last = name.split(".")
            inner = found.setdefault(parents[0], {}) if parents else found
            inner[last] = list(dict.fromkeys(given)) if name in _MANY and len(given) > 1 else given[0]
    return found


# What is said of a page holds for the thing that it is about, where that is a text.
_OF_PAGE: Final = frozenset(
    """
    name headline description image url author datePublished dateModified dateCreated keywords inLanguage publisher
    articleSection thumbnailUrl
    """.split()
)
# The title in a page's head ends with the site's name, the description is cut off, or it and the author are the site's.
SAID_BETTER: Final = frozenset({"name", "headline", "description", "author"})
# Of another thing only these: a product's page has a date and an author, the product has none.
_OF_PAGE_OF_A_THING: Final = frozenset("name description image url keywords".split())
_TEXTS: Final = frozenset({"article", "recipe", "forum", "question", "review", "film", ""})
_OFFERED: Final = ("price", "priceCurrency", "lowPrice", "highPrice", "availability", "itemCondition")
_SOLD: Final = frozenset({"product", "book", "software", "music", "home", "trip", "course", "event"})
_MAX_METAS: Final = 1_000
_MAX_META_CHARS: Final = 20_000
_MAX_IDS: Final = 5_000
_FAMILY_TYPES: Final = {"article": "Article", "product": "Product", "job": "JobPosting", "recipe": "Recipe"}


@dataclass(frozen=True, slots=True)
class PageToRead:
    """A page as the record stage has it. Where its type `is_sure`, what is said in its head is of such a thing."""

    html: str
    url: str
    title: str
    lang: str
    page_type: str
    is_sure: bool = True


def structured_record(
    page: PageToRead, fields: Sequence[Field] | None = None, limit: int = PAGE_STEPS, shown: Collection[str] = ()
) -> Object | None:
    """Return the record of a page's structured data, None where that describes nothing that the page is about.

    Its names are schema.org's, `@type` among them; with `fields` it has these instead. Where the page's type is not
    sure, only an object counts that describes such a thing. Where the page has `shown` a title, a description or an
    author, what is said of the page as such gives none. Raises TooCostly above `limit` steps."""
    if not may_have_record(page.html, of_metas=page.is_sure):
        return None
    work = Work(limit)
    statements = _PageStatements(page, work, {path for name in shown for path in schema_paths(name)})
    subject_kind, record = statements.record()
    telling = {"name" if name == "headline" else name for name in (*record, *statements.told)} - _COMMON
    # All pages have a title: alone it makes no record.
    is_said = bool(subject_kind) or (page.is_sure and len(telling) >= _LEAST)
    if not is_said or not record:
        return None
    if fields is not None:
        return asked_of(record, fields, base_url=statements.base_url, work=work)
    kind = subject_kind or statements.kind_of_metas or _FAMILY_TYPES.get(statements.family, "WebPage")
    return {"@type": kind, **record}


class _PageStatements:
    def __init__(self, page: PageToRead, work: Work, shown: Collection[str]) -> None:
        work.charge_text(len(page.html) // 8)
        tree = parse(page.html)
        scripts = json_ld_scripts(tree) if "ld+json" in page.html else []
        work.charge_text(sum(map(len, scripts)))
        linked = json_ld(scripts)
        tree.strip_tags(["script", "style", "svg", "template"])
        in_items = microdata(tree) if "itemscope" in page.html else []
        in_rdfa = rdfa(tree) if "typeof" in page.html else []
        self.sources = (linked, in_items, in_rdfa)
        self.metas = _metas(tree)
        self.unsaid, self.told = SAID_BETTER.intersection(shown), set[str]()
        self.family = family_of_page(page.page_type)
        og_type = next(iter(self.metas.get("og:type", ())), "").strip().lower()
        has_price = any(name in self.metas for name in ("product:price:amount", "og:price:amount"))
        self.kind_of_metas = _OG_TYPES.get(og_type, "Product" if has_price else "")
        base = tree.css_first("base[href]")
        self.base_url = _joined(page.url, base.attributes.get("href") if base is not None else "")
        canonical = tree.css_first('link[rel="canonical" i]')
        self.canonical = _joined(self.base_url, canonical.attributes.get("href") if canonical is not None else "")
        heading = tree.css_first("h1")
        titles = [page.title, *self.metas.get("og:title", ()), heading.text()[:1_000] if heading is not None else ""]
        self.names = PageNames.of([page.url, self.canonical, *self.metas.get("og:url", ())], titles)
        # One reading for all sources: the bounds are those of the page.
        self.values = StructuredValues(self.base_url, page.lang, _by_id(linked), work)

    def record(self) -> tuple[str, Object]:
        """Return the type of the subject, "" where no object describes it, and what all sources say."""
        subjects: list[Subject] = []
        family, kind = self.family, ""
        for objects in self.sources:
            found = find_subject(objects, self.names, family)
            subjects.append(found)
            if found.objects and not kind:
                kind, family = found.kind, found.family or family
        found_family = family_of_type(kind) if kind else self.family or family_of_type(self.kind_of_metas)
        record: Object = {}
        for subject in subjects:
            if not kind or not subject.objects or subject.family == family_of_type(kind):
                for one in subject.objects:
                    _complete(record, self._offering(one, found_family))
        allowed = _OF_PAGE if found_family in _TEXTS else _OF_PAGE_OF_A_THING
        of_graph = _object(self.metas, _OPEN_GRAPH)
        self._add(record, of_graph, allowed)
        if found_family in _SOLD or (not found_family and self.kind_of_metas):
            _complete(
                record, self.values.properties({name: one for name, one in of_graph.items() if name not in _OF_PAGE})
            )
        for one in (one for subject in subjects for one in subject.pages):
            self._add(record, one, allowed)
        self._add(record, _object(self.metas, _META), allowed | {"isbn", "identifier"})
        if "name" in record and found_family == "article":
            record.setdefault("headline", record["name"])
        return kind, record

    def _add(self, record: Object, said: Object, allowed: frozenset[str]) -> None:
        """Complete a record by what is said of its page."""
        known = {*record, *(("name", "headline") if "headline" in record or "name" in record else ())}
        taken = {name: one for name, one in said.items() if name in allowed and name not in known}
        self.told.update(taken)
        taken = {name: one for name, one in taken.items() if name not in self.unsaid}
        _complete(record, self.values.properties(taken))

    def _offering(self, one: Object, family: str) -> Object:
        """Return the properties of an object; what a shop says of the thing and not of an offer becomes one, and what
        is said of its variants only is its offer too."""
        found = self.values.properties(one)
        if family not in _SOLD:
            return found
        loose: Object = {name: found.pop(name) for name in _OFFERED if name in found}
        variants = found.get("hasVariant")
        if "offers" not in found and isinstance(variants, list | dict):
            each = variants if isinstance(variants, list) else [variants]
            given = [variant["offers"] for variant in each if isinstance(variant, dict) and "offers" in variant]
            offers = in_one(given)
            if offers:
                found["offers"] = offers
        if loose:
            offers = found.setdefault("offers", {})
            _complete(offers, loose)
        return found


def _complete(record: Object, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        known = record.get(name)
        if known is None:
            record[name] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            _complete(known, {key: inner for key, inner in value.items() if key != "offers"})


def _metas(tree: LexborHTMLParser) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in tree.css("meta[content]")[:_MAX_METAS]:
        attributes = node.attributes
        content = (attributes.get("content") or "")[:_MAX_META_CHARS].strip()
        for key in ("property", "name", "itemprop"):
            name = (attributes.get(key) or "").strip().lower()
            if content and name in _META_NAMES and (key != "itemprop" or not _is_in_item(node)):
                found.setdefault(name, []).append(content)
                break
    return found


def _is_in_item(node: LexborNode) -> bool:
    above = node.parent
    for _ in range(50):
        if above is None:
            return False
        if above.is_element_node and "itemscope" in above.attributes:
            return True
        above = above.parent
    return True


def _by_id(objects: Sequence[Object]) -> dict[str, Object]:
    """Return the objects by the id that others refer to them with, what says most of one first."""
    found: dict[str, Object] = {}
    waiting: list[Any] = list(reversed(objects))
    for _ in range(_MAX_IDS):
        if not waiting:
            break
        one = waiting.pop()
        if isinstance(one, dict):
            name = one.get("@id")
            if isinstance(name, str) and len(one) > 2 and len(one) > len(found.get(name, ())):
                found[name] = one
        inner = one.values() if isinstance(one, dict) else one[:_MAX_IDS]
        waiting += [value for value in inner if isinstance(value, dict | list)]
    return found


def _joined(base: str, reference: str | None) -> str:
    try:
        return urljoin(base, (reference or "").strip()[:4_000])
    except ValueError:
        return base
