"""Typed values from the texts of a page. What is no value of its type is None: nothing is invented."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from llmcrawler.extraction.model import FieldType
from llmcrawler.extraction.tree import fold

Scalar = str | int | float | bool

_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ISO_DATETIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?")
_RFC_2822: Final = re.compile(r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}(?::\d{2})? \S+")
_DAY_TIME: Final = re.compile(r"\d{1,2}[:h]\d{2}|\d\s*[ap]\.?m\b", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"\d[\d.,'\u00a0\u202f ]*")
_MONTHS: Final = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_WRITTEN: Final = re.compile(
    rf"(?:(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?"
    rf"|(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\.? (?P<month2>{_MONTH})\.?,?) (?P<year>\d{{4}})",
    re.IGNORECASE,
)
_MAX_DATE_CHARS: Final = 60
_MAX_NUMBER_CHARS: Final = 60
_TRUE: Final = frozenset("true yes 1 on ja oui si sí sim da in-stock instock available verfügbar disponible".split())
_FALSE: Final = frozenset(
    "false no 0 off nein non não nao unavailable outofstock soldout ausverkauft agotado épuisé discontinued".split()
)


def typed(raw: str, field_type: FieldType | None, *, base_url: str = "", lang: str = "") -> Scalar | None:
    """The value of a text: dates as ISO 8601, urls absolute, numbers without currency and thousands separators.

    `lang` is the page's language tag; it tells 3/4/2024 of March from that of April.
    """
    text = raw.strip()
    if not text:
        return None
    if field_type == "date":
        return _date(fold(text), lang.replace("_", "-").lower())
    if field_type == "url":
        return _url(text, base_url)
    reader = _READERS.get(field_type) if field_type is not None else None
    return _string(text) if reader is None else reader(fold(text))


def _string(text: str) -> str | None:
    return "\n".join(line for line in (fold(line) for line in text.splitlines()) if line) or None


def _number(text: str) -> int | float | None:
    """The amount of a text with one number in it: "£1,299.00", "1.299,00 €", "-5 %"; None where there are several."""
    found = _NUMBERS.findall(text)
    if len(found) != 1 or len(text) > _MAX_NUMBER_CHARS:
        return None
    # Imported where it is needed: most crawls read no prices.
    from price_parser import Price  # noqa: PLC0415

    amount = Price.fromstring(found[0].strip()).amount
    if amount is None:
        return None
    before = text[: text.index(found[0])].rstrip(" \u00a0£$€¥")
    negative = before.endswith(("-", "\u2212")) and not before[:-1].rstrip()[-1:].isalnum()
    value = -amount if negative else amount
    return int(value) if value == value.to_integral_value() and "." not in str(value) else float(value)


def _integer(text: str) -> int | None:
    value = _number(text)
    return int(value) if value is not None and value == int(value) else None


def _boolean(text: str) -> bool | None:
    word = text.lower().rstrip(".!").rsplit("/", 1)[-1].replace(" ", "").replace("_", "")
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def _url(text: str, base_url: str) -> str | None:
    if any(character.isspace() for character in text):
        return None
    try:
        url = urljoin(base_url, text)
        scheme = urlsplit(url).scheme
    except ValueError:
        return None
    return url if scheme in ("http", "https", "mailto", "tel", "ftp") or (not scheme and not base_url) else None


@lru_cache(maxsize=4096)
def _date(text: str, lang: str) -> str | None:
    """A date, or a date and time where the text has one. A text without a day and a year is none."""
    if len(text) > _MAX_DATE_CHARS or not re.search(r"\d", text):
        return None
    if _ISO_DATE.fullmatch(text) or _ISO_DATETIME.fullmatch(text):
        return _iso(lambda: datetime.fromisoformat(text), with_time=len(text) > len("2026-01-31"))
    if _RFC_2822.fullmatch(text):
        return _iso(lambda: parsedate_to_datetime(text), with_time=True)
    return _written_date(text) or _parsed_date(text, lang)


def _written_date(text: str) -> str | None:
    """English dates with the month in letters: a hundred times as fast as dateparser."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    day, month, year = match["day"] or match["day2"], match["month"] or match["month2"], match["year"]
    try:
        return date(int(year), _MONTHS[month[:3].lower()], int(day)).isoformat()
    except ValueError:
        return None


def _iso(read: Callable[[], datetime], *, with_time: bool) -> str | None:
    try:
        value = read()
    except ValueError:
        return None
    return value.isoformat() if with_time else value.date().isoformat()


def _parsed_date(text: str, lang: str) -> str | None:
    found = _date_parser(lang).get_date_data(text)
    if found.date_obj is None and lang:
        found = _date_parser("").get_date_data(text)  # a page may say less than the truth about its language
    if found.date_obj is None or found.period not in ("day", "time"):
        return None
    moment: datetime = found.date_obj
    return moment.isoformat() if _DAY_TIME.search(text) else moment.date().isoformat()


@lru_cache(maxsize=16)
def _date_parser(lang: str) -> Any:
    # Imported where it is needed: many sites write ISO or English dates only.
    from dateparser.data.languages_info import language_locale_dict  # type: ignore[import-untyped]  # noqa: PLC0415
    from dateparser.date import DateDataParser  # type: ignore[import-untyped]  # noqa: PLC0415

    settings = {"REQUIRE_PARTS": ["day", "month", "year"], "PARSERS": ["custom-formats", "absolute-time"]}
    language, _, region = lang.partition("-")
    if f"{language}-{region.upper()}" in language_locale_dict.get(language, ()):
        return DateDataParser(locales=[f"{language}-{region.upper()}"], settings=settings)
    if language in language_locale_dict:
        return DateDataParser(languages=[language], settings=settings)
    return DateDataParser(settings=settings)


_READERS: Final[dict[FieldType, Callable[[str], Scalar | None]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
