"""How much of what single pages say of themselves is in their records, without a model.

    python -m benchmarks.single_records PAGES_DIR [--types product,article] [--own-types] [--show 3]

PAGES_DIR holds index.jsonl (file, url, site, page_type) and gzipped HTML. What a page says is read by extruct (JSON-LD,
microdata, RDFa, Open Graph) and by lxml (meta elements), and put into the form of schema.org by the rules below; the
record is what `Records` gives for a single page without an annotator, as in a crawl with LLM_PROVIDER=none.
The page's type is that of the index; with --own-types what the classifier of a crawl without a model says, pages of
types without records then have none. Exits with 1 where a field of 20 values or more falls below its floor.
"""

from __future__ import annotations

import argparse
import asyncio
import html as html_module
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import extruct
from lxml import html as lxml_html

from benchmarks.content_data import pages
from llmcrawler.core.content import main_text, read_page
from llmcrawler.core.understanding.classification.classifier import Classifier
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.core.understanding.classification.question import Question
from llmcrawler.core.understanding.extraction.records import RecordQuestion, RecordRules, Records
from llmcrawler.core.understanding.templates.page_sample import words_of

FLOOR = 0.98
FEW = 20
_TYPES = {
    "product": re.compile(r"(Product|ProductGroup|IndividualProduct|ProductModel|Vehicle|Car|Book|Course)\Z"),
    "article": re.compile(r"(\w*Article|BlogPosting|Report)\Z"),
}
Said = dict[str, set[str]]


def said_by(html: str, url: str, page_type: str) -> tuple[Said | None, str]:
    """Return the values by field, and by what source; None where it is not clear which object the page is about."""
    found = extruct.extract(html, base_url=url, syntaxes=["json-ld", "microdata", "rdfa", "opengraph"], errors="ignore")
    if "ld+json" in html and not found.get("json-ld"):
        return None, "what is not JSON for extruct"
    tree: Any = lxml_html.fromstring(html.encode("utf-8", "replace"), parser=lxml_html.HTMLParser(encoding="utf-8"))
    base = urljoin(url, next(iter(tree.xpath("//base/@href")), ""))
    sources = [
        [one for top in found.get("json-ld", []) for one in _graph(top)],
        [_of_microdata(one) for one in found.get("microdata", [])],
        _of_rdfa(found.get("rdfa", [])),
    ]
    said: Said = {}
    source = ""
    for name, objects in zip(("json-ld", "microdata", "rdfa"), sources, strict=True):
        fitting = [one for one in objects if any(_TYPES[page_type].match(kind) for kind in _kinds(one))]
        names = {_text(one.get("name") or one.get("headline")) for one in fitting}
        if len(names) > 1:
            return None, "several"
        known = {_id(one): one for one in objects if _id(one)}
        for one in fitting if not source else ():
            source = name
            for field, values in _fields(one, page_type, known, base).items():
                said.setdefault(field, values)
    of_metas = _of_metas(tree, page_type, base)
    for field, values in of_metas.items():
        said.setdefault(field, values)
    return {field: values for field, values in said.items() if values}, source or ("meta" if of_metas else "")


def _graph(top: Any) -> Iterator[dict[str, Any]]:
    for one in top if isinstance(top, list) else [top]:
        if isinstance(one, dict):
            yield one
            if isinstance(one.get("@graph"), list | dict):
                yield from _graph(one["@graph"])
            main = one.get("mainEntity")
            if isinstance(main, dict):
                yield main


def _of_microdata(one: Any) -> Any:
    """Return an item of extruct in the form of JSON-LD."""
    if isinstance(one, list):
        return [_of_microdata(inner) for inner in one]
    if not isinstance(one, dict) or "type" not in one:
        return one
    return {"@type": one["type"], **{key: _of_microdata(value) for key, value in one.get("properties", {}).items()}}


def _of_rdfa(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key.rpartition("/")[2] if "schema.org" in key else key: value for key, value in node.items()} for node in nodes
    ]


def _kinds(one: Any) -> list[str]:
    kinds = one.get("@type") if isinstance(one, dict) else None
    return [re.split(r"[/:#]", str(kind).rstrip("/"))[-1] for kind in (kinds if isinstance(kinds, list) else [kinds])]


def _id(one: Any) -> str:
    return one["@id"] if isinstance(one, dict) and isinstance(one.get("@id"), str) and len(one) > 2 else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("name") or value.get("@value") or value.get("value") or ""
    if isinstance(value, list):
        value = value[0] if value else ""
        return _text(value)
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    text = html_module.unescape(html_module.unescape(re.sub(r"<[^>]*>", " ", html_module.unescape(text))))
    return "".join(re.findall(r"\w+", text.casefold()))


def _number(value: Any) -> str:
    """Return a plain number as text, "" where it takes knowledge of languages to read it."""
    text = " ".join(str(value).split()) if isinstance(value, str | int | float) else ""
    match = re.fullmatch(r"[^\d.,-]*(\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+(?:\.\d+)?)[^\d.,]*", text)
    return f"{float(match[1].replace(',', '')):.6g}" if match else ""


