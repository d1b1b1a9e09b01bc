"""From the text that a model wrote to JSON that fits the schema, or to BadAnswer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from llmcrawler.bounded_json import is_too_much, value_at
from llmcrawler.errors import BadAnswer

_THOUGHTS_BEGIN, _THOUGHTS_END = "<think>", "</think>"
_MAX_STARTS = 5
# A whole string, or one that was cut, or a bracket. What has matched once is not gone over again ("*+").
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def read_answer(text: str, schema: dict[str, Any], *, salvage: bool = False) -> Any:
    """The JSON value in `text` that fits `schema`; code fences, thoughts and words around it are passed over.

    With `salvage`, entries of the answer's lists that are cut or do not fit are left out, and the caller sees to
    what is missing. Raises BadAnswer.
    """
    text = _without_thoughts(text)
    if is_too_much(text):
        raise BadAnswer("the answer is far longer than what was asked for")
    problem = "the answer holds no JSON"
    for value in _json_values(text):
        problem = misfit(value, schema)
        if not problem:
            return _pruned(value, schema)
        if salvage and (rest := _fitting_part(value, schema)) is not None:
            return rest
    if salvage:
        value = _complete_part(text)
        rest = _fitting_part(value, schema)
        if rest is not None:
            return rest
    raise BadAnswer(problem)


def misfit(value: Any, schema: dict[str, Any], path: str = "answer") -> str:
    """What does not fit, or "". Knows the keywords that strict structured outputs allow; keys that the schema
    does not name are no misfit, for a model that says more than asked has still answered.
    """
    if "anyOf" in schema:
        problems = [misfit(value, choice, path) for choice in schema["anyOf"]]
        return "" if "" in problems else problems[0]
    wanted = schema.get("type")
    types = [wanted] if isinstance(wanted, str) else wanted or []
    if types and not any(_is_a(value, name) for name in types):
        return f"{path} is not of type {' or '.join(types)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path} is none of the values allowed"
    if "const" in schema and value != schema["const"]:
        return f"{path} is not {schema['const']!r}"
    if isinstance(value, dict):
        return _object_misfit(value, schema, path)
    if isinstance(value, list):
        return _array_misfit(value, schema, path)
    return _scalar_misfit(value, schema, path)


def _is_a(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, object))


def _object_misfit(value: dict[str, Any], schema: dict[str, Any], path: str) -> str:
    for name in schema.get("required", ()):
        if name not in value and not _may_be_null(schema.get("properties", {}).get(name, {})):
            return f"{path}.{name} is missing"
    for name, rules in schema.get("properties", {}).items():
        if name in value and (problem := misfit(value[name], rules, f"{path}.{name}")):
            return problem
    return ""


def _may_be_null(schema: dict[str, Any]) -> bool:
    """Strict schemas require every key; a server that is not strict about them leaves out what is null."""
    return isinstance(schema.get("type"), list) and "null" in schema["type"]


def _array_misfit(value: list[Any], schema: dict[str, Any], path: str) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{path} has {len(value)} entries"
    rules = schema.get("items", {})
    return next((problem for n, entry in enumerate(value) if (problem := misfit(entry, rules, f"{path}[{n}]"))), "")


def _scalar_misfit(value: Any, schema: dict[str, Any], path: str) -> str:
    if isinstance(value, str):
        fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        fits = fits and ("pattern" not in schema or re.search(schema["pattern"], value) is not None)
        return "" if fits else f"{path} has a wrong length or form"
    if isinstance(value, int | float) and not isinstance(value, bool):
        fits = schema.get("minimum", value) <= value <= schema.get("maximum", value)
        return "" if fits else f"{path} is out of bounds"
    return ""


def _pruned(value: Any, schema: dict[str, Any]) -> Any:
    """`value` without the keys that the schema does not allow, whole numbers as int where the schema says integer, and
    strings that can be written anywhere."""
    if isinstance(value, dict) and "properties" in schema:
        rules = schema["properties"]
        open_ended = schema.get("additionalProperties", True) is not False
        return {name: _pruned(part, rules.get(name, {})) for name, part in value.items() if open_ended or name in rules}
    if isinstance(value, list) and "items" in schema:
        return [_pruned(entry, schema["items"]) for entry in value]
    if isinstance(value, float) and schema.get("type") == "integer":
        return int(value)
    if isinstance(value, str) and not value.isascii():
        # Half a surrogate pair ("\\ud800") is no character that a file or a database takes.
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def _fitting_part(value: Any, schema: dict[str, Any]) -> Any:
    """`value` with only those list entries (of its own lists) that fit, or None when nothing of worth is left."""
    if not isinstance(value, dict):
        return None
    properties = schema.get("properties", {})
    kept = dict(value)
    for name, part in value.items():
        if isinstance(part, list):
            shape = properties.get(name, {})
            rules = shape.get("items", {})
            # Of a list that is far too long nothing further is looked at: it is no answer to what was asked.
            looked_at = part[: 2 * shape.get("maxItems", len(part))]
            kept[name] = [entry for entry in looked_at if not misfit(entry, rules)]
    if misfit(kept, schema) or not any(isinstance(part, list) and part for part in kept.values()):
        return None
    return _pruned(kept, schema)


def _without_thoughts(text: str) -> str:
    """What a model says beside its thoughts. Thoughts without an end are left in: perhaps the answer is in them."""
    said, position = [], 0
    while (begin := text.find(_THOUGHTS_BEGIN, position)) >= 0:
        end = text.find(_THOUGHTS_END, begin)
        if end < 0:
            break
        said.append(text[position:begin])
        position = end + len(_THOUGHTS_END)
    return "".join([*said, text[position:]])


def _json_values(text: str) -> Iterator[Any]:
    """The objects (or lists) in `text`, from the first few places where one could start."""
    position = 0
    for _ in range(_MAX_STARTS):
        starts = [at for at in (text.find("{", position), text.find("[", position)) if at >= 0]
        if not starts:
            return
        position = min(starts)
        try:
            value, position = value_at(text, position)
        except ValueError:
            position += 1
        else:
            yield value


def _complete_part(text: str) -> Any:
    """What a cut answer still says: everything up to the last whole object of a list, with the open ends closed."""
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
        return value_at(text[start:last_whole] + "]}", 0)[0]
    except ValueError:
        return None
