"""Reads the answer out of the text that a model wrote, and checks it against the schema that was asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llmcrawler.core.content.untrusted_json import is_too_much, value_at
from llmcrawler.errors import BadAnswer

if TYPE_CHECKING:
    import jsonschema_rs

_THOUGHTS_BEGIN, _THOUGHTS_END = "<think>", "</think>"
_MAX_STARTS = 5
# A whole string, or one that was cut, or a bracket. What has matched once is not gone over again ("*+").
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)

# Half a surrogate pair, written as an escape, is no character that a file or a database takes.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_MAX_MISFIT_CHARS = 200


def read_answer(text: str, schema: dict[str, Any], *, salvage: bool = False) -> Any:
    """Return the JSON value in `text` that fits `schema`, whatever stands around it. With `salvage`, entries of its
    lists that are cut or do not fit are left out, and the caller sees to what is missing. Raises BadAnswer.
    """
    # A model's thoughts are cut out; those without an end stay, as the answer may be in them.
    *parts, rest = text.split(_THOUGHTS_END)
    cut = ((part, part.partition(_THOUGHTS_BEGIN)) for part in parts)
    text = "".join(before if begin else part + _THOUGHTS_END for part, (before, begin, _) in cut) + rest
    if is_too_much(text):
        raise BadAnswer("the answer is far longer than requested")
    text = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    problem = "the answer holds no JSON"
    for value in _json_values(text):
        problem = misfit(value, schema)
        if not problem:
            return _pruned(value, schema)
        if salvage and (rest := _fitting_part(value, schema)) is not None:
            return rest
    if salvage and (rest := _fitting_part(_complete_part(text), schema)) is not None:
        return rest
    raise BadAnswer(problem)


def misfit(value: Any, schema: dict[str, Any]) -> str:
    """Return the first thing that does not fit, with its place, or "". Further keys fit, and so does a key left out
    where null is allowed: some servers are not strict.
    """
    import jsonschema_rs  # OpenAITransport has loaded it in a thread

    try:
        _validator(json.dumps(schema)).validate(value)
    except jsonschema_rs.ValidationError as problem:
        place = "".join(f".{step}" if isinstance(step, str) else f"[{step}]" for step in problem.instance_path)
        return f"answer{place}: {problem.message[:_MAX_MISFIT_CHARS]}"
    except ValueError as error:  # nested too deep
        return f"answer: {error}"
    return ""


@lru_cache(maxsize=64)
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    """Compile a schema. Patterns take time linear in the text, and no message repeats a value of the answer."""
    import jsonschema_rs  # OpenAITransport has loaded it in a thread

    return jsonschema_rs.Draft202012Validator(
        _lenient(json.loads(schema)), pattern_options=jsonschema_rs.RegexOptions(), mask="the value"
    )


def _lenient(schema: Any) -> Any:
    """Return the schema with further keys allowed, and without the duty to give what may be null."""
    if isinstance(schema, list):
        return [_lenient(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = schema.get("properties", {})
    # A type that is one word holds no "null" but for the type null itself.
    optional = {name for name, rules in named.items() if "null" in rules.get("type", ())}
    return {
        **{key: _lenient(part) for key, part in schema.items() if key not in ("additionalProperties", "properties")},
        "properties": {name: _lenient(rules) for name, rules in named.items()},
        "required": [name for name in schema.get("required", ()) if name not in optional],
    }


def _pruned(value: Any, schema: dict[str, Any]) -> Any:
    """Return `value` without the keys that the schema does not allow, and with int where it says integer."""
    if isinstance(value, dict) and "properties" in schema:
        rules = schema["properties"]
        open_ended = schema.get("additionalProperties", True) is not False
        return {name: _pruned(part, rules.get(name, {})) for name, part in value.items() if open_ended or name in rules}
    if isinstance(value, list) and "items" in schema:
        return [_pruned(entry, schema["items"]) for entry in value]
    if isinstance(value, float) and schema.get("type") == "integer":
        return int(value)
    return value


def _fitting_part(value: Any, schema: dict[str, Any]) -> Any:
    """Return `value` with only those entries of its own lists that fit, or None where nothing of worth is left."""
    if not isinstance(value, dict):
        return None
    properties = schema.get("properties", {})
    kept = dict(value)
    for name, part in value.items():
        if isinstance(part, list):
            shape = properties.get(name, {})
            rules = shape.get("items", {})
            # The end of a list that is far too long is not looked at: it is no answer to what was asked.
            looked_at = part[: 2 * shape.get("maxItems", len(part))]
            kept[name] = [entry for entry in looked_at if not misfit(entry, rules)]
    if misfit(kept, schema) or not any(isinstance(part, list) and part for part in kept.values()):
        return None
    return _pruned(kept, schema)


def _json_values(text: str) -> Iterator[Any]:
    """Yield the objects or lists in `text`, from the first few places where one could start."""
    position = 0
    for _ in range(_MAX_STARTS):
        starts = [at for at in (text.find("{", position), text.find("[", position)) if at >= 0]
        if not starts:
            return
        position = min(starts)
        try:
            value, position = _value_at(text, position)
        except ValueError:
            position += 1
        else:
            yield value


def _value_at(text: str, position: int) -> tuple[Any, int]:
    """Return what `value_at` returns, with ? for halves of surrogate pairs."""
    value, end = value_at(text, position)
    if _SURROGATE.search(text, position, end):
        try:
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("the JSON is nested too deep") from None
    return value, end


def _complete_part(text: str) -> Any:
    """Read a cut answer up to the last whole object of a list, with the open ends closed; None where there is none."""
    start = max(text.find("{"), 0)
    open_brackets: list[str] = []
    last_whole: int | None = None
    for found in _STRING_OR_BRACKET.finditer(text, start):
        mark = found[0]
        if mark in "{[":
            open_brackets.append(mark)
        elif mark in "}]" and open_brackets:
            open_brackets.pop()
            # Only entries of the answer's own lists: a list further down may have lost entries and look whole.
            if open_brackets == ["{", "["]:
                last_whole = found.end()
    if last_whole is None:
        return None
    try:
        return _value_at(text[start:last_whole] + "]}", 0)[0]
    except ValueError:
        return None
