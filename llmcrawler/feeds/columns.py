"""Columns of a table: a dataclass says what they are, so that they are the same in every file of every crawl."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from llmcrawler.feeds.values import as_json

Kind = Literal["text", "integer", "number", "flag", "json", "struct"]
_KINDS: Mapping[Any, Kind] = {str: "text", int: "integer", float: "number", bool: "flag"}
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Column:
    """`parts` of a struct; others have none. A json column holds JSON text."""

    name: str
    kind: Kind
    parts: tuple[Column, ...] = ()


def columns_of(item_class: type) -> tuple[Column, ...]:
    hints = get_type_hints(item_class)
    return tuple(_column(one.name, hints[one.name]) for one in fields(item_class))


def text_columns(names: Collection[str]) -> tuple[Column, ...]:
    """Of items that say nothing about their types."""
    return tuple(Column(name, "text") for name in names)


def fitted(column: Column, value: Any) -> Any:
    """A clean value as its column has it. Raises ValueError for one that the column can't say."""
    if value is None:
        return None
    match column.kind:
        case "json":
            return as_json(value)
        case "text":
            return value if isinstance(value, str) else as_json(value)
        case "flag" if isinstance(value, bool):
            return value
        case "integer" if isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64:
            return value
        case "number" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        case "struct" if isinstance(value, dict):
            return {part.name: fitted(part, value.get(part.name)) for part in column.parts}
    raise ValueError(f"{column.name} is no {column.kind}: {value!r:.100}")


def _column(name: str, hint: Any) -> Column:
    if get_origin(hint) in (Union, types.UnionType):
        others = [one for one in get_args(hint) if one is not types.NoneType]
        hint = others[0] if len(others) == 1 else object
    if is_dataclass(hint) and isinstance(hint, type):
        return Column(name, "struct", columns_of(hint))
    return Column(name, _KINDS.get(hint, "json"))
