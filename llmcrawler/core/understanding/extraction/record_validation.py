"""Checks of records against a user's JSON Schema: what does not fit is no value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from llmcrawler.errors import ConfigError

_DIALECT: Final = re.compile(r"https?://json-schema\.org/(?:draft-0[467]|draft/(?:2019-09|2020-12))/schema#?")
# Keywords of JSON Schema whose value is a schema, a list of schemas, or schemas by name.
_SCHEMA: Final = frozenset({"items", "additionalProperties", "unevaluatedProperties", "then", "else", "contains"})
_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_COMPOUND: Final = frozenset({"$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "const"})
_ISO: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})?)?")


class RecordValidator:
    """A compiled schema; to check takes a microsecond a record. Every property may be null: what a page does not have.

    Raises ConfigError for a schema that is none. What a schema refers to is never fetched.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # Imported where it is needed: most crawls have no schema of the user's.
        import jsonschema_rs  # noqa: PLC0415

        dialect = schema.get("$schema")
        if dialect is not None and not (isinstance(dialect, str) and _DIALECT.fullmatch(dialect)):
            raise ConfigError(f"$schema: {dialect!r} is no JSON Schema that is known here; leave it out")
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

        Where a day is asked for, a time of day behind it is only cut off.
        """
        found: list[str] = []
        for _ in range(4):  # a list that lost its entries may then be too short
            problems = self.problems(record)
            if not problems:
                return record, found
            for path, message in problems:
                if not _cut_to_day(record, path, message):
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
            inner = {name: nullable(one) for name, one in value.items()}
            copy[key] = {name: _or_null(one) for name, one in inner.items()} if key == "properties" else inner
        elif key in _SCHEMAS and isinstance(value, list):
            copy[key] = [nullable(one) for one in value]
        elif key in _SCHEMA:
            copy[key] = nullable(value)
    return copy


def _or_null(schema: Any) -> Any:
    if not isinstance(schema, dict) or _COMPOUND & schema.keys():
        return {"anyOf": [schema, {"type": "null"}]}
    # Rather than alternatives, for the messages' sake.
    copy = dict(schema)
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        copy["type"] = kinds if "null" in kinds else [*kinds, "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        copy["enum"] = [*schema["enum"], None]
    return copy


def _is_iso(text: str) -> bool:
    return _ISO.fullmatch(text) is not None


def _refuse(address: str) -> NoReturn:
    raise ValueError(f"{address} is not in the file; write it into $defs")


def _cut_to_day(record: Any, path: Sequence[str | int], message: str) -> bool:
    """Cut off the time of day behind a date where that is the problem, and tell whether it was."""
    holder = _at(record, path[:-1])
    if holder is None or not path or not message.endswith('is not a "date"'):
        return False
    value = holder[path[-1]]
    if not isinstance(value, str) or not _is_iso(value) or len(value) == 10:
        return False
    holder[path[-1]] = value[:10]
    return True


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
