"""Reads pages that state their own data, strips them of it, and finds the blocks that say it: for annotator_train."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pool
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from lxml import etree
from lxml import html as lxml_html
from numpy.typing import NDArray

from benchmarks.content_data import pages
from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.structured_record import PageToRead, structured_record
from llmcrawler.core.understanding.extraction.value_scorer import FIELDS, page_features, possible_fields, says
from llmcrawler.errors import TooCostly

_MAX_HTML_CHARS: Final = 3_000_000
_STATING: Final = ("itemprop", "itemtype", "itemscope", "property", "typeof", "vocab", "itemid", "itemref")
_DATES: Final = ("date_published", "date_modified", "start_date", "end_date", "prep_time", "cook_time", "total_time")


@dataclass(frozen=True, slots=True)
class StatedPage:
    """A page with what is known of it: values by field."""

    site: str
    page_type: str
    url: str
    html: str
    known: dict[str, list[str]]


@dataclass(slots=True)
class Example:
    """A stripped page: the features of each block that is a candidate (as in a sparse matrix: `rows` has places in
    `names`, those of a block begin at one of `starts`), which fields it can be a value of, and of each field the
    candidates that say the value that is known."""

    source: str
    site: str
    page_type: str
    url: str
    names: list[str]
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    texts: list[str]
    possible: NDArray[np.bool_]
    hits: dict[str, list[int]]
    known: dict[str, list[str]] = field(default_factory=dict)


def stripped_of_data(html: str) -> str:
    """Return the page without JSON-LD, microdata, RDFa and meta elements."""
    try:
        parser = lxml_html.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
        root = lxml_html.document_fromstring(html.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, ValueError):
        return ""
    for one in [*root.iter("meta", "script"), *root.iter("link")]:
        is_data = one.tag == "meta" or "ld+json" in (one.get("type") or "") or one.get("itemprop") is not None
        if is_data and one.getparent() is not None:
            one.drop_tree()  # type: ignore[attr-defined] # elements of lxml.html have it
    for one in root.iter(etree.Element):
        if one.get("itemprop") is not None and one.get("content"):
            del one.attrib["content"]
        for name in _STATING:
            one.attrib.pop(name, None)
    return str(lxml_html.tostring(root, encoding="unicode"))


def stated_values(html: str, url: str, page_type: str) -> dict[str, list[str]]:
    """Return what a page's structured data says, by our names of fields."""
    try:
        record = structured_record(PageToRead(html, url, "", "en", page_type)) or {}
    except TooCostly:
        return {}
    given_parts = (record.get("offers"), record.get("aggregateRating"))
    offers, rating = (one if isinstance(one, dict) else {} for one in given_parts)
    given = {
        "title": record.get("name") or record.get("headline"),
        "price": offers.get("price") or offers.get("lowPrice"),
        "availability": offers.get("availability"),
        "sku": record.get("sku") or record.get("productID"),
        "mpn": record.get("mpn"),
        "gtin": next((record[name] for name in record if name.startswith("gtin") or name == "isbn"), None),
        "brand": record.get("brand") or record.get("manufacturer"),
        "description": record.get("description"),
        "image": record.get("image"),
        "rating": rating.get("ratingValue"),
        "review_count": [rating[name] for name in ("reviewCount", "ratingCount") if name in rating],
        "author": record.get("author"),
        "publisher": record.get("publisher"),
        "date_published": record.get("datePublished"),
        "date_modified": record.get("dateModified"),
        "category": record.get("category") or record.get("articleSection"),
        "ingredients": record.get("recipeIngredient"),
        "instructions": record.get("recipeInstructions"),
        "prep_time": record.get("prepTime"),
        "cook_time": record.get("cookTime"),
        "total_time": record.get("totalTime"),
        "servings": record.get("recipeYield"),
        "start_date": record.get("startDate"),
        "end_date": record.get("endDate"),
        "company": record.get("hiringOrganization"),
        "location": record.get("location"),
        "telephone": record.get("telephone"),
        "email": record.get("email"),
        "address": _street(record.get("address")) or _street(record.get("location")),
    }
    found = {}
    for name, value in given.items():
        values = [_named(one) for one in (value if isinstance(value, list) else [value])]
        texts = [str(one) for one in values if one not in (None, "")][:100]
        if texts:
            found[name] = texts
    return found


def _named(value: Any) -> Any:
    return value.get("text") or value.get("name") or value.get("url") if isinstance(value, dict) else value


