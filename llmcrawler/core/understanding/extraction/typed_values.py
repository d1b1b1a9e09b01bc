"""Reads typed values from the texts of a page. What is no value of its type is None: nothing is invented."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final
from unicodedata import category
from urllib.parse import urljoin, urlsplit

from llmcrawler.core.understanding.extraction.record_schema import FieldType
from llmcrawler.core.understanding.extraction.tree import INLINE_STEPS, Work, fold
from llmcrawler.core.urls import MAX_URL_LENGTH

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
# What stands between the days of a range, and before its first: "12.–14. Mai 2024", "du 3 juillet au 1 août 2024". Two
# whole dates are no date: either may be meant.
UP_TO: Final = r"\s?(?:[–—-]|\b(?:to|bis|au|al|tot)\b)\s?"
_DAY_AND_MONTH: Final = r"\d{1,2}\.? (?:de )?[^\W\d_]{3,10}\.?"
_RANGES: Final = (
    re.compile(rf"(?<![\d.:-])({_DAY_AND_MONTH}){UP_TO}{_DAY_AND_MONTH}(?=,? )"),
    re.compile(rf"(?<![\d.:-])(\d{{1,2}}\.?){UP_TO}\d{{1,2}}\.?(?=,? )"),
    re.compile(r"()\b(?:from|vom|du|del|dal|vanaf)\b:? ", re.IGNORECASE),
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
    """Return a date, or a date and time where the text has one; of days of one year the first.

    `text` has its white space folded, `lang` is in lower case. 3/4/2024 is read as `lang` says; without it, it may be
    March or April, and is None. So is "yesterday". Raises TooCostly where the words of a date have to be looked up and
    `work` has not enough left for that."""
    text = text.translate(_WESTERN)
    value, has_words = _in_numbers(text, lang[:_MAX_CHARS])
    for form in _RANGES if has_words else ():
        text = form.sub(r"\1", text, count=1)
    return _lettered(text, lang[:_MAX_CHARS], work) if has_words else value


@lru_cache(maxsize=4096)
def _in_numbers(text: str, lang: str) -> tuple[str | None, bool]:
    """Return a date that needs no other words than English months, and whether a text may be one with other words."""
    if len(text) > _MAX_CHARS or not any(map(str.isdigit, text)):
        return None, False
    for form, read in _KNOWN_FORMS:
        if match := form.fullmatch(text):
            try:
                found = read(match, lang)
            except (ValueError, OverflowError):  # the 30th of February, a time zone of thirty digits
                return None, False
            return found.isoformat() if found else None, False
    return None, _WORD.search(text) is not None


def _written(match: re.Match[str], _lang: str) -> date | None:
    month = _MONTHS[(match["month"] or match["month2"])[:3].lower()]
    return _built(match, int(match["year"]), month, int(match["day"] or match["day2"]))


def _built(match: re.Match[str], year: int, month: int, day: int) -> date | None:
    if year not in _YEARS:
        return None
    if match["hour"] is None:
        return date(year, month, day)
    hour, half = int(match["hour"]), (match["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        return None
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    return datetime(year, month, day, hour, int(match["minute"]), int(match["second"] or 0))  # noqa: DTZ001 - none is named


def _year_last(match: re.Match[str], lang: str) -> date | None:
    first, second, mark = match["first"], match["second_"], match["mark"]
    if len(match["year"]) == 2 and not len(first) == len(second) == 2:
        return None  # 1.2.13 is a version, or nothing
    day, month = int(first), int(second)
    if mark != "." and day <= 12 and day != month:
        language = lang.split("-", maxsplit=1)[0]
        # None: the language does not say, or no lang is given.
        month_first = lang in _MONTH_FIRST if lang and language not in _YEAR_AT_THE_END_IS_FOREIGN else None
        if month > 12 or month_first:
            day, month = month, day
        elif month_first is None:
            return None
    return _built(match, _full_year(match["year"]), month, day)


_KNOWN_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], date | None]], ...]] = (
    (_ISO_DATE, lambda match, _lang: date.fromisoformat(match[0])),
    (_ISO_DATETIME, lambda match, _lang: datetime.fromisoformat(match[0].replace(" Z", "Z"))),
    (_RFC_2822, lambda match, _lang: parsedate_to_datetime(match[0])),
    (_YEAR_FIRST, lambda match, _: _built(match, int(match["year"]), int(match["month"]), int(match["day"]))),
    (_YEAR_LAST, _year_last),
    (_WRITTEN, _written),
)


def _lettered(text: str, lang: str, work: Work | None) -> str | None:
    """Return a date with its month in letters, in any language. dateparser takes half a millisecond, and ten where it
    finds no date. But texts that differ in their numbers only are of one month, so it reads one of them, with numbers
    that can be told apart."""
    clock = _CLOCK.search(text)
    start, end = clock.span() if clock else (0, 0)
    others = [one for one in re.finditer(r"\d+", text) if not start <= one.start() < end]
    if len(others) != 2:
        return None
    # Of two short numbers the last is the year.
    day, year = sorted(others, key=lambda one: (len(one[0]), one.start()) if len(one[0]) > 2 else (0, one.start()))
    if len(day[0]) > 2 or len(year[0]) not in (2, 4) or (full_year := _full_year(year[0])) not in _YEARS:
        return None
    samples = [(year, str(_SAMPLE.year)[-len(year[0]) :])]
    if clock is not None:
        second = f":{_SAMPLE.second}" if clock["second"] else ""
        samples.append((clock, f"{_SAMPLE.hour}{clock['mark']}{_SAMPLE.minute}{second}"))
    # "1er mars": the letters may go with the day.
    for sample_day in (_SAMPLE.day, int(day[0])) if text[day.end() :][:1].isalpha() else (_SAMPLE.day,):
        sample = text
        for match, part in sorted([*samples, (day, str(sample_day))], key=lambda one: one[0].start(), reverse=True):
            sample = sample[: match.start()] + part + sample[match.end() :]
        moment = _moment(sample, lang, work)
        if moment is not None and (moment.year, moment.day) == (_SAMPLE.year, sample_day):
            return _with_numbers(text, moment, full_year, int(day[0]), clock)
    return None


def _with_numbers(text: str, moment: datetime, year: int, day: int, clock: re.Match[str] | None) -> str | None:
    """Return the moment that was read of the sample with the text's own numbers; None for the 30th of February, and
    where the sample's time was not read as it should be."""
    try:
        if clock is None:
            return moment.replace(year=year, day=day).date().isoformat()
        hour, is_afternoon = int(clock["hour"]), moment.hour == _SAMPLE.hour + 12
        if _HALF_DAY.search(text):
            if not 1 <= hour <= 12:
                return None
            hour = hour % 12 + 12 * is_afternoon
        if moment.minute != _SAMPLE.minute or (moment.hour != _SAMPLE.hour and not is_afternoon):
            return None
        minute, second = int(clock["minute"]), int(clock["second"] or 0)
        return moment.replace(year=year, day=day, hour=hour, minute=minute, second=second).isoformat()
    except (ValueError, OverflowError):
        return None


