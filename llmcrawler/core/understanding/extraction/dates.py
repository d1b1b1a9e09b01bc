"""Dates as people write them, read as ISO 8601: only where the text has day, month and year."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any, Final

from llmcrawler.core.understanding.extraction.tree import INLINE_STEPS, Work

_MAX_CHARS: Final = 60
_YEARS: Final = range(1000, 2200)

_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ISO_DATETIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?Z|[+-]\d{2}(?::?\d{2})?)?"
)
_RFC_2822: Final = re.compile(r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}(?::\d{2})? \S+")
_TIME: Final = r"(?P<hour>\d{1,2})(?::|(?P<h>h))(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?: ?(?P<half>[ap])\.?m\.?)?"
_AT: Final = rf"(?:(?:,| at| um| à| -| \||,? @)? {_TIME}(?: Uhr)?)?"
_YEAR_FIRST: Final = re.compile(
    rf"(?P<year>\d{{4}}) ?[-/.年년] ?(?P<month>\d{{1,2}}) ?[-/.月월] ?(?P<day>\d{{1,2}})(?: ?[日일]|\.)?{_AT}"
)
_YEAR_LAST: Final = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[-/.])(?P<second_>\d{{1,2}})(?P=mark)(?P<year>\d{{4}}|\d{{2}}){_AT}", re.IGNORECASE
)
_MONTHS: Final = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_MONTH: Final = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_WRITTEN: Final = re.compile(
    r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,? )?"
    rf"(?:(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?"
    rf"|(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\.?(?: of)? (?P<month2>{_MONTH})\.?,?) (?P<year>\d{{4}}){_AT}",
    re.IGNORECASE,
)
# Languages and locales that write the month first; those of East Asia write no year at the end.
_MONTH_FIRST: Final = frozenset("en en-us en-ph en-bz fil tl es-us es-pr es-pa".split())
_YEAR_AT_THE_END_IS_FOREIGN: Final = frozenset("zh ja ko hu mn lt".split())

# dateparser is asked about months in letters only: of numbers alone, which are read here, it makes dates of versions.
_WORD: Final = re.compile(r"[A-Za-z]{3}|[^\W\d_A-Za-z]")
# Tried where a page's language is unknown, or is not that of its dates. All that dateparser knows take 1.5 s to load.
_LANGUAGES: Final = "en de fr es it pt nl pl ru uk sv da nb fi cs sk hu ro el tr ar he fa hi id vi th ja ko zh".split()
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_MAX_WORDS: Final = 8
_MAX_FOREIGN_WORDS: Final = 4
_CLOCK: Final = re.compile(r"(?<!\d)(?P<hour>\d{1,2})(?P<mark>[:h])(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?!\d)")
_HALF_DAY: Final = re.compile(r"\d\s*[ap]\.?\s?m\b", re.IGNORECASE)
_MAX_MOMENTS: Final = 2_000
# To look up words takes 1 to 20 ms, the first time in a language 100: too long for the event loop.
_STEPS_OF_WORDS: Final = 2 * INLINE_STEPS
# Any date and time whose numbers are all different.
_SAMPLE: Final = datetime(2021, 6, 15, 10, 20, 30)  # noqa: DTZ001 - texts mostly name no zone


def read_date(text: str, lang: str = "", work: Work | None = None) -> str | None:
    """Return a date, or a date and time where the text has one.

    `text` has its white space folded, `lang` is in lower case. 3/4/2024 is read as `lang` says; without it, it may be
    March or April, and is None. So is "yesterday". Raises TooCostly where the words of a date have to be looked up and
    `work` has not enough left for that.
    """
    value, has_words = _in_numbers(text, lang[:_MAX_CHARS])
    return _lettered(text, lang[:_MAX_CHARS], work) if has_words else value


@lru_cache(maxsize=4096)
def _in_numbers(text: str, lang: str) -> tuple[str | None, bool]:
    """Return a date that needs no other words than English months, and whether a text may be one with other words."""
    if len(text) > _MAX_CHARS or not any(map(str.isdigit, text)):
        return None, False
    for form, read in _KNOWN_FORMS:
        if match := form.fullmatch(text):
            return read(match, lang), False
    return None, _WORD.search(text) is not None


def _year_first(match: re.Match[str], _lang: str) -> str | None:
    return _built(match, int(match["year"]), int(match["month"]), int(match["day"]))


def _written(match: re.Match[str], _lang: str) -> str | None:
    month = _MONTHS[(match["month"] or match["month2"])[:3].lower()]
    return _built(match, int(match["year"]), month, int(match["day"] or match["day2"]))


def _iso(read: Callable[[], datetime], *, with_time: bool) -> str | None:
    try:
        value = read()
    except (ValueError, OverflowError):  # a time zone of thirty digits
        return None
    return value.isoformat() if with_time else value.date().isoformat()


def _built(match: re.Match[str], year: int, month: int, day: int) -> str | None:
    if year not in _YEARS:
        return None
    if match["hour"] is None:
        return _iso(lambda: datetime(year, month, day), with_time=False)  # noqa: DTZ001 - the page names no zone
    hour, half = int(match["hour"]), (match["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        return None
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    minute, second = int(match["minute"]), int(match["second"] or 0)
    return _iso(lambda: datetime(year, month, day, hour, minute, second), with_time=True)  # noqa: DTZ001 - as above


def _year_last(match: re.Match[str], lang: str) -> str | None:
    first, second, mark = match["first"], match["second_"], match["mark"]
    if len(match["year"]) == 2 and not len(first) == len(second) == 2:
        return None  # 1.2.13 is a version, or nothing
    year = _full_year(match["year"])
    day, month = int(first), int(second)
    if mark != "." and day <= 12 and day != month and (month > 12 or _month_first(lang)):
        day, month = month, day
    elif mark != "." and max(day, month) <= 12 and day != month and _month_first(lang) is None:
        return None
    return _built(match, year, month, day)


_KNOWN_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], str | None]], ...]] = (
    (_ISO_DATE, lambda match, _lang: _iso(lambda: datetime.fromisoformat(match[0]), with_time=False)),
    (_ISO_DATETIME, lambda match, _: _iso(lambda: datetime.fromisoformat(match[0].replace(" Z", "Z")), with_time=True)),
    (_RFC_2822, lambda match, _lang: _iso(lambda: parsedate_to_datetime(match[0]), with_time=True)),
    (_YEAR_FIRST, _year_first),
    (_YEAR_LAST, _year_last),
    (_WRITTEN, _written),
)


def _month_first(lang: str) -> bool | None:
    """Tell whether a language writes the month first; None where it does not say."""
    language = lang.split("-", maxsplit=1)[0]
    return None if not lang or language in _YEAR_AT_THE_END_IS_FOREIGN else lang in _MONTH_FIRST


def _lettered(text: str, lang: str, work: Work | None) -> str | None:
    """Return a date with its month in letters, in any language.

    dateparser takes half a millisecond, and ten where it finds no date. But texts that differ in their numbers only are
    of one month, so it reads one of them, with numbers that can be told apart.
    """
    numbers = _Numbers.of(text)
    if numbers is None:
        return None
    year, day = _full_year(numbers.year[0]), int(numbers.day[0])
    # "1er mars": the letters may go with the day.
    for sample_day in (_SAMPLE.day, day) if text[numbers.day.end() :][:1].isalpha() else (_SAMPLE.day,):
        moment = _moment(numbers.sampled(text, sample_day), lang, work)
        if moment is not None and (moment.year, moment.day) == (_SAMPLE.year, sample_day) and year in _YEARS:
            return _iso(partial(numbers.put_into, moment, year, day, text), with_time=numbers.clock is not None)
    return None


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The places of a text's day, year and time of day. Of two short numbers the last is the year."""

    day: re.Match[str]
    year: re.Match[str]
    clock: re.Match[str] | None

    @classmethod
    def of(cls, text: str) -> _Numbers | None:
        clock = _CLOCK.search(text)
        start, end = clock.span() if clock else (0, 0)
        others = [one for one in re.finditer(r"\d+", text) if not start <= one.start() < end]
        if len(others) != 2:
            return None
        day, year = sorted(others, key=lambda one: (len(one[0]), one.start()) if len(one[0]) > 2 else (0, one.start()))
        return cls(day, year, clock) if len(day[0]) <= 2 and len(year[0]) in (2, 4) else None

    def sampled(self, text: str, day: int) -> str:
        """Return the text with the numbers of the sample."""
        samples = [(self.day, str(day)), (self.year, str(_SAMPLE.year)[-len(self.year[0]) :])]
        if self.clock is not None:
            second = f":{_SAMPLE.second}" if self.clock["second"] else ""
            samples.append((self.clock, f"{_SAMPLE.hour}{self.clock['mark']}{_SAMPLE.minute}{second}"))
        for match, sample in sorted(samples, key=lambda one: one[0].start(), reverse=True):
            text = text[: match.start()] + sample + text[match.end() :]
        return text

    def put_into(self, moment: datetime, year: int, day: int, text: str) -> datetime:
        """Return the moment that was read of the sample with the text's own numbers. Raises ValueError for the 30th of
        February, and where the sample's time was not read as it should be."""
        if self.clock is None:
            return moment.replace(year=year, day=day)
        hour, is_afternoon = int(self.clock["hour"]), moment.hour == _SAMPLE.hour + 12
        if _HALF_DAY.search(text):
            if not 1 <= hour <= 12:
                raise ValueError(f"{hour} is no hour of half a day")
            hour = hour % 12 + 12 * is_afternoon
        if moment.minute != _SAMPLE.minute or (moment.hour != _SAMPLE.hour and not is_afternoon):
            raise ValueError("the time of day was not understood")
        return moment.replace(
            year=year, day=day, hour=hour, minute=int(self.clock["minute"]), second=int(self.clock["second"] or 0)
        )


def _full_year(text: str) -> int:
    year = int(text)
    return year if len(text) > 2 else year + (1900 if year >= 69 else 2000)  # as POSIX has it


_moments: dict[tuple[str, str], datetime | None] = {}


def _moment(text: str, lang: str, work: Work | None) -> datetime | None:
    """Return the date that dateparser reads, which is remembered for the next time."""
    key = text, lang
    if key not in _moments:
        if work is not None:
            work.charge(_STEPS_OF_WORDS)
        if len(_moments) >= _MAX_MOMENTS:
            _moments.clear()
        _moments[key] = _looked_up(text, lang)
    return _moments[key]


def _looked_up(text: str, lang: str) -> datetime | None:
    words = len(_LETTERS.findall(text))
    if words > _MAX_WORDS:
        return None
    # A page may say less than the truth about its language. To try many of them takes longer.
    for tag in (lang, "") if lang and words <= _MAX_FOREIGN_WORDS else (lang,):
        found = _date_parser(tag).get_date_data(text)
        if found.date_obj is not None and found.period in ("day", "time"):
            moment: datetime = found.date_obj
            return moment
    return None


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
    return DateDataParser(languages=_LANGUAGES, settings=settings)
