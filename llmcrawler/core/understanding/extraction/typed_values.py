"""Reads typed values from the texts of a page. What is no value of its type is None: nothing is invented."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category
from urllib.parse import urljoin, urlsplit

from llmcrawler.core.understanding.extraction.dates import read_date
from llmcrawler.core.understanding.extraction.extractor import FieldType
from llmcrawler.core.understanding.extraction.tree import Work, fold
from llmcrawler.core.urls import MAX_URL_LENGTH

Scalar = str | int | float | bool

# Whole texts, lower case, without blanks and punctuation; schema.org's item availabilities are among them.
_TRUE: Final = frozenset(
    """
    true yes y 1 on ✓ ✔ ja oui si sí sim tak da да evet ano kyllä igen はい 是
    available instock limitedavailability onlineonly instoreonly verfügbar lieferbar auflager vorrätig disponible
    enstock disponibile disponível emestoque opvoorraad dostępny skladem вналичии 在庫あり 有货
    """.split()
)
_FALSE: Final = frozenset(
    """
    false no n 0 off ✗ ✘ nein non não nao nie nee нет hayır ei nem いいえ 否
    unavailable notavailable outofstock notinstock soldout discontinued nichtverfügbar nichtlieferbar nichtauflager
    nichtvorrätig ausverkauft indisponible nondisponible épuisé rupturedestock agotado sinstock nodisponible esaurito
    nondisponibile esgotado indisponível nietopvoorraad uitverkocht niedostępny vyprodáno нетвналичии
    在庫なし 品切れ 缺货
    """.split()
)
_MAX_WORD_CHARS: Final = 200
_NOT_IN_WORDS: Final = re.compile(r"[\s_\-.!:]+|\([^()]*\)$")

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PATH_START: Final = re.compile(r"https?://|\.{0,2}/", re.IGNORECASE)
_MAIL: Final = re.compile(r"[\w.+-]+@[\w.-]+")
_HOST_START: Final = re.compile(r"www\.\w|[\w-]+\.(?:com|net|org|edu|gov)(?:/|$)", re.IGNORECASE)

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
    "en zh ja ko th he iw hi bn ta te mr ur ms fil tl sw cy ga mt km my si ne am zu".split()
)
_POINT_LOCALES: Final = frozenset(
    "de-ch de-li fr-ch it-ch es-mx es-us es-pr es-gt es-hn es-ni es-pa es-sv es-do".split()
)
_COMMA_LOCALES: Final = frozenset(["en-za"])

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
    r"|kr|fr|rs|rm|zł|kč"
)
_NAME_DIGITS: Final = 8
# "1.2 million" is not 1.2, and the zeros of 1,200,000 are not on the page.
_MULTIPLIER: Final = re.compile(
    r" ?(?:[kKMB万萬億亿](?![^\W\d_])|(?i:bn|mn|mio|mrd|mld|tsd|lakh|crore|thousand|[mbt]r?illi(?:on|ard)"
    r"|mill[oó]n|tausend|mille\b|тыс|млн|млрд))"
)
# "1.299,-": no cents.
_NO_CENTS: Final = re.compile(r"[.,]\s?[-\u2013\u2014]")


def typed(
    raw: str, field_type: FieldType | None, *, base_url: str = "", lang: str = "", work: Work | None = None
) -> Scalar | None:
    """Return the value of a text: dates as ISO 8601, urls absolute, numbers without currency and thousands separators.

    A number may have its label or unit around it ("3 left"), not a sentence. A truth value is the whole text ("In stock
    (19)" is one). `lang` is the page's language tag: it tells 3/4/2024 of March from that of April, and 1.299 from
    1299. An untyped text is a string, its lines kept and the white space in them folded. Raises TooCostly as
    `read_date`.
    """
    text = raw.strip()
    if not text:
        return None
    if field_type in (None, "string"):
        return "\n".join(line for line in map(fold, text.splitlines()) if line) or None
    text, lang = fold(text), lang.strip().replace("_", "-").lower()
    match field_type:
        case "date":
            return read_date(text, lang, work)
        case "url":
            return _url(text, base_url)
        case "boolean":
            return _boolean(text)
    value = read_number(text, lang)
    if field_type == "integer" and value is not None:
        return int(value) if value == int(value) else None
    return value


def fits(raw: str, field_type: FieldType | None) -> bool:
    """Tell whether a text can be a value of a type, on whatever page it stands."""
    return typed(raw, field_type, base_url="http://page.invalid/", lang="en") is not None


def _boolean(text: str) -> bool | None:
    if len(text) > _MAX_WORD_CHARS:
        return None
    word = text.rsplit("/", 1)[-1] if text.startswith(("http://schema.org/", "https://schema.org/")) else text
    word = _NOT_IN_WORDS.sub("", word.lower())
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def _url(text: str, base_url: str) -> str | None:
    """Return an absolute web address, or one of mail or telephone; a word or a price is none, though a browser would
    take it.
    """
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
    without decimals are int. Where "1.299" can be read in two ways, `lang` decides; without it, and without a
    currency, a comma marks thousands and a point decimals, as machines write.
    """
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
    runs = list(_RUN.finditer(text))
    if len(runs) != 1:
        return None
    numeral, before, after = runs[0][0], text[: runs[0].start()], text[runs[0].end() :]
    if sum(map(str.isalpha, before + after)) > _MAX_LETTERS_AROUND or _is_named(before) or _MULTIPLIER.match(after):
        return None
    is_price = bool(_PRICE.search(f"{before} {after}"))
    if " " in numeral and "," not in numeral and not is_price and any(map(str.isalpha, before)):
        return None  # "Model 15 128 GB": two numbers side by side
    cents = _NO_CENTS.match(after)
    parts = _parts_of(numeral, cents[0][0] if cents else _decimal_mark(lang, is_price=is_price))
    return None if parts is None else (*parts, bool(_MINUS.search(before)))


def read_amount(text: str, lang: str = "") -> tuple[int | float, str] | None:
    """Return the number that a text is and its currency, "" for none: "£1,299.00", "12", "9.99 EUR".

    None where the text says more than that ("3 left", "5 kg", "20%") or is likely a name: with a zero before other
    digits, or of eight digits and more without any mark.
    """
    text = fold(text)
    value = read_number(text, lang)
    if value is None:
        return None
    numeral = next(_RUN.finditer(text))[0]
    if re.match(r"0\d", numeral) or (numeral.isdigit() and len(numeral) >= _NAME_DIGITS and numeral == text):
        return None
    currency = text.replace(numeral, "", 1).strip(" +-\u2212\u2013\u2014.,").casefold()
    return (value, currency) if not currency or _AMOUNT_UNIT.fullmatch(currency) else None


def _is_named(before: str) -> bool:
    return bool(_GLUED_NAME.search(before)) and not _GLUED_CURRENCY.search(before)


def _parts_of(numeral: str, decimal_mark: str) -> tuple[str, str | None] | None:
    grouped = _GROUPED.fullmatch(numeral) or _INDIAN.fullmatch(numeral)
    if _AMBIGUOUS.fullmatch(numeral) and (numeral.startswith("0") or decimal_mark in numeral):
        grouped = None
    match = grouped or _PLAIN.fullmatch(numeral)
    if match is None:
        return None
    return re.sub(r"\D", "", match["whole"]), match["fraction"]


def _decimal_mark(lang: str, *, is_price: bool) -> str:
    """Return the mark that makes decimals where three digits follow; "-" where none does."""
    if not lang:
        return "-" if is_price else "."
    language = lang.split("-", maxsplit=1)[0]
    is_point = (language in _POINT_LANGUAGES or lang in _POINT_LOCALES) and lang not in _COMMA_LOCALES
    return "." if is_point else ","