def _full_year(text: str) -> int:
    year = int(text)
    return year if len(text) > 2 else year + (1900 if year >= 69 else 2000)  # as POSIX has it


_moments: dict[tuple[str, str], datetime | None] = {}


def _moment(text: str, lang: str, work: Work | None) -> datetime | None:
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
    from dateparser.data.languages_info import language_locale_dict  # type: ignore[import-untyped]
    from dateparser.date import DateDataParser  # type: ignore[import-untyped]

    settings = {"REQUIRE_PARTS": ["day", "month", "year"], "PARSERS": ["custom-formats", "absolute-time"]}
    language, _, region = lang.partition("-")
    if f"{language}-{region.upper()}" in language_locale_dict.get(language, ()):
        return DateDataParser(locales=[f"{language}-{region.upper()}"], settings=settings)
    if language in language_locale_dict:
        return DateDataParser(languages=[language], settings=settings)
    return DateDataParser(languages=_LANGUAGES, settings=settings)


Scalar = str | int | float | bool

# Whole texts, lower case, without blanks and punctuation; schema.org's item availabilities are among them.
_TRUE: Final = """
    true yes y 1 on ✓ ✔ ja oui si sí sim tak da да evet ano kyllä igen はい 是
    available instock limitedavailability onlineonly instoreonly verfügbar lieferbar auflager vorrätig disponible
    enstock disponibile disponível emestoque opvoorraad dostępny skladem вналичии 在庫あり 有货
    """.split()