def _street(value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("streetAddress") or _street(value.get("address"))
    return None


def folder_pages(folder: Path) -> Iterator[StatedPage]:
    """Yield the pages of a folder like WCXB's: index.jsonl with file, url, site, page_type and fields."""
    names = {"title": "title", "author": "author", "publish_date": "date_published"} | {name: name for name in FIELDS}
    for row, html in pages(folder):
        known: dict[str, list[str]] = {}
        for name, value in row["fields"].items():
            if name in names and value:
                known.setdefault(names[name], []).extend(map(str, value if isinstance(value, list) else [value]))
        yield StatedPage(row["site"], row["page_type"], row["url"], html, known)


def example_of(source: str, page: StatedPage) -> Example | None:
    if len(page.html) > _MAX_HTML_CHARS:
        return None
    known = dict(page.known)
    for name, values in stated_values(page.html, page.url, page.page_type).items():
        known[name] = [*known.get(name, []), *values]
    bare = stripped_of_data(page.html)
    if not bare:
        return None
    blocks = PageBlocks(bare, page.url)
    rows, starts, texts, attributes = [], [0], [], []
    numbers: dict[str, int] = {}
    for block, features in zip(blocks.blocks, page_features(blocks, {}), strict=True):
        if features is not None:
            names = (*features.column.names, *features.names)
            rows += [numbers.setdefault(name, len(numbers)) for name in names]
            starts.append(len(rows))
            texts.append(block.text)
            attributes.append(features.column.key[1])
    possible = np.array(
        [
            np.array([name == "image" for name in FIELDS]) if attribute == "src" else possible_fields(text)
            for text, attribute in zip(texts, attributes, strict=True)
        ],
        bool,
    ).reshape(len(texts), len(FIELDS))
    hits = {}
    for at, name in enumerate(FIELDS):
        values = known.get(name, [])
        hits[name] = [
            row
            for row in np.flatnonzero(possible[:, at]).tolist()
            if (attributes[row] is None or name in _DATES or name == "image")
            and any(says(name, texts[row], value) for value in values)
        ]
    cut = [text[:120] for text in texts]
    flat = np.array(rows, np.int32)
    return Example(
        source, page.site, page.page_type, page.url, list(numbers), flat, np.array(starts), cut, possible, hits, known
    )


def _examples_of(task: tuple[str, StatedPage]) -> Example | None:
    return example_of(*task)


def cached_examples(source: str, found: Iterator[StatedPage], cache: Path | None) -> list[Example]:
    """Return the examples of a source, from its file in the folder `cache` where that is there."""
    path = cache / f"{source}.pickle" if cache else None
    if path and path.exists():
        loaded: list[Example] = pickle.loads(path.read_bytes())
        return loaded
    with Pool(2) as pool:
        examples = [one for one in pool.imap(_examples_of, ((source, page) for page in found), chunksize=8) if one]
    if path:
        path.write_bytes(pickle.dumps(examples))
    return examples


def recipe_pages(folder: Path) -> Iterator[StatedPage]:
    """Yield the test pages of the package recipe-scrapers, from its sources."""
    for path in sorted((folder / "tests/test_data").rglob("*.testhtml")):
        if path.stem.endswith(("_3", "_4", "_5")):
            continue  # two pages of a host tell enough
        answer = path.with_suffix(".json")
        given = json.loads(answer.read_text("utf-8")) if answer.exists() else {}
        known = {name: [str(given[name])] for name in ("title", "author", "description", "image") if given.get(name)}
        url = given.get("canonical_url") or f"https://{path.parent.name}/"
        yield StatedPage(path.parent.name, "recipe", str(url), path.read_text("utf-8", "replace"), known)


def product_pages(folder: Path) -> Iterator[StatedPage]:
    """Yield the pages of the product extraction benchmark (github.com/scrapinghub), from its repository."""
    truth = json.loads((folder / "dataset/ground-truth.json").read_text("utf-8"))
    for name, given in sorted(truth.items()):
        path = folder / "dataset/html" / f"{name}.html.gz"
        if path.exists():
            html = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            known = {field: given[field] for field in FIELDS if given.get(field)}
            yield StatedPage(urlsplit(given["url"]).netloc, "product", given["url"], html, known)


def article_pages(folder: Path) -> Iterator[StatedPage]:
    """Yield the pages that trafilatura is measured with (github.com/adbar/trafilatura), from its repository."""
    truth = json.loads((folder / "tests/evaldata.json").read_text("utf-8"))
    for url, given in sorted(truth.items()):
        paths = (folder / "tests" / place / given["file"] for place in ("eval", "cache"))
        html = next((path.read_bytes().decode("utf-8", "replace") for path in paths if path.exists()), "")
        author = given.get("author") or []
        known = {"author": author if isinstance(author, list) else [author]}
        yield StatedPage(urlsplit(url).netloc, "article", url, html, known)
