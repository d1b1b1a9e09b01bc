"""The shape of records: a user's JSON Schema as fields, and learned fields as a JSON Schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from llmcrawler.errors import ConfigError
from llmcrawler.extraction.model import FIELD_TYPES, Field, FieldType

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NAME: Final = re.compile(r"[A-Za-z_][\w-]{0,63}")
_FORMATS: Final[dict[str, FieldType]] = {
    "date": "date",
    "date-time": "date",
    "uri": "url",
    "uri-reference": "url",
    "iri": "url",
    "url": "url",
}
# The narrower type first: of two answers for one field the wider one holds for both.
_WIDTH: Final[dict[FieldType | None, int]] = {
    None: 0,
    "boolean": 1,
    "integer": 2,
    "number": 3,
    "date": 4,
    "url": 5,
    "string": 6,
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user asks for: the schema as the model is shown it, its fields, and the page types that it is for (none:
    all that have records)."""

    schema: Mapping[str, Any]
    fields: tuple[Field, ...]
    page_types: tuple[str, ...] = ()


def wanted_fields(text: str) -> Wanted:
    """From the quick form `title,price:number,tags[]`. Raises ConfigError."""
    fields: dict[str, Field] = {}
    for part in (one.strip() for one in text.split(",")):
        name, _, kind = part.partition(":")
        many = name.endswith("[]") or kind.endswith("[]")
        name, kind = name.removesuffix("[]").strip(), kind.removesuffix("[]").strip()
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"fields={text!r}: {name!r} is no name of a field; write them as fields=title,price:number"
            )
        if kind and kind not in FIELD_TYPES:
            raise ConfigError(f"fields={text!r}: {kind!r} is no type; there are {', '.join(FIELD_TYPES)}")
        if name in fields:
            raise ConfigError(f"fields={text!r}: {name!r} stands there twice")
        fields[name] = Field(name, next((one for one in FIELD_TYPES if one == kind), None), many)
    return Wanted(schema_of(tuple(fields.values())), tuple(fields.values()))


