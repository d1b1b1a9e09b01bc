"""Describes records: their fields, their JSON Schema (the user's, read and checked, or one made of fields), page types.

A nested record is assembled of flat values, and checked against the user's schema: what does not fit is no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, get_args

from llmcrawler.core.understanding.classification.page_types import KNOWN_NAMES
from llmcrawler.errors import ConfigError

FieldType = Literal["string", "integer", "number", "boolean", "date", "url"]
FIELD_TYPES: Final[tuple[FieldType, ...]] = get_args(FieldType)


@dataclass(frozen=True, slots=True)
class Field:
    """A property of a record.

    `name` is its path in the record: "price", "offer.price". A field with a `group` is a property of each object of the
    array that stands at the path `group`; its name is then relative to that object. `many` is an array of plain values.
    `type` is None while nobody has said what it is: it is then read as a string."""

    name: str
    type: FieldType | None = None
    many: bool = False
    description: str = ""
    group: str = ""

    @property
    def key(self) -> str:
        """The name that no other field of the record has."""
        return f"{self.group}.{self.name}" if self.group else self.name


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
        shape: dict[str, Any] = {}  # without a type the model will say
        if one.type is not None:
            plain = "string" if one.type in ("date", "url") else one.type
            shape = {"type": plain if one.many else [plain, "null"], **_TYPE_DETAILS.get(one.type, {})}
        if one.many:
            shape = {"type": ["array", "null"], "items": shape}
        if one.description:
            shape["description"] = one.description
        *parents, last = one.name.split(".")
        _within(inner, parents)[last] = shape
    schema = {"$schema": _DIALECT, **_object(properties)}
    return {**schema, "title": title} if title else schema


def _object(properties: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, "additionalProperties": False}


def _within(properties: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    for part in path:
        properties = properties.setdefault(part, _object())["properties"]
    return properties


def assemble(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with every field, null where `values` has none: an empty list is null too, as nothing was found.

    `values` are by key; those of a group stand under its name, as a list of objects whose values are by field name."""
    record: dict[str, Any] = {}
    for one in fields:
        if not one.group:
            value = values.get(one.key)
            put(record, one.name, None if value == [] else value)
    for group in dict.fromkeys(one.group for one in fields if one.group):
        rows: list[dict[str, Any]] = []
        for given in values.get(group) or ():
            rows.append({})
            for one in fields:
                if one.group == group:
                    put(rows[-1], one.name, given.get(one.name))
        put(record, group, rows or None)
    return record


