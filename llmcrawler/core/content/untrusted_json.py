"""Reads JSON from a server that may be broken or hostile, within known bounds of time and memory."""

from __future__ import annotations

import json
import math
from typing import Any

# What JSON costs goes by its values, and each of them stands after one of these. 20,000 take at most
# some 25 ms and 5 MB; the longest answer that a model is asked for has about 5,000.
_BEFORE_VALUES = ",[{"
MAX_VALUES = 20_000
_QUOTES_A_VALUE = 4  # of a key and of the value

# The time for a number grows with the square of its digits. A longer one says nothing that anybody asks for.
_MAX_DIGITS = 20


def _fraction(digits: str) -> float | None:
    number = float(digits) if len(digits) <= _MAX_DIGITS else math.inf
    return number if math.isfinite(number) else None


# Numbers that are no JSON (NaN, Infinity), or too long or too large to be meant, read as null.
_DECODER = json.JSONDecoder(
    parse_int=lambda digits: int(digits) if len(digits) <= _MAX_DIGITS else None,
    parse_float=_fraction,
    parse_constant=lambda _: None,
)


def is_too_much(text: str, max_values: int = MAX_VALUES) -> bool:
    """Tell whether JSON in `text` could have more than `max_values` values. Strings are counted too, so the true number
    is never higher than what is counted.
    """
    return sum(map(text.count, _BEFORE_VALUES)) > max_values or text.count('"') > _QUOTES_A_VALUE * max_values


def value_at(text: str, position: int) -> tuple[Any, int]:
    """Return the value that begins at `position`, and where it ends. Raises ValueError, also if it nests too deep."""
    try:
        return _DECODER.raw_decode(text, position)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None


def loads(body: bytes, max_values: int = MAX_VALUES) -> Any:
    """Parse a whole body, which is UTF-8 whatever its headers say. Raises ValueError."""
    text = body.decode("utf-8-sig", "replace")
    if is_too_much(text, max_values):
        raise ValueError(f"the JSON may hold more than {max_values:,} values")
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None
