"""Numbers as people write them: one number in a text, its separators read as the page's language has them."""

from __future__ import annotations

import re
from typing import Final

_MAX_CHARS: Final = 60
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
# "1.2 million" is not 1.2, and the zeros of 1,200,000 are not on the page.
_MULTIPLIER: Final = re.compile(
    r" ?(?:[kKMB万萬億亿](?![^\W\d_])|(?i:bn|mn|mio|mrd|mld|tsd|lakh|crore|thousand|[mbt]r?illi(?:on|ard)"
    r"|mill[oó]n|tausend|mille\b|тыс|млн|млрд))"
)
# "1.299,-": no cents.
_NO_CENTS: Final = re.compile(r"[.,]\s?[-\u2013\u2014]")


def read_number(text: str, lang: str = "") -> int | float | None:
    """The number of a text with one number in it, white space folded: "£1,299.00", "1.299,00 €", "-5 %", "3 left".

    None where there are several, where it is part of a name or a sentence, or has a multiplier ("1.2K"). Whole numbers
    without decimals are int. Where "1.299" can be read in two ways, `lang` decides; without it, and without a
    currency, a comma marks thousands and a point decimals, as machines write.
    """
    if len(text) > _MAX_CHARS:
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
    value = _value(numeral, cents[0][0] if cents else _decimal_mark(lang, is_price=is_price))
    return -value if value is not None and _MINUS.search(before) else value


def _is_named(before: str) -> bool:
    return bool(_GLUED_NAME.search(before)) and not _GLUED_CURRENCY.search(before)


def _value(numeral: str, decimal_mark: str) -> int | float | None:
    grouped = _GROUPED.fullmatch(numeral) or _INDIAN.fullmatch(numeral)
    if _AMBIGUOUS.fullmatch(numeral) and (numeral.startswith("0") or decimal_mark in numeral):
        grouped = None
    match = grouped or _PLAIN.fullmatch(numeral)
    if match is None:
        return None
    whole, fraction = re.sub(r"\D", "", match["whole"]), match["fraction"]
    if fraction is None:
        return int(whole)
    if len((whole + fraction).strip("0")) > _MAX_FLOAT_DIGITS:
        return None
    return float(f"{whole or 0}.{fraction}")


def _decimal_mark(lang: str, *, is_price: bool) -> str:
    """The mark that makes decimals where three digits follow; "-" where none does."""
    if not lang:
        return "-" if is_price else "."
    language = lang.split("-", maxsplit=1)[0]
    is_point = (language in _POINT_LANGUAGES or lang in _POINT_LOCALES) and lang not in _COMMA_LOCALES
    return "." if is_point else ","