def _day(value: Any) -> str:
    """Return the moment of an ISO date, its day where it has no time."""
    text = str(value).strip() if isinstance(value, str) else ""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return ""
    found = found if found.tzinfo is None else found.astimezone(UTC)
    return "" if found.year < 1900 else found.date().isoformat()


def _urls(value: Any, base: str) -> set[str]:
    found = set()
    for one in _list(value):
        given = (one.get("url") or one.get("contentUrl")) if isinstance(one, dict) else one
        for text in _list(given):
            if isinstance(text, str) and text.strip():
                found.add(_url(text, base))
    return found


def _url(text: str, base: str) -> str:
    parts = urlsplit(urljoin(base, html_module.unescape(text.strip())))
    return f"{parts.netloc}{parts.path}".replace("%20", " ").replace("+", " ")


def _fields(one: dict[str, Any], page_type: str, known: dict[str, Any], base: str) -> Said:
    def at(value: Any) -> Any:
        return (
            known.get(value["@id"], value) if isinstance(value, dict) and isinstance(value.get("@id"), str) else value
        )

    said: Said = {
        name: {text for value in _list(one.get(name))[:1] if (text := _text(at(value)))}
        for name in ("name", "description")
    }
    said["image"] = set().union(*(_urls(at(value), base) for value in _list(one.get("image"))), set())
    if page_type == "article":
        said["headline"] = {text for text in [_text(one.get("headline"))] if text}
        said["author"] = {_text(at(value)) for value in _list(one.get("author"))} - {""}
        said["articleSection"] = {_text(value) for value in _list(one.get("articleSection"))} - {""}
        said["publisher"] = {_text(at(value)) for value in _list(one.get("publisher"))[:1]} - {""}
        said["keywords"] = _keywords(_list(one.get("keywords")))
        for name in ("datePublished", "dateModified"):
            said[name] = {day for value in _list(one.get(name))[:1] if (day := _day(value))}
        return said
    for name in ("sku", "mpn", "productID", "category", "color"):
        said[name] = {_text(value) for value in _list(one.get(name))} - {""}
    said["brand"] = {_text(at(value)) for value in _list(one.get("brand"))} - {""}
    said["gtin"] = {str(one[key]).strip() for key in one if key.startswith("gtin") and _is_gtin(str(one[key]).strip())}
    for rating in map(at, _list(one.get("aggregateRating"))[:1]):
        if isinstance(rating, dict):
            for name in ("ratingValue", "reviewCount", "ratingCount", "bestRating"):
                said[name] = {_number(value) for value in _list(rating.get(name))[:1]} - {""}
    offers = [inner for offer in map(at, _list(one.get("offers"))) for inner in (offer, *_inner(offer, at))]
    prices, codes, states = set(), set(), set()
    for offer in (one for one in offers if isinstance(one, dict)):
        prices |= {_number(offer.get(name)) for name in ("price", "lowPrice", "highPrice")} - {""}
        codes |= {str(offer.get("priceCurrency", ""))} - {""}
        states |= {re.split(r"[/:]", str(value))[-1] for value in _list(offer.get("availability"))} - {""}
    said |= {"price": prices, "priceCurrency": {one for one in codes if re.fullmatch("[A-Z]{3}", one)}}
    said["availability"] = {one for one in states if re.fullmatch(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+", one)}
    return said


def _inner(offer: Any, at: Any) -> list[Any]:
    return [at(one) for one in _list(offer.get("offers"))] if isinstance(offer, dict) else []


def _keywords(values: list[Any]) -> set[str]:
    texts = values
    if len(values) == 1 and isinstance(values[0], str):
        texts = re.split(r"[,;]", html_module.unescape(values[0]))
    return {_text(part) for part in texts} - {""}


def _is_gtin(text: str) -> bool:
    digits = [int(one) for one in text] if text.isascii() and text.isdigit() else []
    return (
        len(digits) in (8, 12, 13, 14)
        and any(digits)
        and sum(one * (3 if at % 2 else 1) for at, one in enumerate(reversed(digits))) % 10 == 0
    )


def _of_metas(tree: Any, page_type: str, base: str) -> Said:
    metas: defaultdict[str, list[str]] = defaultdict(list)
    for node in tree.iter("meta"):
        name = (node.get("property") or node.get("name") or "").lower()
        if name and (node.get("content") or "").strip():
            metas[name].append(node.get("content").strip())
    said: Said = {"image": {_url(one, base) for one in metas["og:image"]}}
    said["description"] = {_text(one) for one in metas["og:description"][:1]} - {""}
    said["headline" if page_type == "article" else "name"] = {_text(one) for one in metas["og:title"][:1]} - {""}
    if page_type == "article":
        said["datePublished"] = {_day(one) for one in metas["article:published_time"][:1]} - {""}
        said["dateModified"] = {_day(one) for one in metas["article:modified_time"][:1]} - {""}
        said["articleSection"] = {_text(one) for one in metas["article:section"][:1]} - {""}
        said["keywords"] = {_text(one) for one in metas["article:tag"]} - {""}
        names = metas["article:author"] or metas["author"] or metas["citation_author"] or metas["dc.creator"]
        said["author"] = {_text(one) for one in names if not re.match(r"https?:|www\.|/", one)} - {""}
    else:
        price = metas["product:price:amount"] or metas["og:price:amount"]
        said["price"] = {_number(one) for one in price[:1]} - {""}
        codes = metas["product:price:currency"] or metas["og:price:currency"]
        said["priceCurrency"] = {one for one in codes[:1] if re.fullmatch("[A-Z]{3}", one)}
        said["brand"] = {_text(one) for one in metas["product:brand"][:1]} - {""}
        said["sku"] = {_text(one) for one in metas["product:retailer_item_id"][:1]} - {""}
    return said


def in_record(record: dict[str, Any] | None, field: str, base: str) -> set[str]:
    """Return what a record has of a field, in the form that the page's values are compared in."""
    record = record or {}
    if field in ("price", "priceCurrency", "availability"):
        whole = record.get("offers") or {}
        offers = [whole, *(whole.get("offers") or [])]
        names = ("price", "lowPrice", "highPrice") if field == "price" else (field,)
        values = [str(offer[name]) for offer in offers for name in names if name in offer]
        return {_number(value) if field == "price" else value for value in values}
    if field in ("ratingValue", "reviewCount", "ratingCount", "bestRating"):
        return {_number((record.get("aggregateRating") or {}).get(field))}
    if field == "gtin":
        return {str(value) for name, value in record.items() if name.startswith("gtin")}
    values = _list(record.get(field))
    if field == "image":
        return {_url(value, base) for value in values}
    if field.startswith("date"):
        return {_day(value) for value in values} | {str(value)[:10] for value in values}
    return {_text(value) for value in values}


class SinglePages:
    """Records of pages that are alone, by the parts that a crawl without a model has."""

    def __init__(self, *, own_types: bool) -> None:
        self._records = Records(None, RecordRules())
        self._own_types = own_types
        self.judged: Counter[tuple[str, str]] = Counter()

    async def record_of(self, html: str, row: dict[str, Any]) -> dict[str, Any] | None:
        content = read_page(html, row["url"])
        page_type = row["page_type"]
        if self._own_types:
            text = main_text(content.blocks, None)
            question = Question(row["url"], content.title, text, content, row["file"], "t", 1, words=words_of(content))
            page_type = (await Classifier(DEFAULT_PAGE_TYPES, None).classify(question)).page_type
        self.judged[row["page_type"], page_type] += 1
        asked = RecordQuestion(
            row["url"], content.title, content.lang, html, content.features, row["file"], row["file"], page_type
        )
        return (await self._records.record_of(asked)).record


async def measure(folder: Path, page_types: list[str], *, own_types: bool, show: int) -> bool:
    held: Counter[tuple[str, str]] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    other: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    shown: Counter[tuple[str, str]] = Counter()
    single = SinglePages(own_types=own_types)
    for row, html in pages(folder):
        page_type = row["page_type"]
        if page_type not in page_types:
            continue
        record = await single.record_of(html, row)
        said, source = said_by(html, row["url"], page_type)
        counts[page_type, "pages"] += 1
        counts[page_type, "with a record"] += record is not None
        counts[page_type, f"said by {source or 'nothing'}"] += 1
        for field, values in (said or {}).items():
            found = in_record(record, field, row["url"])
            key = page_type, field
            held[key] += len(values)
            kept[key] += len(values & found)
            other[key] += bool(found - {""}) and not values & found
            if not values <= found and shown[key] < show:
                shown[key] += 1
                print(
                    f"  {row['file']} {field}: {sorted(values - found)[:3]} not in {sorted(found)[:3]}", file=sys.stderr
                )
    for key, count in sorted(counts.items()):
        print(f"{key[0]:10} {key[1]:20} {count:6,}")
    print(f"{'type':10} {'field':16} {'said':>6} {'share in record':>16} {'pages with others':>18}")
    is_good = True
    for key in sorted(held, key=lambda one: (one[0], -held[one])):
        share = kept[key] / held[key]
        is_good &= share >= FLOOR or held[key] < FEW
        print(f"{key[0]:10} {key[1]:16} {held[key]:6,} {share:16.3f} {other[key]:18,}")
    if own_types:
        print("judged otherwise:", {f"{a} -> {b}": n for (a, b), n in single.judged.most_common() if a != b})
    return is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages_dir", type=Path)
    parser.add_argument("--types", default="product,article")
    parser.add_argument("--own-types", action="store_true", help="judge the pages as a crawl without a model does")
    parser.add_argument("--show", type=int, default=0, help="so many misses of a field")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names = given.types.split(",")
    sys.exit(not asyncio.run(measure(given.pages_dir, names, own_types=given.own_types, show=given.show)))


if __name__ == "__main__":
    main()
