"""Values that any form can hold, whatever a page, a model or a stage has put there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def clean(value: Any) -> Any:
    """The same as JSON can say it and UTF-8 can carry it: numbers are finite, text has no halves of surrogate pairs."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(name)): clean(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(one) for one in value]
    return clean_text(str(value))


def clean_text(text: str) -> str:
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
    level, scalars only. Of clean values.
    """
    flat: dict[str, Any] = {}
    _flatten(name, value, flat)
    return flat


def _flatten(name: str, value: Any, flat: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for part, one in value.items():
            _flatten(f"{name}.{part}", one, flat)
        return
    while name in flat:  # {"a.b": 1, "a": {"b": 2}}
        name += "_"
    flat[name] = as_json(value) if isinstance(value, list) else value
