"""Makes the record of what a page says of itself, from all sources that speak of the thing that it is about.

What the first source says counts, the next ones complete it: JSON-LD, microdata, RDFa, Open Graph, what the objects
of these say of the page itself, meta elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from llmcrawler.core.content.item_markup import microdata, rdfa
from llmcrawler.core.content.markup import json_ld_scripts, parse
from llmcrawler.core.content.structured import json_ld
from llmcrawler.core.understanding.extraction.extractor import Field
from llmcrawler.core.understanding.extraction.stated.first_look import may_have_record
from llmcrawler.core.understanding.extraction.stated.meta_objects import (
    COMMON,
    LEAST,
    OF_META_NAMES,
    meta_object,
    open_graph_object,
    open_graph_type,
)
from llmcrawler.core.understanding.extraction.stated.stated_fields import asked_of
from llmcrawler.core.understanding.extraction.stated.stated_offers import in_one
from llmcrawler.core.understanding.extraction.stated.stated_values import StatedValues
from llmcrawler.core.understanding.extraction.stated.subject import (
    PageNames,
    Subject,
    family_of_page,
    family_of_type,
    find_subject,
)
from llmcrawler.core.understanding.extraction.tree import PAGE_STEPS, Work

Object = dict[str, Any]

# What is said of a page holds for the thing that it is about, where that is a text.
_OF_PAGE: Final = frozenset(
    """
    name headline description image url author datePublished dateModified dateCreated keywords inLanguage publisher
    articleSection thumbnailUrl
    """.split()
)
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


def stated_record(page: PageToRead, fields: Sequence[Field] | None = None, limit: int = PAGE_STEPS) -> Object | None:
    """Return the record of what a page says of itself, None where it says nothing of the thing that it is about.

    Its names are schema.org's, `@type` among them; with `fields` it has these instead. Where the page's type is not
    sure, only an object counts that describes such a thing. Raises TooCostly above `limit` steps.
    """
    if not may_have_record(page.html, of_metas=page.is_sure):
        return None
    work = Work(limit)
    statements = _Statements(page, work)
    subject_kind, record = statements.record()
    telling = {"name" if name == "headline" else name for name in record} - COMMON
    # All pages have a title: alone it makes no record.
    is_said = bool(subject_kind) or (page.is_sure and len(telling) >= LEAST)
    if not is_said or not record:
        return None
    if fields is not None:
        return asked_of(record, fields, base_url=statements.base_url, work=work)
    kind = subject_kind or statements.kind_of_metas or _FAMILY_TYPES.get(statements.family, "WebPage")
    return {"@type": kind, **record}


class _Statements:
    def __init__(self, page: PageToRead, work: Work) -> None:
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
        self.family = family_of_page(page.page_type)
        self.kind_of_metas = open_graph_type(self.metas)
        base = tree.css_first("base[href]")
        self.base_url = _joined(page.url, base.attributes.get("href") if base is not None else "")
        canonical = tree.css_first('link[rel="canonical" i]')
        self.canonical = _joined(self.base_url, canonical.attributes.get("href") if canonical is not None else "")
        heading = tree.css_first("h1")
        titles = [page.title, *self.metas.get("og:title", ()), heading.text()[:1_000] if heading is not None else ""]
        self.names = PageNames.of([page.url, self.canonical, *self.metas.get("og:url", ())], titles)
        # One reading for all sources: the bounds are those of the page.
        self.values = StatedValues(self.base_url, page.lang, _by_id(linked), work)

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
        of_graph = open_graph_object(self.metas)
        self._add(record, of_graph, allowed)
        if found_family in _SOLD or (not found_family and self.kind_of_metas):
            _complete(
                record, self.values.properties({name: one for name, one in of_graph.items() if name not in _OF_PAGE})
            )
        for one in (one for subject in subjects for one in subject.pages):
            self._add(record, one, allowed)
        self._add(record, meta_object(self.metas), allowed | {"isbn", "identifier"})
        if "name" in record and found_family == "article":
            record.setdefault("headline", record["name"])
        return kind, record

    def _add(self, record: Object, said: Object, allowed: frozenset[str]) -> None:
        """Complete a record by what is said of its page."""
        taken = {name: one for name, one in said.items() if name in allowed}
        if "headline" in record or "name" in record:
            taken.pop("name", None)
            taken.pop("headline", None)
        _complete(record, self.values.properties({name: one for name, one in taken.items() if name not in record}))

    def _offering(self, one: Object, family: str) -> Object:
        """Return the properties of an object; what a shop says of the thing and not of an offer becomes one, and what
        is said of its variants only is its offer too.
        """
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
    """Add what a record lacks, also within the objects that both have."""
    for name, value in more.items():
        known = record.get(name)
        if known is None:
            record[name] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            _complete(known, {key: inner for key, inner in value.items() if key != "offers"})


def _metas(tree: LexborHTMLParser) -> dict[str, list[str]]:
    """Return the contents of the meta elements that say something of a thing, by lower-case name."""
    found: dict[str, list[str]] = {}
    for node in tree.css("meta[content]")[:_MAX_METAS]:
        attributes = node.attributes
        content = (attributes.get("content") or "")[:_MAX_META_CHARS].strip()
        for key in ("property", "name", "itemprop"):
            name = (attributes.get(key) or "").strip().lower()
            if content and name in OF_META_NAMES and (key != "itemprop" or not _is_in_item(node)):
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
    for one in _all(objects):
        name = one.get("@id")
        if isinstance(name, str) and len(one) > 2 and len(one) > len(found.get(name, ())):
            found[name] = one
    return found


def _all(objects: Sequence[Object]) -> Iterator[Object]:
    waiting: list[Any] = list(reversed(objects))
    for _ in range(_MAX_IDS):
        if not waiting:
            return
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += [inner for inner in one.values() if isinstance(inner, dict | list)]
        elif isinstance(one, list):
            waiting += [inner for inner in one[:_MAX_IDS] if isinstance(inner, dict | list)]


def _joined(base: str, reference: str | None) -> str:
    try:
        return urljoin(base, (reference or "").strip()[:4_000])
    except ValueError:
        return base
