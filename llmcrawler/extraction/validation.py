"""Records against a user's JSON Schema: what does not fit is no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmcrawler.errors import ConfigError


class Validator:
    """Raises ConfigError for a schema that is none, or that uses what JSON Schema does not know."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # Imported where it is needed: most crawls have no schema of the user's.
        import jsonschema_rs  # noqa: PLC0415

        try:
            self._validator = jsonschema_rs.validator_for(nullable(schema))
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            reason = getattr(error, "message", None) or str(error)
            raise ConfigError(f"schema: is not a valid JSON Schema: {reason}") from error

    def problems(self, record: Mapping[str, Any]) -> list[tuple[tuple[str | int, ...], str]]:
        """(path, what does not fit)"""
        return [(tuple(one.instance_path), one.message) for one in self._validator.iter_errors(record)]

    def clean(self, record: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        """The record with null in the place of what does not fit, and what that was; None where nothing helps."""
        found: list[str] = []
        for _ in range(3):  # a list that lost its entries may then be too short
            problems = self.problems(record)
            if not problems:
                return record, found
            for path, message in problems:
                found.append(f"{'.'.join(map(str, path))}: {message}")
                _drop(record, path)
        return (None if self.problems(record) else record), found


def nullable(schema: Any) -> Any:
    """The schema with null allowed for each property: what a page does not have is null."""
    if isinstance(schema, list):
        return [nullable(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy = {key: nullable(value) for key, value in schema.items()}
    if isinstance(copy.get("properties"), dict):
        copy["properties"] = {name: {"anyOf": [given, {"type": "null"}]} for name, given in copy["properties"].items()}
    return copy


def _drop(record: Any, path: Sequence[str | int]) -> None:
    """Null for the property that a path leads to or into; an entry of a list takes its list along."""
    names = list(path)
    while names and not isinstance(names[-1], str):
        names.pop()
    for step in names[:-1]:
        record = record[step] if record is not None else None
    if names and record is not None:
        record[names[-1]] = None