def load_schema(path: Path) -> Wanted:
    """From a file with the JSON Schema of an object. `x-page-types` in it says for which page types it is meant.

    Raises ConfigError, which names the place in the file, for what is no schema of a record.
    """
    try:
        schema = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"schema={path}: cannot be read: {error}") from error
    except ValueError as error:
        raise ConfigError(f"schema={path}: is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f'schema={path}: is not a JSON Schema: an object with "properties" is wanted')
    fields = tuple(_Reader(path, schema).read())
    page_types = schema.get("x-page-types", [])
    if not isinstance(page_types, list) or not all(isinstance(one, str) for one in page_types):
        raise ConfigError(f"schema={path}: x-page-types is not a list of page types")
    return Wanted(schema, fields, tuple(page_types))


class _Reader:
    """The fields of a user's schema."""

    def __init__(self, path: Path, schema: Mapping[str, Any]) -> None:
        self._path = path
        self._schema = schema

    def read(self) -> list[Field]:
        return self._properties(self._schema, "", "", ())

    def _fail(self, where: str, what: str) -> ConfigError:
        return ConfigError(f"schema={self._path}: {where or 'at the top'}: {what}")

    def _properties(self, schema: Mapping[str, Any], prefix: str, group: str, seen: tuple[str, ...]) -> list[Field]:
        where = ".".join(part for part in (group, prefix.rstrip(".")) if part)
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            raise self._fail(where, 'an object needs "properties", one for each field of the record')
        fields: list[Field] = []
        for name, given in properties.items():
            if not _NAME.fullmatch(name):
                raise self._fail(where, f"{name!r} is no field name: letters, digits, _ and - are allowed")
            fields += self._field(given, prefix + name, group, seen)
        return fields

    def _field(self, given: Any, name: str, group: str, seen: tuple[str, ...]) -> list[Field]:
        where = f"{group}.{name}" if group else name
        schema, seen = self._resolved(given, where, seen)
        description = str(schema.get("description") or schema.get("title") or "")
        kind = self._kind(schema, where)
        if kind == "object":
            return self._properties(schema, f"{name}.", group, seen)
        if kind != "array":
            return [Field(name, kind, False, description, group)]
        items, seen = self._resolved(schema.get("items", {}), f"{where}[]", seen)
        inner = self._kind(items, f"{where}[]")
        if inner == "array":
            raise self._fail(where, "an array of arrays is no field of a record")
        if inner != "object":
            return [Field(name, inner, True, description, group)]
        if group:
            raise self._fail(where, "an array of objects within another one cannot be learned; name one level")
        return self._properties(items, "", name, seen)

    def _resolved(self, given: Any, where: str, seen: tuple[str, ...]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The schema behind `$ref`, and of anyOf/oneOf the one alternative that is not null."""
        while True:
            if not isinstance(given, dict):
                raise self._fail(where, f"{given!r} is not a schema")
            if "$ref" in given:
                reference = str(given["$ref"])
                if reference in seen:
                    raise self._fail(where, f"{reference} refers to itself")
                seen = (*seen, reference)
                given = self._target(reference, where)
                continue
            options = given.get("anyOf") or given.get("oneOf")
            if options is None:
                return given, seen
            real = [one for one in options if one != {"type": "null"}] if isinstance(options, list) else []
            if len(real) != 1:
                raise self._fail(where, "only a schema and null can be alternatives of each other")
            given = {**{key: value for key, value in given.items() if key not in ("anyOf", "oneOf")}, **real[0]}

    def _target(self, reference: str, where: str) -> Any:
        target: Any = self._schema
        if not reference.startswith("#/"):
            raise self._fail(where, f"$ref {reference!r} leads out of the file; write the schema into it")
        for part in reference[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        if target is None:
            raise self._fail(where, f"$ref {reference!r} leads nowhere")
        return target

    def _kind(self, schema: Mapping[str, Any], where: str) -> Any:
        """A field type, "object", "array", or None where the schema says none."""
        given = schema.get("type")
        kinds = [one for one in (given if isinstance(given, list) else [given]) if one != "null"]
        if len(kinds) > 1:
            raise self._fail(where, f"type {given!r}: one type besides null is allowed")
        kind = kinds[0] if kinds else None
        if kind is None:
            implied = "object" if "properties" in schema else "array" if "items" in schema else None
            return implied or ("string" if "enum" in schema or "const" in schema else None)
        if kind not in ("string", "integer", "number", "boolean", "object", "array"):
            raise self._fail(where, f"{kind!r} is no type of JSON Schema")
        return _FORMATS.get(str(schema.get("format")), "string") if kind == "string" else kind


def schema_of(fields: Sequence[Field], title: str = "") -> dict[str, Any]:
    """The JSON Schema of a record of these fields: every property may be null, there are no others."""
    root = _Node()
    for one in fields:
        node = root
        for part in one.group.split(".") if one.group else ():
            node = node.inner.setdefault(part, _Node())
        node.is_list |= bool(one.group)
        *parents, last = one.name.split(".")
        for part in parents:
            node = node.inner.setdefault(part, _Node())
        node.inner[last] = _Node(leaf=_property(one))
    schema = {"$schema": _DIALECT, **_object(root)}
    return {**schema, "title": title} if title else schema


@dataclass(slots=True)
class _Node:
    leaf: dict[str, Any] | None = None
    is_list: bool = False
    inner: dict[str, _Node] = field(default_factory=dict)


def _object(node: _Node) -> dict[str, Any]:
    properties = {}
    for name, inner in node.inner.items():
        if inner.leaf is not None:
            properties[name] = inner.leaf
        elif inner.is_list:
            properties[name] = {"type": ["array", "null"], "items": _object(inner)}
        else:
            properties[name] = _object(inner)
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _property(one: Field) -> dict[str, Any]:
    kind: FieldType = one.type or "string"
    formats = {"date": "date", "url": "uri"}
    plain = "string" if kind in formats else kind
    shape: dict[str, Any] = {"type": plain} if one.many else {"type": [plain, "null"]}
    if kind in formats:
        # A date may have a time: the format "date" would refuse that.
        shape |= {"format": formats[kind]} if kind == "url" else {"pattern": r"^\d{4}-\d{2}-\d{2}"}
    if one.many:
        shape = {"type": ["array", "null"], "items": shape}
    return {**shape, "description": one.description} if one.description else shape


def assemble(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """A record with every field, null where `values` (by key; of a group by its name) has none."""
    record: dict[str, Any] = {}
    for one in fields:
        _put(record, one.group or one.name, values.get(one.group or one.key))
    return record


def completed(fields: Sequence[Field], record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with exactly these fields: null where it has none."""
    full = assemble(fields, {})
    _take_over(full, record)
    return full


def _take_over(full: dict[str, Any], record: Mapping[str, Any]) -> None:
    for name, value in record.items():
        if isinstance(full.get(name), dict) and isinstance(value, dict):
            _take_over(full[name], value)
        elif name in full:
            full[name] = value


def _put(record: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        inner = record.get(part)
        if not isinstance(inner, dict):
            inner = record[part] = {}
        record = inner
    record[last] = value


def reconcile(known: Sequence[Field], more: Sequence[Field]) -> tuple[Field, ...]:
    """The fields of two answers about one template: a list if either says so, of the wider type."""
    merged = {one.key: one for one in known}
    for one in more:
        old = merged.get(one.key)
        merged[one.key] = one if old is None else _merged(old, one)
    return tuple(merged.values())


def _merged(old: Field, new: Field) -> Field:
    wider = max(old.type, new.type, key=lambda kind: _WIDTH[kind])
    return Field(old.name, wider, old.many or new.many, old.description or new.description, old.group)
