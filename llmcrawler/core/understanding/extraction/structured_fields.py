"""Finds the fields that a user asks for in what a page says of itself: by name, or by schema.org's word for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from llmcrawler.core.understanding.extraction.record_schema import Field, assemble
from llmcrawler.core.understanding.extraction.tree import Work
from llmcrawler.core.understanding.extraction.typed_values import Scalar, typed

Object = dict[str, Any]

_MAX_LEAVES: Final = 500
_NO_LETTER: Final = re.compile(r"[\W_]+")
# What people call things, and where schema.org has them. Names are compared without case and marks.
_SYNONYMS: Final = {
    one.split(":")[0].strip(): tuple(one.split(":")[1].split())
    for one in """
        title: name headline
        name: headline title
        headline: name
        heading: headline name
        price: offers.price offers.lowPrice
        amount: offers.price
        cost: offers.price
        saleprice: offers.price
        minprice: offers.lowPrice offers.price
        maxprice: offers.highPrice
        currency: offers.priceCurrency baseSalary.currency priceCurrency
        availability: offers.availability
        available: offers.availability
        instock: offers.availability
        stock: offers.availability
        stockstatus: offers.availability
        condition: offers.itemCondition
        seller: offers.seller
        authors: author creator
        author: creator
        writer: author
        byline: author
        date: datePublished startDate datePosted dateCreated uploadDate
        published: datePublished datePosted
        publisheddate: datePublished
        publicationdate: datePublished
        publishedat: datePublished
        publishdate: datePublished
        pubdate: datePublished
        posted: datePosted datePublished
        dateposted: datePublished
        postedat: datePosted
        modified: dateModified
        updated: dateModified
        updatedat: dateModified
        lastupdated: dateModified
        lastmodified: dateModified
        section: articleSection
        category: articleSection recipeCategory genre
        tags: keywords
        topics: keywords
        body: articleBody reviewBody text
        content: articleBody text
        summary: description abstract
        rating: aggregateRating.ratingValue reviewRating.ratingValue
        stars: aggregateRating.ratingValue
        score: aggregateRating.ratingValue
        reviews: aggregateRating.reviewCount aggregateRating.ratingCount review
        reviewcount: aggregateRating.reviewCount aggregateRating.ratingCount
        numberofreviews: aggregateRating.reviewCount
        ratings: aggregateRating.ratingCount
        images: image
        photo: image
        imageurl: image
        picture: image
        thumbnail: thumbnailUrl image
        link: url
        manufacturer: brand
        vendor: brand manufacturer
        maker: manufacturer brand
        articlenumber: sku
        productid: sku
        itemnumber: sku
        partnumber: mpn
        ean: gtin13 gtin gtin8 gtin14
        upc: gtin12 gtin gtin13
        gtin: gtin13 gtin12 gtin14 gtin8
        gtin13: gtin
        barcode: gtin13 gtin12 gtin gtin14 gtin8
        company: hiringOrganization
        employer: hiringOrganization
        organization: hiringOrganization organizer
        location: jobLocation.address.addressLocality location.name location.address.addressLocality
        city: jobLocation.address.addressLocality location.address.addressLocality address.addressLocality
        salary: baseSalary.value.value baseSalary.value.minValue baseSalary.value baseSalary
        jobtype: employmentType
        deadline: validThrough
        expires: validThrough
        start: startDate
        starts: startDate
        end: endDate
        ends: endDate
        venue: location.name location
        host: organizer
        ingredients: recipeIngredient
        instructions: recipeInstructions
        steps: recipeInstructions
        method: recipeInstructions
        directions: recipeInstructions
        servings: recipeYield
        serves: recipeYield
        yield: recipeYield
        cuisine: recipeCuisine
        calories: nutrition.calories
        pages: numberOfPages
        language: inLanguage
        lang: inLanguage
        variants: hasVariant offers.offers
        colour: color
        type: @type
    """.strip().splitlines()
}


def asked_of(record: Object, fields: Sequence[Field], *, base_url: str, work: Work) -> Object | None:
    """Return a record with these fields, None where the page has none of them. Raises TooCostly as `typed` does."""

    def value_of(one: Field, given: Any) -> Any:
        read = (_scalar(value, one, base_url, work) for value in (given if isinstance(given, list) else [given]))
        found = [value for value in read if value is not None]
        if one.many or not found:
            return found or None
        texts = [value for value in found if isinstance(value, str) and not value.startswith("http")]
        is_text = one.type in (None, "string") and len(texts) == len(found)
        return ", ".join(texts) if is_text else found[0]

    leaves = _by_name(record)
    values: Object = {}
    for one in fields:
        if not one.group:
            values[one.key] = next(
                (value for given in _options(one.name, leaves) if (value := value_of(one, given)) is not None), None
            )
    for group in dict.fromkeys(one.group for one in fields if one.group):
        rows: Any = next((given for given in _options(group, leaves) if _rows(given)), [])
        columns = [one for one in fields if one.group == group]
        values[group] = [row for row in (_row(columns, _by_name(given), value_of) for given in _rows(rows)) if row]
    return assemble(fields, values) if any(value not in (None, []) for value in values.values()) else None


def _options(name: str, leaves: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what may be meant by a name, the surest first: a path of that name, what people mean by it, a property of
    that name within something."""
    for said in dict.fromkeys((name, name.rpartition(".")[2])):
        folded = _folded(said)
        for path in (folded, *map(_folded, _SYNONYMS.get(folded, ()))):
            if path in leaves:
                yield leaves[path]
        inner = [value for path, value in leaves.items() if path.endswith(f"/{folded}")]
        if len(inner) == 1:
            yield inner[0]


def _by_name(record: Any) -> dict[str, Any]:
    """Return what an object holds by folded paths; with a slash before the last name, also by that."""
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
    """Return the objects of a list; a text in it is the name of one."""
    if isinstance(value, dict):
        value = value.get("offers", [value])
    rows = value if isinstance(value, list) else []
    return [one if isinstance(one, dict) else {"name": one, "text": one} for one in rows]


def _row(columns: Sequence[Field], leaves: Mapping[str, Any], value_of: Callable[[Field, Any], Any]) -> Object:
    found = {}
    for one in columns:
        values = (value_of(one, given) for given in _options(one.name, leaves))
        found[one.name] = next((value for value in values if value is not None), None)
    return {name: value for name, value in found.items() if value is not None}


def _scalar(value: Any, one: Field, base_url: str, work: Work) -> Scalar | None:
    if isinstance(value, dict):
        value = value.get("name") or ", ".join(str(inner) for inner in value.values() if isinstance(inner, str))
    if isinstance(value, bool):
        value = "true" if value else "false"
    # Values for machines are written alike in all languages.
    return typed(str(value), one.type, base_url=base_url, work=work) if isinstance(value, str | int | float) else None


def _folded(name: str) -> str:
    return _NO_LETTER.sub("", name).lower()
