"""Reads what a user asks for: fields by name or the JSON Schema of a record, and the page types that have records."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from llmcrawler.core.understanding.extraction.extractor import FIELD_TYPES, Field, FieldType
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema, schema_of
from llmcrawler.core.understanding.extraction.record_validation import RecordValidator
from llmcrawler.errors import ConfigError

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
# A page type with one of these words in its name leads somewhere, asks for something or says how the site works.
_WITHOUT_RECORD: Final = frozenset(
    """
    home homepage index start landing listing list category categories collection collections archive search
    results sitemap navigation
    login logout signin signup register registration account settings password recovery reset form
    basket cart checkout wishlist compare error maintenance legal terms privacy imprint cookie cookies
    contact about help faq documentation docs reference pricing other unknown misc gallery
    """.split()
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
                f"fields={text!r}: {name!r} is no name of a field; write them as fields=title,price:number,tags[]"
            )
        if kind and kind not in FIELD_TYPES:
            raise ConfigError(f"fields={text!r}: {kind!r} is no type; there are {', '.join(FIELD_TYPES)}")
        if name.lower() in fields:
            raise ConfigError(f"fields={text!r}: {name!r} stands there twice; give each field once")
        fields[name.lower()] = Field(name, next((one for one in FIELD_TYPES if one == kind), None), many)
    return RequestedSchema(schema_of(tuple(fields.values())), tuple(fields.values()))


def load_schema(path: Path) -> RequestedSchema:
    """Read a file with the JSON Schema of an object. `x-page-types` in it says for which page types it is meant.

    Nested objects give fields with dotted names, arrays of scalars fields with many values, arrays of objects groups.
    Raises ConfigError, which names the file and the place in it, for what is no schema of a record.
    """
    try:
        schema = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"schema={path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"schema={path}: is not JSON: {error}") from error
    try:
        if not isinstance(schema, dict):
            raise ConfigError('is not the JSON Schema of a record: an object with "properties" is wanted')
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
        fields = self._properties(schema, "", "", seen)
        if len(fields) > _MAX_FIELDS:
            raise _fault("", f"{len(fields)} fields are too many for one record; {_MAX_FIELDS} is the most")
        return fields

    def _properties(self, schema: Mapping[str, Any], prefix: str, group: str, seen: tuple[str, ...]) -> list[Field]:
        where = _place(group, prefix.rstrip("."))
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties:
            raise _fault(where, 'an object needs "properties", one for each field')
        fields: list[Field] = []
        for name, given in properties.items():
            if not _NAME.fullmatch(name):
                raise _fault(where, f"{name!r} is no field name: it may have letters, digits, _ and -, 64 in all")
            fields += self._field(given, prefix + name, group, seen)
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
            raise _fault(where, "a list of lists is no field of a record; make it one list")
        if inner != "object":
            return [Field(name, inner, True, description, group)]
        if group:
            raise _fault(where, "a list of objects within another one cannot be learned; move it out of that one")
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
                        where, f"$ref {reference!r} leads to itself; a record has an end: leave that field out"
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
                raise _fault(where, f"{key} of {len(real)} schemas; choose one of them (null may stand beside it)")
            given = {**real[0], **_without(given, key)}

    def _target(self, reference: str, where: str) -> dict[str, Any]:
        target: Any = self._schema
        if not reference.startswith("#/"):
            cure = "leads to itself" if reference == "#" else "leads out of the file; write that schema into $defs"
            raise _fault(where, f"$ref {reference!r} {cure}")
        for part in reference[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            raise _fault(where, f"$ref {reference!r} leads nowhere; its schema belongs into $defs")
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
            raise _fault(where, f"type {json.dumps(given)}: choose one (null may stand beside it)")
        if kinds[0] not in _TYPES:
            raise _fault(where, f"{kinds[0]!r} is no type of JSON Schema; there are {', '.join(_TYPES)}")
        return _FORMATS.get(str(schema.get("format")), "string") if kinds[0] == "string" else kinds[0]


def _kind_of_values(schema: Mapping[str, Any], where: str) -> FieldType | None:
    """Return the type of what enum or const allow."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    kinds: dict[type, FieldType] = {str: "string", bool: "boolean", int: "integer", float: "number"}
    found = {kinds.get(type(one)) for one in values if one is not None} if isinstance(values, list) else {None}
    if found == {"integer", "number"}:
        return "number"
    if len(found) > 1 or None in found:
        raise _fault(where, "the allowed values are to be of one type: texts, numbers, or true and false")
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
            words = {word.lower() for word in _WORDS.findall(page_type.replace("_", " "))}
            return not words & _WITHOUT_RECORD
        return page_type in self.names or "all" in self.names
