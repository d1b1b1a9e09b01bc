"""Values that any form can hold, whatever a page, a model or a stage has put there."""

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
    """The same as JSON can say it and UTF-8 can carry it: numbers are finite, text has no halves of surrogate pairs,
    and nothing is nested deeper than `depth`.
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
    if text.isascii():  # Python knows it without a look at the text
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two halves that belong together become the one character, others a replacement character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def as_json(value: Any) -> str:
    """Of clean values."""
    return json.dumps(value, ensure_ascii=False)


def flatten(name: str, value: Any) -> dict[str, Any]:
    """{"record": {"price": {"amount": 1}, "tags": ["a"]}} as {"record.price.amount": 1, "record.tags": '["a"]'}: one
    level, scalars only. Of clean values. Names that become too long for that end in JSON.
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
