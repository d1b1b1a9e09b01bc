"""Makes values of pages, models and stages such that every feed format can hold them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

MAX_DEPTH: Final = 100  # of values in values; what lies deeper is left out
_MAX_BITS = 10_000  # of a number; Python writes none of more than 4,300 digits
_MAX_NAME_CHARS = 200  # from which on a flat name gets no further parts


def clean(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the value as JSON can say it and UTF-8 can carry it: finite numbers, text without halves of surrogate
    pairs, and nothing nested deeper than `depth`.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_BITS else None
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(name)): clean(one, depth - 1) for name, one in value.items()} if depth else None
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(one, depth - 1) for one in value] if depth else None
    return clean_text(str(value))


def clean_text(text: str) -> str:
    """Join halves of surrogate pairs that belong together; replace the others with U+FFFD."""
    if text.isascii():  # Python knows it without a look at the text
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def as_json(value: Any) -> str:
    """Return a clean value as JSON text."""
    return json.dumps(value, ensure_ascii=False)


def flatten(name: str, value: Any) -> dict[str, Any]:
    """Flatten a clean value to one level of scalars: {"price": {"amount": 1}, "tags": ["a"]}, called "record", becomes
    {"record.price.amount": 1, "record.tags": '["a"]'}. Where names would become too long, the rest is JSON.
    """
    flat: dict[str, Any] = {}
    _flatten(name, value, flat, Counter())
    return flat


def _flatten(name: str, value: Any, flat: dict[str, Any], taken: Counter[str]) -> None:
    if isinstance(value, dict) and (len(name) <= _MAX_NAME_CHARS or not value):
        for part, one in value.items():
            _flatten(f"{name}.{part}", one, flat, taken)
        return
    free = name
    while free in flat:  # {"a.b": 1, "a": {"b": 2}}
        taken[name] += 1
        free = f"{name}_{taken[name] if taken[name] > 1 else ''}"
    flat[free] = as_json(value) if isinstance(value, (dict, list)) else value
