"""Puts the offers of a thing into one: its lowest price, the range of prices, and all of them where there are more."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

Offer = dict[str, Any]

_SHARED: Final = ("availability", "itemCondition", "priceValidUntil", "seller", "url", "priceCurrency")


def in_one(offers: Sequence[Offer]) -> Offer | None:
    """Return the only offer as it is; of several what they share, `price` and `lowPrice` being the lowest in the first
    one's currency, `availability` what can be had at all, and under `offers` all of them. A range has its lowest price
    as `price` too.
    """
    given = [one for offer in offers for one in _taken_apart(offer)]
    if not given:
        return None
    if len(given) == 1:
        only = given[0]
        low = only.get("lowPrice") or only.get("minPrice")
        return {"price": low, **only} if low and "price" not in only else only
    found: Offer = {}
    for name in _SHARED:
        values = [one[name] for one in given if name in one]
        if (
            values
            and (len(values) == len(given) or name == "priceCurrency")
            and all(one == values[0] for one in values)
        ):
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


def _taken_apart(offer: Offer) -> list[Offer]:
    """Return the offers that an AggregateOffer lists; it itself where it lists none, or says more of them."""
    inner = offer.get("offers")
    if not isinstance(inner, dict):
        return [offer] if offer else []
    if "price" not in inner and "offers" not in inner:
        return [inner | offer]
    return list(inner.get("offers", [inner]))
