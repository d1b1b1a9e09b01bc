"""Shapes records: fields as a JSON Schema, flat values as a nested record, and what two answers agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llmcrawler.core.understanding.extraction.extractor import Field, FieldType

# A date may have a time, which the format "date" would refuse.
_TYPE_DETAILS: Final[Mapping[str, dict[str, str]]] = {
    "url": {"format": "uri"},
    "date": {"pattern": r"^\d{4}-\d{2}-\d{2}"},
}
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class RequestedSchema:
    """The record that a user asks for: the schema as the model is shown it, its fields, and the page types that it is
    for (none: all that have records)."""

    schema: Mapping[str, Any]
    fields: tuple[Field, ...]
    page_types: tuple[str, ...] = ()


def schema_of(fields: Sequence[Field], title: str = "") -> dict[str, Any]:
    """Return the JSON Schema of a record of these fields: every property may be null, there are no others."""
    properties: dict[str, Any] = {}
    names = {one.name for one in fields if not one.group}
    for one in fields:
        if one.group in names:  # one answer of the model had a field where another had a group
            continue
        inner = properties
        if one.group:
            *parents, last = one.group.split(".")
            rows = {"type": ["array", "null"], "items": _object()}
            inner = _within(properties, parents).setdefault(last, rows)["items"]["properties"]
        *parents, last = one.name.split(".")
        _within(inner, parents)[last] = _property(one)
    schema = {"$schema": _DIALECT, **_object(properties)}
    return {**schema, "title": title} if title else schema


def _object(properties: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, "additionalProperties": False}


def _within(properties: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The properties of the object at a path, which is made where there is none."""
    for part in path:
        properties = properties.setdefault(part, _object())["properties"]
    return properties


def _property(one: Field) -> dict[str, Any]:
    shape = {} if one.type is None else _scalar(one.type, nullable=not one.many)  # None: the model will say
    if one.many:
        shape = {"type": ["array", "null"], "items": shape}
    return {**shape, "description": one.description} if one.description else shape


def _scalar(kind: FieldType, *, nullable: bool) -> dict[str, Any]:
    plain = "string" if kind in ("date", "url") else kind
    return {"type": [plain, "null"] if nullable else plain, **_TYPE_DETAILS.get(kind, {})}


def assemble(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with every field, null where `values` has none: an empty list is null too, as nothing was found.

    `values` are by key; those of a group stand under its name, as a list of objects whose values are by field name.
    """
    record: dict[str, Any] = {}
    for one in fields:
        if not one.group:
            value = values.get(one.key)
            _put(record, one.name, None if value == [] else value)
    for group in dict.fromkeys(one.group for one in fields if one.group):
        rows: list[dict[str, Any]] = []
        for given in values.get(group) or ():
            rows.append({})
            for one in fields:
                if one.group == group:
                    _put(rows[-1], one.name, given.get(one.name))
        _put(record, group, rows or None)
    return record


def completed(fields: Sequence[Field], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with exactly these fields: null where it has none, also in the objects of its lists."""
    shape = assemble(fields, {one.group: [{}] for one in fields if one.group})
    filled: dict[str, Any] = _filled(shape, record)
    return filled


def filled_up(record: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with what another one of the same page has in the place of its nulls."""
    filled = dict(record)
    for name, value in more.items():
        known = filled.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            filled[name] = filled_up(known, value)
        elif known is None:
            filled[name] = value
    return filled


def _filled(shape: Any, value: Any) -> Any:
    if isinstance(shape, dict):
        inner = value if isinstance(value, Mapping) else {}
        return {name: _filled(part, inner.get(name)) for name, part in shape.items()}
    if isinstance(shape, list):
        return [_filled(shape[0], one) for one in value] if isinstance(value, list) and value else None
    return value


def _put(record: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        inner = record.get(part)
        if not isinstance(inner, dict):
            inner = record[part] = {}
        record = inner
    record[last] = value


def reconcile(known: Sequence[Field], more: Sequence[Field]) -> tuple[Field, ...]:
    """Merge the fields of two answers about one template: a list if either says so, of a type that holds both."""
    merged = {one.key: one for one in known}
    for one in more:
        old = merged.get(one.key, one)
        kind = wider_type(old.type, one.type)
        merged[one.key] = Field(old.name, kind, old.many or one.many, old.description or one.description, old.group)
    return tuple(merged.values())


def wider_type(one: FieldType | None, other: FieldType | None) -> FieldType | None:
    """Return the type that holds the values of both. None says nothing of it, so the other's holds."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    return "number" if {one, other} == {"integer", "number"} else "string"