def completed(fields: Sequence[Field], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with exactly these fields: null where it has none, also in the objects of its lists."""

    def filled(shape: Any, value: Any) -> Any:
        if isinstance(shape, dict):
            inner = value if isinstance(value, Mapping) else {}
            return {name: filled(part, inner.get(name)) for name, part in shape.items()}
        if isinstance(shape, list):
            return [filled(shape[0], one) for one in value] if isinstance(value, list) and value else None
        return value

    shape = assemble(fields, {one.group: [{}] for one in fields if one.group})
    return {name: filled(part, record.get(name)) for name, part in shape.items()}


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


def put(record: dict[str, Any], path: str, value: Any) -> None:
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
        kind = old.type or one.type  # None says nothing of it
        if one.type not in (None, kind):
            kind = "number" if {kind, one.type} == {"integer", "number"} else "string"
        merged[one.key] = Field(old.name, kind, old.many or one.many, old.description or one.description, old.group)
    return tuple(merged.values())


_KNOWN_DIALECT: Final = re.compile(r"https?://json-schema\.org/(?:draft-0[467]|draft/(?:2019-09|2020-12))/schema#?")
# Keywords of JSON Schema whose value is a schema, a list of schemas, or schemas by name.
_SCHEMA: Final = frozenset({"items", "additionalProperties", "unevaluatedProperties", "then", "else", "contains"})
_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_COMPOUND: Final = frozenset({"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "const"})
_ISO: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})?)?")


class RecordValidator:
    """A compiled schema; to check takes a microsecond a record. Every property may be null: what a page does not have.

    Raises ConfigError for a schema that is none. What a schema refers to is never fetched."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # Imported where it is needed: most crawls have no schema of the user's.
        import jsonschema_rs

        dialect = schema.get("$schema")
        if dialect is not None and not (isinstance(dialect, str) and _KNOWN_DIALECT.fullmatch(dialect)):
            raise ConfigError(f"$schema: {dialect!r} is not a known JSON Schema dialect; leave it out")
        try:
            jsonschema_rs.meta.validate(dict(schema))
            # A page may tell the day and not the hour, and no time zone.
            self._validator = jsonschema_rs.validator_for(
                nullable(schema), validate_formats=True, formats={"date-time": _is_iso}, retriever=_refuse
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            place = ".".join(map(str, getattr(error, "instance_path", ())))
            reason = getattr(error, "message", None) or str(error)
            raise ConfigError(f"{place or 'at the top'}: is not valid in JSON Schema: {reason}") from error

    def problems(self, record: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
        """Return a pair for each value that does not fit: its path, and why."""
        return [(tuple(one.instance_path), one.message) for one in self._validator.iter_errors(record)]

    def clean(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        """Return the record with null in the place of what does not fit, and what that was; None where nothing helps.

        Where a day is asked for, a time of day behind it is only cut off."""
        found: list[str] = []
        for _ in range(4):  # a list that lost its entries may then be too short
            problems = self.problems(record)
            if not problems:
                return record, found
            for path, message in problems:
                value = _at(record, path)
                is_time = isinstance(value, str) and len(value) > 10 and _is_iso(value)
                if is_time and message.endswith('is not a "date"'):
                    _at(record, path[:-1])[path[-1]] = value[:10]
                else:
                    found.append(f"{'.'.join(map(str, path))}: {message}")
                    _drop(record, path)
        return (None if self.problems(record) else record), found


def nullable(schema: Any) -> Any:
    """Return the schema with null allowed for each property."""
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = dict(schema)
    for key, value in schema.items():
        if key in _NAMED_SCHEMAS and isinstance(value, Mapping):
            allow = _or_null if key == "properties" else nullable
            copy[key] = {name: allow(one) for name, one in value.items()}
        elif key in _SCHEMAS and isinstance(value, list):
            copy[key] = [nullable(one) for one in value]
        elif key in _SCHEMA:
            copy[key] = nullable(value)
    return copy


def _or_null(given: Any) -> Any:
    schema = nullable(given)
    if not isinstance(schema, dict) or _COMPOUND & schema.keys():
        return {"anyOf": [schema, {"type": "null"}]}
    # Rather than alternatives, for the messages' sake.
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        schema["type"] = kinds if "null" in kinds else [*kinds, "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


def _is_iso(text: str) -> bool:
    return _ISO.fullmatch(text) is not None


def _refuse(address: str) -> NoReturn:
    raise ValueError(f"{address} is not in the file; put it into $defs")


def _drop(record: Any, path: Sequence[str | int]) -> None:
    """Put null for the property that a path leads to or into; an entry of a list takes its list along."""
    names = list(path)
    while names and not isinstance(names[-1], str):
        names.pop()
    holder = _at(record, names[:-1])
    if names and holder is not None:
        holder[names[-1]] = None


def _at(record: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        record = record[step] if record is not None else None
    return record


_NAME: Final = re.compile(r"[^\W\d][\w-]{0,63}")
_FORMATS: Final[dict[str, FieldType]] = {
    "date": "date",
    "date-time": "date",
    "uri": "url",
    "uri-reference": "url",
    "iri": "url",
    "iri-reference": "url",
    "url": "url",
}
_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array")
_MAX_FIELDS: Final = 200
_WORDS: Final = re.compile(r"[A-Za-z0-9]+")
# A page type with one of these words in its name leads somewhere, asks for something or says how the site works; unless
# its last word is a thing's: a listing_ad is an ad.
_WITHOUT_RECORD: Final = frozenset(
    """
    home homepage index start landing listing list category categories collection collections archive search
    results sitemap navigation
    login logout signin signup register registration account settings password recovery reset form
    basket cart checkout wishlist compare error maintenance legal terms privacy imprint cookie cookies
    contact about help faq documentation docs reference pricing other unknown misc gallery
    """.split()
)
_THINGS: Final = frozenset(
    name.rpartition("_")[2]
    for kind, names in KNOWN_NAMES.items()
    for name in names
    if _WITHOUT_RECORD.isdisjoint((kind, *name.split("_")))
)


def requested_fields(text: str) -> RequestedSchema:
    """Read the quick form `title,price:number,tags[]`. Raises ConfigError."""
    fields: dict[str, Field] = {}
    for part in (one.strip() for one in text.split(",")):
        name, _, kind = (one.strip() for one in part.partition(":"))
        many = name.endswith("[]") or kind.endswith("[]")
        name, kind = name.removesuffix("[]").strip(), kind.removesuffix("[]").strip()
        if "." in name:
            raise ConfigError(f"fields={text!r}: {name!r} is nested; describe such records with -a schema=FILE")
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"fields={text!r}: {name!r} is not a field name; write them as fields=title,price:number,tags[]"
            )
        if kind and kind not in FIELD_TYPES:
            raise ConfigError(f"fields={text!r}: {kind!r} is not a type; there are {', '.join(FIELD_TYPES)}")
        if name.lower() in fields:
            raise ConfigError(f"fields={text!r}: {name!r} occurs twice; give each field once")
        fields[name.lower()] = Field(name, next((one for one in FIELD_TYPES if one == kind), None), many)
    if len(fields) > _MAX_FIELDS:
        raise ConfigError(f"fields: {len(fields)} are too many for one record; the limit is {_MAX_FIELDS}")
    return RequestedSchema(schema_of(tuple(fields.values())), tuple(fields.values()))


def load_schema(path: Path) -> RequestedSchema:
    """Read a file with the JSON Schema of an object. `x-page-types` in it says for which page types it is meant.

    Nested objects give fields with dotted names, arrays of scalars fields with many values, arrays of objects groups.
    Raises ConfigError, which names the file and the place in it, for what is no schema of a record."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"schema={path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"schema={path}: is not JSON: {error}") from error
    try:
        if not isinstance(schema, dict):
            raise ConfigError('is not the JSON Schema of a record: it must be an object with "properties"')
        fields = tuple(_Reader(schema).fields())
        page_types = _page_types(schema)
        RecordValidator(schema)
    except ConfigError as error:
        raise ConfigError(f"schema={path}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"schema={path}: is nested too deep for a record") from error
    return RequestedSchema(schema, fields, page_types)


def _page_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    given = schema.get("x-page-types", [])
    if not isinstance(given, list) or not all(isinstance(one, str) and one.strip() for one in given):
        raise ConfigError('x-page-types: is not a list of page types; write "x-page-types": ["product"]')
    return tuple(one.strip() for one in given)


class _Reader:
    """The fields of a user's schema. Messages name the place: `offers[].price` is in the objects of a list."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def fields(self) -> list[Field]:
        schema, seen = self._resolved(self._schema, "", ())
        if self._kind(schema, "") != "object":
            raise _fault("", 'a record is an object: describe one page\'s with "type": "object" and "properties"')
        return self._properties(schema, "", "", seen)

    def _properties(self, schema: Mapping[str, Any], prefix: str, group: str, seen: tuple[str, ...]) -> list[Field]:
        where = _place(group, prefix.rstrip("."))
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            raise _fault(where, 'an object needs "properties", one for each field')
        fields: list[Field] = []
        for name, given in properties.items():
            if not _NAME.fullmatch(name):
                raise _fault(where, f"{name!r} is not a field name: use letters, digits, _ and -, 64 in all")
            fields += self._field(given, prefix + name, group, seen)
            if len(fields) > _MAX_FIELDS:  # looked at as they come: with $ref a kilobyte can describe millions
                raise _fault("", f"there are too many fields for one record; the limit is {_MAX_FIELDS}")
        return fields

    def _field(self, given: Any, name: str, group: str, seen: tuple[str, ...]) -> list[Field]:
        where = _place(group, name)
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
            raise _fault(where, "a list of lists cannot be a field; make it one list")
        if inner != "object":
            return [Field(name, inner, True, description, group)]
        if group:
            raise _fault(where, "a list of objects within another one cannot be learned; move it out of the other list")
        return self._properties(items, "", name, seen)

    def _resolved(self, given: Any, where: str, seen: tuple[str, ...]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return the schema behind `$ref`, a single allOf, or the one alternative of anyOf or oneOf but null."""
        while True:
            if given is True:
                given = {}
            if not isinstance(given, dict):
                raise _fault(where, f"{given!r} is not a schema; describe the field with an object")
            if "$ref" in given:
                reference = str(given["$ref"])
                if reference in seen:
                    raise _fault(
                        where, f"$ref {reference!r} leads to itself; records cannot be endless: leave that field out"
                    )
                seen = (*seen, reference)
                given = {**self._target(reference, where), **_without(given, "$ref")}
                continue
            key = next((key for key in ("anyOf", "oneOf", "allOf") if key in given), None)
            if key is None:
                return given, seen
            options = given[key] if isinstance(given[key], list) else []
            real = [one for one in options if not (isinstance(one, dict) and one.get("type") == "null")]
            if len(real) != 1 or not isinstance(real[0], dict):
                raise _fault(where, f"{key} of {len(real)} schemas; choose one of them (null is also allowed)")
            given = {**real[0], **_without(given, key)}

    def _target(self, reference: str, where: str) -> dict[str, Any]:
        target: Any = self._schema
        if not reference.startswith("#/"):
            cure = "leads to itself" if reference == "#" else "leads out of the file; write that schema into $defs"
            raise _fault(where, f"$ref {reference!r} {cure}")
        for part in reference[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            raise _fault(where, f"$ref {reference!r} leads nowhere; put its schema into $defs")
        return target

    def _kind(self, schema: Mapping[str, Any], where: str) -> Any:
        """Return a field type, "object", "array", or None where the schema says none."""
        given = schema.get("type")
        kinds = [one for one in (given if isinstance(given, list) else [given]) if one not in ("null", None)]
        if not kinds:
            if "properties" in schema:
                return "object"
            return "array" if "items" in schema else _kind_of_values(schema, where)
        if len(kinds) > 1:
            raise _fault(where, f"type {json.dumps(given)}: choose one (null is also allowed)")
        if kinds[0] not in _TYPES:
            raise _fault(where, f"{kinds[0]!r} is not a JSON Schema type; there are {', '.join(_TYPES)}")
        return _FORMATS.get(str(schema.get("format")), "string") if kinds[0] == "string" else kinds[0]


def _kind_of_values(schema: Mapping[str, Any], where: str) -> FieldType | None:
    """Return the type of what enum or const allow."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds: dict[type, FieldType] = {str: "string", bool: "boolean", int: "integer", float: "number"}
    found = {kinds.get(type(one)) for one in values if one is not None} if isinstance(values, list) else {None}
    if found == {"integer", "number"}:
        return "number"
    if len(found) > 1 or None in found:
        raise _fault(where, "the allowed values must be of one type: texts, numbers, or true and false")
    return next(iter(found), None)


def _fault(where: str, what: str) -> ConfigError:
    return ConfigError(f"{where or 'at the top'}: {what}")


def _place(group: str, name: str) -> str:
    return f"{group}[].{name}".rstrip(".") if group else name


def _without(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != key}


@dataclass(frozen=True, slots=True)
class RecordTypes:
    """The page types that have a record. `auto`: all but those whose name says that they are about no single thing.
    Else exactly `names`."""

    auto: bool = True
    names: Collection[str] = ()

    @classmethod
    def of(cls, text: str) -> RecordTypes:
        """Read the setting: "auto", "all", "none", or names with commas between."""
        names = frozenset(name.strip() for name in text.split(",") if name.strip())
        if names in (frozenset(), {"auto"}):
            return cls()
        return cls(False, frozenset() if names == {"none"} else names)

    def __contains__(self, page_type: object) -> bool:
        if not isinstance(page_type, str):
            return False
        if self.auto:
            words = _WORDS.findall(page_type.lower())
            return _WITHOUT_RECORD.isdisjoint(words) or not _THINGS.isdisjoint(words[-1:])
        return page_type in self.names or "all" in self.names


def tries_guesses(requested: RequestedSchema | None, types: RecordTypes) -> bool:
    """Tell whether fields that somebody has asked for are looked for on pages whose type is unsure too: they tell a
    template more surely than rules do."""
    return requested is not None and not requested.page_types and types.auto
