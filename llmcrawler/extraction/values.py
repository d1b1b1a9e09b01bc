"""Typed values from the texts of a page. What is no value of its type is None: nothing is invented."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

from llmcrawler.extraction.dates import read_date
from llmcrawler.extraction.model import FieldType
from llmcrawler.extraction.numbers import read_number
from llmcrawler.extraction.tree import fold
from llmcrawler.extraction.work import Work
from llmcrawler.urls import MAX_URL_LENGTH

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


def typed(
    raw: str, field_type: FieldType | None, *, base_url: str = "", lang: str = "", work: Work | None = None
) -> Scalar | None:
    """The value of a text: dates as ISO 8601, urls absolute, numbers without currency and thousands separators.

    A number may have its label or unit around it ("3 left"), not a sentence. A truth value is the whole text ("In stock
    (19)" is one). `lang` is the page's language tag: it tells 3/4/2024 of March from that of April, and 1.299 from
    1299. An untyped text is a string, its lines kept and the white space in them folded. Raises TooCostly as
    `read_date`.
    """
    text = raw.strip()
    if not text:
        return None
    match field_type:
        case "date":
            return read_date(fold(text), _tag(lang), work)
        case "url":
            return _url(fold(text), base_url)
        case "number":
            return read_number(fold(text), _tag(lang))
        case "integer":
            return _integer(fold(text), _tag(lang))
        case "boolean":
            return _boolean(fold(text))
    return _string(text)


def fits(raw: str, field_type: FieldType | None) -> bool:
    """Whether a text can be a value of a type, on whatever page it stands."""
    return typed(raw, field_type, base_url="http://page.invalid/", lang="en") is not None


def _tag(lang: str) -> str:
    return lang.strip().replace("_", "-").lower()


def _string(text: str) -> str | None:
    return "\n".join(line for line in (fold(line) for line in text.splitlines()) if line) or None


def _integer(text: str, lang: str) -> int | None:
    value = read_number(text, lang)
    return int(value) if value is not None and value == int(value) else None


def _boolean(text: str) -> bool | None:
    if len(text) > _MAX_WORD_CHARS:
        return None
    word = text.rsplit("/", 1)[-1] if text.startswith(("http://schema.org/", "https://schema.org/")) else text
    word = _NOT_IN_WORDS.sub("", word.lower())
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def _url(text: str, base_url: str) -> str | None:
    """An absolute web address, or one of mail or telephone. A word is no address, though a browser would take it."""
    if len(text) > MAX_URL_LENGTH or text.isalpha() or text.startswith("#") or _MAIL.fullmatch(text):
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