_FALSE: Final = """
    false no n 0 off ✗ ✘ nein non não nao nie nee нет hayır ei nem いいえ 否
    unavailable notavailable outofstock notinstock soldout discontinued nichtverfügbar nichtlieferbar nichtauflager
    nichtvorrätig ausverkauft indisponible nondisponible épuisé rupturedestock agotado sinstock nodisponible esaurito
    nondisponibile esgotado indisponível nietopvoorraad uitverkocht niedostępny vyprodáno нетвналичии
    在庫なし 品切れ 缺货
    """.split()
_TRUTH: Final = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)
_MAX_WORD_CHARS: Final = 200
_NOT_IN_WORDS: Final = re.compile(r"[\s_\-.!:]+|\([^()]*\)$")

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PATH_START: Final = re.compile(r"https?://|\.{0,2}/", re.IGNORECASE)
_MAIL: Final = re.compile(r"[\w.+-]+@[\w.-]+")
# Files end in two letters, too.
_HOST_START: Final = re.compile(
    r"www\.\w|(?:[\w-]+\.)+(?!(?:js|md|py|gz|ts|rb)(?:/|$))(?:com|net|org|edu|gov|info|[a-z]{2})(?:/|$)",
    re.IGNORECASE,
)

# Digits and marks of Arabic, Persian and Urdu.
_WESTERN: Final = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹٫٬", "01234567890123456789.’")
_MAX_NUMBER_CHARS: Final = 60
# A number with its label or its unit: "In stock (19 available)". With more words around it, it is part of a sentence.
_MAX_LETTERS_AROUND: Final = 30
# A float holds so many decimal digits for sure; with more it would show digits that the text does not have.
_MAX_FLOAT_DIGITS: Final = 15

_RUN: Final = re.compile(r"(?:(?<![\w.,])[.,])?\d(?:[\d.,'’ ]*\d)?")
_PLAIN: Final = re.compile(r"(?P<whole>\d*)(?:[.,](?P<fraction>\d+))?")
_GROUPED: Final = re.compile(
    r"(?P<whole>\d{1,3}(?P<mark>[ .,'’])\d{3}(?:(?P=mark)\d{3})*)(?:(?!(?P=mark))[.,](?P<fraction>\d+))?"
)
_INDIAN: Final = re.compile(r"(?P<whole>\d{1,2}(?:,\d{2})+,\d{3})(?:\.(?P<fraction>\d+))?")
# "1.299" is 1299 for a German and 1.299 for an Englishman.
_AMBIGUOUS: Final = re.compile(r"\d{1,3}[.,]\d{3}")
_POINT_LANGUAGES: Final = frozenset(
    "en zh ja ko th he iw hi bn ta te mr ar fa ur ms fil tl sw cy ga mt km my si ne am zu".split()
)
_POINT_LOCALES: Final = frozenset(
    "de-ch de-li fr-ch it-ch es-mx es-us es-pr es-gt es-hn es-ni es-pa es-sv es-do".split()
)
_COMMA_LOCALES: Final = frozenset("en-za ar-dz ar-ly ar-ma ar-tn".split())

# Of the same number, date, time or identifier; 4.5/5 is two numbers.
_DIGIT_BEFORE: Final = re.compile(r"\d[.,:-]?$|\d/\d+/$")
_DIGIT_BEHIND: Final = re.compile(r"[.,:-]?\d|/\d+/\d")

