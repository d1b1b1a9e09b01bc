"""Reads what is written in codes: currencies, article numbers, durations, the members of schema.org's enumerations."""

from __future__ import annotations

import re
from typing import Final

from llmcrawler.core.understanding.extraction.typed_values import typed

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

_TERM: Final = re.compile(r"(?:https?://(?:www\.)?schema\.org/|schema:)(\w+)/?\Z", re.IGNORECASE)
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
    """Return the digits of a global trade item number whose check digit is right."""
    digits = re.sub(r"[\s-]", "", text[:60])
    if not (digits.isascii() and digits.isdigit()) or len(digits) not in _GTIN_LENGTHS or not digits.strip("0"):
        return None
    total = sum(int(digit) * (3 if at % 2 == 0 else 1) for at, digit in enumerate(reversed(digits[:-1])))
    return digits if (total + int(digits[-1])) % 10 == 0 else None


def term(text: str) -> str:
    """Return the name of a member of an enumeration that is given by its address, else the text."""
    match = _TERM.match(text)
    return match[1] if match else text


def choice(text: str) -> str | None:
    """Return schema.org's name of an availability, a condition, an event's state; other words as they stand."""
    name = term(text)
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
