"""Turns the properties of schema.org objects into plain values: dates as ISO 8601, names of people, absolute urls."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from llmcrawler.core.understanding.extraction.dates import read_date
from llmcrawler.core.understanding.extraction.stated.property_kinds import LONG, kind_of, property_name
from llmcrawler.core.understanding.extraction.stated.stated_codes import choice, currency_code, duration, gtin, term
from llmcrawler.core.understanding.extraction.stated.stated_offers import in_one
from llmcrawler.core.understanding.extraction.tree import Work, fold
from llmcrawler.core.understanding.extraction.typed_values import read_decimal, read_number, typed

Object = dict[str, Any]

_MAX_DEPTH: Final = 5
_MAX_LIST: Final = 100
_MAX_PROPERTIES: Final = 100  # of one object
_MAX_VALUES: Final = 2_000
_MAX_LOOKS: Final = 20_000  # at entries and properties: objects may refer to each other over and over
_MAX_CHARS: Final = 200_000
_MAX_TEXT_CHARS: Final = 50_000
_MAX_NAME_CHARS: Final = 300
_FIRST_YEAR: Final = 1000  # software writes the year 1 for no date
_MAX_NUMBER: Final = 10**15

_LINE_END: Final = re.compile(r"<(?:br|/p|/li|/div|/h[1-6])\b[^<>]{0,200}>", re.IGNORECASE)
_TAG: Final = re.compile(r"</?[a-zA-Z][^<>]{0,2000}>|<!--[^<>]{0,2000}-->")
_WEB: Final = re.compile(r"(?:https?:)?//|www\.", re.IGNORECASE)
_SEPARATOR: Final = re.compile(r"[,;\n]")
_OF_BEST: Final = re.compile(r"(\d+(?:[.,]\d+)?) ?(?:/|out of|of|von|sur|de) ?\d+\Z")
_SECONDS: Final = re.compile(r"\d{10}(?:\d{3})?\Z")
_SCRIPT_DATE: Final = re.compile(
    r"(?:[A-Z][a-z]{2},? )?([A-Z][a-z]{2} \d{1,2} \d{4} [\d:]{8}) GMT[+-]\d{4}(?: \(.*\))?\Z"
)
_PARTIAL: Final = re.compile(r"\d{4}(?:-\d{2})?\Z")


class StatedValues:
    """Reads objects of one page. `nodes` are its objects by id, which others may refer to. What is taken of a page is
    bounded: so many values and characters, so deep. Its methods raise TooCostly where `work` is not enough.
    """

    def __init__(self, base_url: str, lang: str, nodes: Mapping[str, Object], work: Work) -> None:
        self._base_url = base_url
        self._lang = lang.strip().replace("_", "-").lower()
        self._nodes = nodes
        self._work = work
        self._values = _MAX_VALUES
        self._chars = _MAX_CHARS
        self._looks = _MAX_LOOKS

    def properties(self, one: Object, depth: int = 0) -> Object:
        """Return the plain values of an object by the names of its properties."""
        found: Object = {}
        named = [(name, key) for key in list(one)[:_MAX_PROPERTIES] if (name := property_name(key))]
        for name, key in sorted(named, key=lambda pair: pair[0] in LONG):
            self._looks -= 1
            if name not in found and self._values > 0 and self._looks > 0:
                value = self._value(name, one[key], depth)
                if value not in (None, "", [], {}) and self._has_room(value):
                    found[name] = value
        return found

    def resolved(self, value: Any) -> Any:
        """Return the object that a reference by id stands for, what `@value` holds, or the value itself."""
        if not isinstance(value, dict):
            return value
        for inner in ("@value", "@list", "@set"):
            if inner in value:
                return value[inner]
        name = value.get("@id")
        known = self._nodes.get(name) if isinstance(name, str) and len(value) <= 2 else None
        return value if known is None else known

    def items(self, value: Any) -> Iterator[Any]:
        """Yield the entries of a list, or a value that is none; references are resolved."""
        value = self.resolved(value)
        for one in value[:_MAX_LIST] if isinstance(value, list) else [value]:
            inner = self.resolved(one)
            self._looks -= 1
            if inner is not None and not isinstance(inner, list) and self._looks > 0:
                yield inner

    def text(self, value: Any) -> str:
        """Return a value as text: lines kept, other white space folded, markup and character references resolved."""
        value = self.resolved(value)
        if isinstance(value, dict):
            value = next((value[key] for key in ("name", "text", "value", "@id") if value.get(key)), None)
        if isinstance(value, float):
            value = _digits(value)
        if isinstance(value, bool) or not isinstance(value, str | int) or _is_huge(value):
            return ""
        text = str(value)[: 2 * _MAX_TEXT_CHARS]
        self._work.charge_text(len(text))
        if "&" in text:
            text = html.unescape(text)
        if "<" in text:
            text = html.unescape(_TAG.sub("", _LINE_END.sub("\n", text)))
        text = "\n".join(line for line in map(fold, text.splitlines()) if line)
        return "" if len(text) > _MAX_TEXT_CHARS else term(text)

    def date(self, value: Any) -> str | None:
        """Return a date as ISO 8601, of a year or a month alone too, and of seconds since 1970."""
        text = fold(self.text(value))[:100].strip(" ,.")
        if _SECONDS.match(text):
            return datetime.fromtimestamp(int(text[:10]), UTC).isoformat()
        if match := _SCRIPT_DATE.match(text):
            text = match[1]
        found = text if _PARTIAL.match(text) else read_date(text, self._lang, self._work) or _iso(text)
        return found if found and int(found[:4]) >= _FIRST_YEAR else None

    def names(self, value: Any) -> list[str]:
        """Return the names of people or things, each once."""
        found: dict[str, str] = {}
        for one in self.items(value):
            name = self._name(one)
            if name and len(name) <= _MAX_NAME_CHARS and not _WEB.match(name):
                found.setdefault(name.casefold(), name)
        return list(found.values())

    def _name(self, value: Any) -> str:
        if not isinstance(value, dict):
            return fold(self.text(value))
        for key in ("name", "legalName", "headline", "title", "termName", "alternateName", "schema:name"):
            for given in self.items(value.get(key)):
                if text := fold(self.text(given) if not isinstance(given, dict) else ""):
                    return text
        return " ".join(filter(None, (fold(self.text(value.get(key))) for key in ("givenName", "familyName"))))

    def _value(self, name: str, value: Any, depth: int) -> Any:  # noqa: C901, PLR0911, PLR0912 - a kind in each line
        match kind_of(name):
            case "people":
                return self.names(value)
            case "named":
                return _one_or_all(self.names(value))
            case "pictures":
                return self._urls(value)
            case "addresses":
                return _one_or_all(self._urls(value))
            case "listed":
                return self._listed(value, is_line=name != "keywords")
            case "steps":
                return self._steps(value)
            case "date":
                return self._first(value, self.date)
            case "price":
                return self._first(value, self._price)
            case "number":
                return self._first(value, self._number)
            case "duration":
                return self._first(value, lambda one: duration(self.text(one)))
            case "choice":
                return self._first(value, lambda one: choice(self.text(one)))
            case "flag":
                return self._first(value, self._flag)
            case "gtin":
                return self._first(value, lambda one: gtin(self.text(one)))
            case "currency":
                return self._first(value, lambda one: currency_code(self.text(one)))
            case "rating":
                return self._first(value, lambda one: self._rating(one, depth))
            case "offers":
                return self.offers(value)
        return _one_or_all([one for one in (self._any(item, depth) for item in self.items(value)) if one is not None])

    def _has_room(self, value: Any) -> bool:
        """Take what a value needs of the room that is left. Values within objects have done so themselves."""
        parts = value if isinstance(value, list) else [value]
        chars = sum(len(one) if isinstance(one, str) else 8 for one in parts if not isinstance(one, dict))
        if chars > self._chars:
            return False
        self._values -= len(parts)
        self._chars -= chars
        return True

    def _any(self, value: Any, depth: int) -> Any:
        """Return a value of no known kind: a scalar as it is, what an object says; its name where that is all."""
        if isinstance(value, dict):
            inner = self.properties(value, depth + 1) if depth < _MAX_DEPTH else {}
            return inner["name"] if inner.keys() == {"name"} else inner or None
        if isinstance(value, bool) or (isinstance(value, int) and not _is_huge(value)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return self.text(value) or None

    def _first(self, value: Any, read: Callable[[Any], Any]) -> Any:
        return next((found for one in self.items(value) if (found := read(one)) is not None), None)

    def _price(self, value: Any) -> str | None:
        return read_decimal(fold(self.text(value))) if not isinstance(value, dict) else None

    def _number(self, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if not _is_huge(value) and math.isfinite(value) else None
        if isinstance(value, dict):
            return self.properties(value, _MAX_DEPTH - 1) or None  # MonetaryAmount.value: minValue, maxValue
        text = fold(self.text(value))
        of_best = _OF_BEST.match(text)
        number = read_number(of_best[1] if of_best else text)
        return number if number is not None else text or None

    def _flag(self, value: Any) -> Any:
        return value if isinstance(value, bool) else typed(self.text(value), "boolean")

    def _urls(self, value: Any) -> list[str]:
        found: dict[str, None] = {}
        for one in self.items(value):
            given = one
            for _ in range(3):
                if not isinstance(given, dict):
                    break
                keys = ("url", "contentUrl", "@id", "embedUrl", "schema:url")
                given = next((inner for key in keys for inner in self.items(given.get(key))), None)
            text = fold(given) if isinstance(given, str) else ""
            self._work.charge_text(len(text))
            url = typed(html.unescape(text), "url", base_url=self._base_url)
            if isinstance(url, str):
                found[url] = None
        return list(found)

    def _listed(self, value: Any, *, is_line: bool) -> list[str]:
        """Return texts; of a single one those between its commas, or its lines."""
        texts = [self.text(one) for one in self.items(value)]
        if len(texts) == 1:
            texts = texts[0].splitlines() if is_line else _SEPARATOR.split(texts[0])
        return list(dict.fromkeys(text for text in map(fold, texts) if text))[:_MAX_LIST]

    def _steps(self, value: Any) -> list[str]:
        """Return the texts of a recipe's steps, sections taken apart."""
        found: list[str] = []
        waiting = list(self.items(value))[::-1]
        for _ in range(5 * _MAX_LIST):
            if not waiting or len(found) >= _MAX_LIST:
                break
            one = waiting.pop()
            if isinstance(one, dict) and one.get("itemListElement"):
                waiting += list(self.items(one["itemListElement"]))[::-1]
            elif isinstance(one, dict):
                found.append(self.text(one.get("text") or one.get("name") or one.get("description")))
            else:
                found += self.text(one).splitlines()
        return [text for text in found if text]

    def _rating(self, value: Any, depth: int) -> Object | None:
        if not isinstance(value, dict):
            number = self._number(value)
            return {"ratingValue": number} if isinstance(number, int | float) else None
        return self.properties(value, depth + 1) or None

    def offers(self, values: Any) -> Object | None:
        return in_one([self._offer(one) for one in self.items(values)])

    def _offer(self, value: Any) -> Object:
        """Return an offer, its price also where a specification of it or its text has it."""
        if not isinstance(value, dict):
            return self.properties({"price": value, "priceCurrency": value})
        offer = self.properties(value, 1)
        specified = [one for one in self.items(value.get("priceSpecification")) if isinstance(one, dict)]
        proper = [one for one in specified if not one.get("priceType")]  # else what it was, or costs members
        if len(specified) == 1:
            offer.pop("priceSpecification", None)  # it says nothing else
        for one in proper or specified:
            for name in ("price", "priceCurrency", "minPrice", "maxPrice"):
                if name not in offer and (inner := self._value(name, one.get(name), 1)) is not None:
                    offer[name] = inner
        if "priceCurrency" not in offer and (code := currency_code(self.text(value.get("price")))):
            offer["priceCurrency"] = code
        return offer


def _one_or_all(values: list[Any]) -> Any:
    """Return the only value as it is, and several as a list without repeats."""
    seen = {json.dumps(one, sort_keys=True, default=str): one for one in values}
    return next(iter(seen.values()), None) if len(seen) < 2 else list(seen.values())


def _digits(value: float) -> str:
    return format(Decimal(repr(value)), "f") if math.isfinite(value) and not _is_huge(value) else ""


def _is_huge(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) >= _MAX_NUMBER


def _iso(text: str) -> str | None:
    try:
        return datetime.fromisoformat(text.replace(" +", "+")).isoformat()
    except (ValueError, OverflowError):
        return None
