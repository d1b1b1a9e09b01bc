"""Turns the properties of schema.org objects into plain values: dates as ISO 8601, names of people, absolute urls,
codes of currencies and articles, and several offers as one.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from llmcrawler.core.understanding.extraction.tree import Work, fold
from llmcrawler.core.understanding.extraction.typed_values import read_date, read_decimal, read_number, typed

# Of the page, of the site, of other things, or of what a shop does for everybody.
LEFT_OUT: Final = frozenset(
    """
    mainEntityOfPage potentialAction breadcrumb speakable publishingPrinciples hasMerchantReturnPolicy shippingDetails
    isPartOf itemReviewed isRelatedTo isSimilarTo isAccessoryOrSparePartFor isVariantOf hasPart relatedLink
    significantLink primaryImageOfPage subjectOf copyrightNotice acquireLicensePage
    """.split()
)
# They may be long, and are taken last: what is short is not to lack room because of them.
LONG: Final = frozenset("articleBody text reviewBody transcript hasVariant comment review reviews".split())

_NAMES: Final = {
    "people": "author creator editor contributor actor actors performer performers director",
    "named": """brand manufacturer publisher byArtist composer organizer provider seller sponsor funder
        hiringOrganization sourceOrganization copyrightHolder inAlbum genre worksFor category material color size
        pattern model illustrator translator productionCompany inLanguage department parentOrganization recipeCuisine
        recipeCategory articleSection about mentions""",
    "pictures": "image images photo logo thumbnail thumbnailUrl screenshot",
    "addresses": "url contentUrl embedUrl downloadUrl installUrl discussionUrl sameAs hasMap license menu",
    "keywords": "keywords",
    "lines": "recipeIngredient ingredients",
    "steps": "recipeInstructions",
    "date": """expires doorTime validFrom validThrough validUntil priceValidUntil availabilityStarts availabilityEnds
        datePosted date""",
    "price": "price lowPrice highPrice minPrice maxPrice",
    "number": """ratingValue reviewCount ratingCount bestRating worstRating wordCount offerCount commentCount
        answerCount upvoteCount numberOfPages minValue maxValue value latitude longitude userInteractionCount position
        totalJobOpenings""",
    "duration": "totalTime prepTime cookTime performTime duration timeRequired",
    "choice": "availability itemCondition eventStatus eventAttendanceMode bookFormat",
    "flag": "isAccessibleForFree isFamilyFriendly directApply valueAddedTaxIncluded",
    "gtin": "gtin gtin8 gtin12 gtin13 gtin14",
    "currency": "priceCurrency currency salaryCurrency",
    "rating": "aggregateRating reviewRating",
    "offers": "offers",
}
_KINDS: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_DATE: Final = re.compile(r"date[A-Z]\w*\Z|\w*[a-z]Date\Z")
_VOCABULARY: Final = re.compile(r"(?:https?://(?:www\.)?schema\.org/|schema:)", re.IGNORECASE)


Object = dict[str, Any]

_SHARED: Final = ("availability", "itemCondition", "priceValidUntil", "seller", "url", "priceCurrency")


def in_one(offers: Sequence[Object]) -> Object | None:
    """Return the only offer as it is; of several what they share, `price` and `lowPrice` being the lowest in the first
    one's currency, `availability` what can be had at all, and under `offers` all of them. A range has its lowest price
    as `price` too."""
    given = [one for offer in offers for one in _taken_apart(offer)]
    if not given:
        return None
    if len(given) == 1:
        only = given[0]
        low = only.get("lowPrice") or only.get("minPrice")
        return {"price": low, **only} if low and "price" not in only else only
    found: Object = {}
    for name in _SHARED:
        values = [one[name] for one in given if name in one]
        is_shared = len(values) == len(given) or name == "priceCurrency"
        if values and is_shared and all(one == values[0] for one in values):
            found[name] = values[0]
    if any(one.get("availability") == "InStock" for one in given):
        found["availability"] = "InStock"
    currency = next((one["priceCurrency"] for one in given if "priceCurrency" in one), None)
    of_currency = [one for one in given if one.get("priceCurrency", currency) == currency]
    prices = [one[name] for one in of_currency for name in ("price", "lowPrice", "highPrice") if name in one]
    if prices:
        low, high = min(prices, key=Decimal), max(prices, key=Decimal)
        found |= {"price": low, "lowPrice": low, "highPrice": high}
    if currency:
        found["priceCurrency"] = currency
    return {**found, "offerCount": len(given), "offers": given}


def _taken_apart(offer: Object) -> list[Object]:
    inner = offer.get("offers")
    if not isinstance(inner, dict):
        return [offer] if offer else []
    if "price" not in inner and "offers" not in inner:
        return [inner | offer]
    return list(inner.get("offers", [inner]))


_CURRENCIES: Final = frozenset(
    """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP
    CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG HUF
    IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK
    MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR
    SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES
    VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWL
    """.split()
)
# Signs that are of one currency only, and what people write for its code. A dollar may be of twenty countries.
_SIGNS: Final = {
    "€": "EUR", "£": "GBP", "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY", "₴": "UAH", "₫": "VND", "₪": "ILS",
    "฿": "THB", "₱": "PHP", "zł": "PLN", "Kč": "CZK", "US$": "USD", "A$": "AUD", "AU$": "AUD", "C$": "CAD",
    "CA$": "CAD", "NZ$": "NZD", "HK$": "HKD", "NT$": "TWD", "S$": "SGD", "R$": "BRL", "EURO": "EUR", "RMB": "CNY",
}  # fmt: skip
_CODE: Final = re.compile(r"\b[A-Z]{3}\b")
_SIGN: Final = re.compile("|".join(re.escape(sign) for sign in sorted(_SIGNS, key=len, reverse=True)))

# A member of an enumeration that is given by its address.
_TERM: Final = re.compile(r"\A(?:https?://(?:www\.)?schema\.org/|schema:)(\w+)/?\Z", re.IGNORECASE)
_CHOICES: Final = {
    name.lower(): name
    for name in """
    InStock OutOfStock PreOrder PreSale BackOrder SoldOut Discontinued InStoreOnly OnlineOnly LimitedAvailability
    MadeToOrder Reserved NewCondition UsedCondition RefurbishedCondition DamagedCondition EventScheduled EventCancelled
    EventPostponed EventRescheduled EventMovedOnline OfflineEventAttendanceMode OnlineEventAttendanceMode
    MixedEventAttendanceMode
    """.split()
} | {
    "oos": "OutOfStock", "availablefororder": "BackOrder", "pending": "PreOrder", "new": "NewCondition",
    "used": "UsedCondition", "refurbished": "RefurbishedCondition", "available": "InStock",
}  # fmt: skip
_NO_LETTER: Final = re.compile(r"[\W_]+")
_DURATION: Final = re.compile(
    r"P(?!\Z)(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+(?:\.\d+)?D)?(?:T(?!\Z)(?:\d+(?:\.\d+)?H)?(?:\d+(?:\.\d+)?M)?(?:\d+(?:\.\d+)?S)?)?\Z"
)
_WORDED: Final = re.compile(
    r"(?:(\d{1,4}) ?(?:hours?|hrs?|h|std\.?|stunden?|heures?)\.?)?(?:,| and)? ?"
    r"(?:(\d{1,4}) ?(?:minutes?|minuten?|mins?|m)\.?)?\Z",
    re.IGNORECASE,
)
_GTIN_LENGTHS: Final = (8, 12, 13, 14)


def currency_code(text: str) -> str | None:
    """Return the ISO 4217 code in a text such as "EUR", "usd", "12,50 €"; None where it is not sure."""
    code = next((one for one in _CODE.findall(text[:60].upper()) if one in _CURRENCIES), None)
    if code is None and (sign := _SIGN.search(text[:60])):
        return _SIGNS[sign[0]]
    return code


def gtin(text: str) -> str | None:
    digits = re.sub(r"[\s-]", "", text[:60])
    if not (digits.isascii() and digits.isdigit()) or len(digits) not in _GTIN_LENGTHS or not digits.strip("0"):
        return None
    total = sum(int(digit) * (3 if at % 2 == 0 else 1) for at, digit in enumerate(reversed(digits[:-1])))
    return digits if (total + int(digits[-1])) % 10 == 0 else None


def choice(text: str) -> str | None:
    """Return schema.org's name of an availability, a condition, an event's state; other words as they stand."""
    name = _TERM.sub(r"\1", text)
    known = _CHOICES.get(_NO_LETTER.sub("", name).lower())
    if known is None and name:
        is_there = typed(name, "boolean")  # "Auf Lager"
        known = name if is_there is None else "InStock" if is_there else "OutOfStock"
    return known or None


def duration(text: str) -> str | None:
    """Return a duration as ISO 8601 has it, where the text says hours and minutes; other words as they stand."""
    text = text.strip()
    code = re.sub(r"\s", "", text[:60]).upper()
    code = f"P{code}" if code.startswith("T") else code
    if _DURATION.match(code):
        return code
    match = _WORDED.match(text[:60])
    if match and (match[1] or match[2]):
        return "PT" + (f"{int(match[1])}H" if match[1] else "") + (f"{int(match[2])}M" if match[2] else "")
    return text or None


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
    r"\A(?:[A-Z][a-z]{2},? )?([A-Z][a-z]{2} \d{1,2} \d{4} [\d:]{8}) GMT[+-]\d{4}(?: \(.*\))?\Z"
)
_PARTIAL: Final = re.compile(r"\d{4}(?:-\d{2})?\Z")


class StructuredValues:
    """Reads objects of one page. `nodes` are its objects by id, which others may refer to. What is taken of a page is
    bounded: so many values and characters, so deep. Its methods raise TooCostly where `work` is not enough."""

    def __init__(self, base_url: str, lang: str, nodes: Mapping[str, Object], work: Work) -> None:
        self._base_url = base_url
        self._lang = lang.strip().replace("_", "-").lower()
        self._nodes = nodes
        self._work = work
        self._values = _MAX_VALUES
        self._chars = _MAX_CHARS
        self._looks = _MAX_LOOKS
        # Of the first entry that is such a value, by kind.
        self._of_first: Mapping[str, Callable[[Any], Any]] = {
            "date": self._read_date,
            "price": lambda one: None if isinstance(one, dict) else read_decimal(fold(self.text(one))),
            "number": self._number,
            "flag": lambda one: one if isinstance(one, bool) else typed(self.text(one), "boolean"),
            "duration": lambda one: duration(self.text(one)),
            "choice": lambda one: choice(self.text(one)),
            "gtin": lambda one: gtin(self.text(one)),
            "currency": lambda one: currency_code(self.text(one)),
        }
        self._of_all: Mapping[str, Callable[[Any], Any]] = {
            "people": self._names,
            "named": lambda value: _one_or_all(self._names(value)),
            "pictures": self._urls,
            "addresses": lambda value: _one_or_all(self._urls(value)),
            "keywords": lambda value: self._listed(value, is_line=False),
            "lines": lambda value: self._listed(value, is_line=True),
            "steps": self._steps,
            "offers": lambda value: in_one([self._offer(one) for one in self._items(value)]),
        }

    def properties(self, one: Object, depth: int = 0) -> Object:
        """Return the plain values of an object by the names of its properties."""
        found: Object = {}
        # Without schema.org's prefix.
        named = [(_VOCABULARY.sub("", key, count=1).strip(), key) for key in list(one)[:_MAX_PROPERTIES]]
        named = [(name, key) for name, key in named if name not in LEFT_OUT and name.isidentifier()]
        for name, key in sorted(named, key=lambda pair: pair[0] in LONG):
            self._looks -= 1
            if name not in found and self._values > 0 and self._looks > 0:
                value = self._value(name, one[key], depth)
                if value not in (None, "", [], {}) and self._has_room(value):
                    found[name] = value
        return found

    def _resolved(self, value: Any) -> Any:
        """Return the object that a reference by id stands for, what `@value` holds, or the value itself."""
        if not isinstance(value, dict):
            return value
        for inner in ("@value", "@list", "@set"):
            if inner in value:
                return value[inner]
        name = value.get("@id")
        known = self._nodes.get(name) if isinstance(name, str) and len(value) <= 2 else None
        return value if known is None else known

    def _items(self, value: Any) -> Iterator[Any]:
        """Yield the entries of a list, or a value that is none; references are resolved."""
        value = self._resolved(value)
        for one in value[:_MAX_LIST] if isinstance(value, list) else [value]:
            inner = self._resolved(one)
            self._looks -= 1
            if inner is not None and not isinstance(inner, list) and self._looks > 0:
                yield inner

    def text(self, value: Any) -> str:
        """Return a value as text: lines kept, other white space folded, markup and character references resolved."""
        value = self._resolved(value)
        if isinstance(value, dict):
            value = next((value[key] for key in ("name", "text", "value", "@id") if value.get(key)), None)
        if isinstance(value, float):
            value = format(Decimal(repr(value)), "f") if math.isfinite(value) and not _is_huge(value) else ""
        if isinstance(value, bool) or not isinstance(value, str | int) or _is_huge(value):
            return ""
        text = str(value)[: 2 * _MAX_TEXT_CHARS]
        self._work.charge_text(len(text))
        if "&" in text:
            text = html.unescape(text)
        if "<" in text:
            text = html.unescape(_TAG.sub("", _LINE_END.sub("\n", text)))
        text = "\n".join(line for line in map(fold, text.splitlines()) if line)
        return "" if len(text) > _MAX_TEXT_CHARS else _TERM.sub(r"\1", text)

    def _read_date(self, value: Any) -> str | None:
        """Return a date as ISO 8601, of a year or a month alone too, and of seconds since 1970."""
        text = fold(self.text(value))[:100].strip(" ,.")
        if _SECONDS.match(text):
            return datetime.fromtimestamp(int(text[:10]), UTC).isoformat()
        text = _SCRIPT_DATE.sub(r"\1", text)
        found = text if _PARTIAL.match(text) else read_date(text, self._lang, self._work)
        if not found:
            with suppress(ValueError, OverflowError):
                found = datetime.fromisoformat(text.replace(" +", "+")).isoformat()
        return found if found and int(found[:4]) >= _FIRST_YEAR else None

    def _names(self, value: Any) -> list[str]:
        """Return the names of people or things, each once."""
        found: dict[str, str] = {}
        for one in self._items(value):
            name = self._name(one)
            if name and len(name) <= _MAX_NAME_CHARS and not _WEB.match(name):
                found.setdefault(name.casefold(), name)
        return list(found.values())

    def _name(self, value: Any) -> str:
        if not isinstance(value, dict):
            return fold(self.text(value))
        for key in ("name", "legalName", "headline", "title", "termName", "alternateName", "schema:name"):
            for given in self._items(value.get(key)):
                if text := fold(self.text(given) if not isinstance(given, dict) else ""):
                    return text
        return " ".join(filter(None, (fold(self.text(value.get(key))) for key in ("givenName", "familyName"))))

    def _value(self, name: str, value: Any, depth: int) -> Any:
        kind = _KINDS.get(name) or ("date" if _DATE.match(name) else "")
        if read_all := self._of_all.get(kind):
            return read_all(value)
        if kind == "rating":
            ratings = (self._rating(one, depth) for one in self._items(value))
            return next((rating for rating in ratings if rating is not None), None)
        if read := self._of_first.get(kind):
            return next((found for one in self._items(value) if (found := read(one)) is not None), None)
        return _one_or_all([one for one in (self._any(item, depth) for item in self._items(value)) if one is not None])

    def _rating(self, value: Any, depth: int) -> Object | None:
        if isinstance(value, dict):
            return self.properties(value, depth + 1) or None
        number = self._number(value)
        return {"ratingValue": number} if isinstance(number, int | float) else None

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

    def _number(self, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value if not _is_huge(value) and math.isfinite(value) else None
        if isinstance(value, dict):
            return self.properties(value, _MAX_DEPTH - 1) or None  # MonetaryAmount.value: minValue, maxValue
        text = fold(self.text(value))
        of_best = _OF_BEST.match(text)
        number = read_number(of_best[1] if of_best else text)
        return number if number is not None else text or None

    def _urls(self, value: Any) -> list[str]:
        found: dict[str, None] = {}
        for one in self._items(value):
            given = one
            for _ in range(3):
                if not isinstance(given, dict):
                    break
                keys = ("url", "contentUrl", "@id", "embedUrl", "schema:url")
                given = next((inner for key in keys for inner in self._items(given.get(key))), None)
            text = fold(given) if isinstance(given, str) else ""
            self._work.charge_text(len(text))
            url = typed(html.unescape(text), "url", base_url=self._base_url)
            if isinstance(url, str):
                found[url] = None
        return list(found)

    def _listed(self, value: Any, *, is_line: bool) -> list[str]:
        texts = [self.text(one) for one in self._items(value)]
        if len(texts) == 1:
            texts = texts[0].splitlines() if is_line else _SEPARATOR.split(texts[0])
        return list(dict.fromkeys(text for text in map(fold, texts) if text))[:_MAX_LIST]

    def _steps(self, value: Any) -> list[str]:
        found: list[str] = []
        waiting = list(self._items(value))[::-1]
        for _ in range(5 * _MAX_LIST):
            if not waiting or len(found) >= _MAX_LIST:
                break
            one = waiting.pop()
            if isinstance(one, dict) and one.get("itemListElement"):
                waiting += list(self._items(one["itemListElement"]))[::-1]
            elif isinstance(one, dict):
                found.append(self.text(one.get("text") or one.get("name") or one.get("description")))
            else:
                found += self.text(one).splitlines()
        return [text for text in found if text]

    def _offer(self, value: Any) -> Object:
        """Return an offer, its price also where a specification of it or its text has it."""
        if not isinstance(value, dict):
            return self.properties({"price": value, "priceCurrency": value})
        offer = self.properties(value, 1)
        specified = [one for one in self._items(value.get("priceSpecification")) if isinstance(one, dict)]
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
    seen = {json.dumps(one, sort_keys=True, default=str): one for one in values}
    return next(iter(seen.values()), None) if len(seen) < 2 else list(seen.values())


def _is_huge(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) >= _MAX_NUMBER