_CURRENCY: Final = "£$€¥₹₽₩₺₴₫₪฿₱"
_CODES: Final = (
    "eur usd gbp chf jpy cad aud nzd sek nok dkk isk pln czk huf ron bgn try rub uah inr cny rmb krw thb brl mxn zar"
    " ils sgd hkd twd us a c au ca nz hk nt r rs kr fr rm lei"
)
_PRICE: Final = re.compile(
    rf"[{_CURRENCY}]|\b(?:{'|'.join(one for one in _CODES.split() if len(one) == 3)})\b", re.IGNORECASE
)
# Letters may stand right before a number where they are a currency; else it is part of a name: "X200", "SKU-5".
_GLUED_CURRENCY: Final = re.compile(rf"(?:^|[^\w])(?:{'|'.join(_CODES.split())})\.?$", re.IGNORECASE)
_GLUED_NAME: Final = re.compile(r"\w[-\u2010\u2011.]?$")
_MINUS: Final = re.compile(rf"(?:^|[^\w\s]\s?|\s)[-\u2212]\s?[{_CURRENCY}]?\s?$")
_AMOUNT_UNIT: Final = re.compile(
    rf"(?:us|a|c|au|ca|nz|hk|nt|r|s)?\s?[{_CURRENCY}]|{'|'.join(one for one in _CODES.split() if len(one) == 3)}"
    r"|kr|fr|rs|rm|zł|kč|ft|lei|tl|euros?|dollars?|руб(?:\.|л[а-я]*)?|грн|円|元|원|บาท|रुपये"
    r"|[رد]\.\s?[سإبكمقع]\.?|ج\.\s?م\.?|ريال(?: سعودي)?|درهم|دينار|جنيه|ليرة|تومان|ریال|روپے"
)
_NAME_DIGITS: Final = 8
# "1.2 million" is not 1.2, and the zeros of 1,200,000 are not on the page.
_MULTIPLIER: Final = re.compile(
    r" ?(?:[kKMB万萬億亿](?![^\W\d_])|(?i:bn|mn|mio|mrd|mld|tsd|lakh|crore|thousand|[mbt]r?illi(?:on|ard)"
    r"|mill[oó]n|tausend|mille\b|тыс|млн|млрд"
    r"|مليون|مليار|ألف|آلاف|میلیون|میلیارد|هزار|लाख|करोड़))"
)
# "1.299,-": no cents.
_NO_CENTS: Final = re.compile(r"[.,]\s?[-\u2013\u2014]")

# What stands where a page has no value of a field.
_NO_VALUES: Final = frozenset(
    "|n/a|none|not specified|unspecified|not set|unassigned|nobody|tbd|k.a|k. a|keine angabe|nicht zugewiesen"
    "|nicht angegeben|aucun|aucune|non assigné|non attribué|non renseigné|personne|ninguno|ninguna"
    "|sin asignar|no especificado|nessuno|non assegnato|geen|nenhum|brak".split("|")
)


def typed(
    raw: str, field_type: FieldType | None, *, base_url: str = "", lang: str = "", work: Work | None = None
) -> Scalar | None:
    """Return the value of a text: dates as ISO 8601, urls absolute, numbers without currency and thousands separators.

    A number may have its label or unit around it ("3 left"), not a sentence. A truth value is the whole text ("In stock
    (19)" is one). `lang` is the page's language tag: it tells 3/4/2024 of March from that of April, and 1.299 from
    1299. An untyped text is a string, its lines kept and the white space in them folded. Raises TooCostly as
    `read_date`."""
    text = raw.strip()
    if text.strip(" .-–—()[]").casefold() in _NO_VALUES:
        return None
    if field_type in (None, "string"):
        return "\n".join(line for line in map(fold, text.splitlines()) if line)
    text, lang = fold(text), lang.strip().replace("_", "-").lower()
    match field_type:
        case "date":
            return read_date(text, lang, work)
        case "url":
            return _url(text, base_url)
        case "boolean":
            if text.startswith(("http://schema.org/", "https://schema.org/")):
                text = text.rsplit("/", 1)[-1]
            return _TRUTH.get(_NOT_IN_WORDS.sub("", text.lower())) if len(text) <= _MAX_WORD_CHARS else None
    value = read_number(text, lang)
    if field_type == "integer" and value is not None:
        return int(value) if value == int(value) else None
    return value


@lru_cache(maxsize=4096)
def fits(raw: str, field_type: FieldType | None) -> bool:
    """Tell whether a text can be a value of a type, on whatever page it stands."""
    return typed(raw, field_type, base_url="http://page.invalid/", lang="en") is not None


def is_cut(text: str, start: int, end: int) -> bool:
    """Tell whether a part of a text that begins or ends with a digit is a piece of a longer number, or of a date."""
    before, part, after = text[:start], text[start:end], text[end:]
    if (part[:1].isdigit() and _DIGIT_BEFORE.search(before)) or (part[-1:].isdigit() and _DIGIT_BEHIND.match(after)):
        return True
    if not part.isdigit():
        return False
    dates = (match for form, _ in _KNOWN_FORMS for match in form.finditer(text))
    return any(match.start() <= start and end <= match.end() for match in dates)


def _url(text: str, base_url: str) -> str | None:
    """Return an absolute web address, or one of mail or telephone; a word or a price is none, though a browser would
    take it."""
    if len(text) > MAX_URL_LENGTH or text.isalpha() or text.startswith("#") or _MAIL.fullmatch(text):
        return None
    if "/" not in text and any(category(sign) == "Sc" for sign in text):
        return None
    if " " in text:
        if not _PATH_START.match(text):
            return None
        text = text.replace(" ", "%20")  # as browsers do
    if text.lower().startswith(("mailto:", "tel:")):
        return text if len(text.partition(":")[2]) > 1 else None
    if _HOST_START.match(text) and not _SCHEME.match(text):
        text = f"//{text}"
    try:
        url = urljoin(base_url, text)
        parts = urlsplit(url)
        return url if parts.scheme in ("http", "https", "ftp") and parts.hostname else None
    except ValueError:
        return None


def read_number(text: str, lang: str = "") -> int | float | None:
    """Return the number of a text with one number in it, white space folded: "£1,299.00", "1.299,00 €", "3 left".

    None where there are several, where it is part of a name or a sentence, or has a multiplier ("1.2K"). Whole numbers
    without decimals are int. Where "1.299" can be read in two ways, `lang` decides; without it, and without a currency,
    a comma marks thousands and a point decimals, as machines write."""
    read = _read_numeral(text, lang)
    if read is None:
        return None
    whole, fraction, is_negative = read
    if fraction is None:
        value: int | float = int(whole)
    elif len((whole + fraction).strip("0")) > _MAX_FLOAT_DIGITS:
        return None
    else:
        value = float(f"{whole or 0}.{fraction}")
    return -value if is_negative else value


def read_decimal(text: str) -> str | None:
    """Return the number that `read_number` reads with all of its digits, as "1299.00"; None for one below zero."""
    read = _read_numeral(text, "")
    if read is None or read[2]:
        return None
    whole, fraction, _ = read
    whole = whole.lstrip("0") or "0"
    return whole if fraction is None else f"{whole}.{fraction}"


def _read_numeral(text: str, lang: str) -> tuple[str, str | None, bool] | None:
    """Return the digits before the decimal mark and behind it (None without one), and whether it is below zero."""
    if len(text) > _MAX_NUMBER_CHARS:
        return None
    text = text.translate(_WESTERN)
    runs = list(_RUN.finditer(text))
    if len(runs) != 1:
        return None
    numeral, before, after = runs[0][0], text[: runs[0].start()], text[runs[0].end() :]
    is_named = _GLUED_NAME.search(before) and not _GLUED_CURRENCY.search(before)
    if sum(map(str.isalpha, before + after)) > _MAX_LETTERS_AROUND or is_named or _MULTIPLIER.match(after):
        return None
    is_price = bool(_PRICE.search(f"{before} {after}"))
    if " " in numeral and "," not in numeral and not is_price and any(map(str.isalpha, before)):
        return None  # "Model 15 128 GB": two numbers side by side
    grouped = _GROUPED.fullmatch(numeral) or _INDIAN.fullmatch(numeral)
    if _AMBIGUOUS.fullmatch(numeral):
        # The mark that makes decimals where three digits follow; "-" where none does.
        language = lang.split("-", maxsplit=1)[0]
        if cents := _NO_CENTS.match(after):
            decimal_mark = cents[0][0]
        elif not lang:
            decimal_mark = "-" if is_price else "."
        elif (language in _POINT_LANGUAGES or lang in _POINT_LOCALES) and lang not in _COMMA_LOCALES:
            decimal_mark = "."
        else:
            decimal_mark = ","
        if numeral.startswith("0") or decimal_mark in numeral:
            grouped = None
    match = grouped or _PLAIN.fullmatch(numeral)
    return match and (re.sub(r"\D", "", match["whole"]), match["fraction"], bool(_MINUS.search(before)))


def read_amount(text: str, lang: str = "") -> tuple[int | float, str] | None:
    """Return the number that a text is and its currency, "" for none: "£1,299.00", "12", "9.99 EUR".

    None where the text says more than that ("3 left", "5 kg", "20%") or is likely a name: with a zero before other
    digits, or of eight digits and more without any mark."""
    text = fold(text).translate(_WESTERN)
    value = read_number(text, lang)
    if value is None:
        return None
    numeral = next(_RUN.finditer(text))[0]
    if re.match(r"0\d", numeral) or (numeral.isdigit() and len(numeral) >= _NAME_DIGITS and numeral == text):
        return None
    currency = text.replace(numeral, "", 1).strip(" +-\u2212\u2013\u2014.,").casefold()
    return (value, currency) if not currency or _AMOUNT_UNIT.fullmatch(currency) else None
