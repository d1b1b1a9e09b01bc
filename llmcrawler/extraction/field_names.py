"""The fields that an answer names, under names that a record can have."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from llmcrawler.extraction.model import FIELD_TYPES, Field, FieldType
from llmcrawler.extraction.schema import Wanted, reconcile
from llmcrawler.extraction.tree import fold

_WORDS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_NAME_CHARS: Final = 64
_MAX_DESCRIPTION_CHARS: Final = 200


def snake_case(name: Any) -> str:
    """A name in snake_case, without accents; "" for what has no letters in it."""
    if not isinstance(name, str):
        return ""
    plain = unicodedata.normalize("NFKD", _CAMEL.sub(" ", name[:_MAX_NAME_CHARS]).casefold())
    plain = "".join(one for one in plain if not unicodedata.combining(one))
    snake = "_".join(_WORDS.findall(unicodedata.normalize("NFC", plain)))
    return snake if any(map(str.isalpha, snake)) else ""


def singular(name: str) -> str:
    """ "images" and "image" are one field that two models, or two calls, name differently."""
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    return name[:-1] if len(name) > 3 and name.endswith("s") and not name.endswith(("ss", "us", "is")) else name


def wanted_or_named(
    given: Any, wanted: Wanted | None, known: Sequence[Mapping[str, Any]], dropped: Counter[str]
) -> tuple[tuple[Field, ...], dict[str, str]]:
    """The fields of an answer, and the key of each by all the names that the answer may call it.

    A user's fields are taken as they are; where they leave the type open, the answer's holds. `known` are the fields
    as the document showed them: one that is the same but for its number gets its name from there.
    """
    named = _named(given, dropped)
    if wanted is not None:
        answered = {snake_case(one.name): one for one in named}
        fields = tuple(_typed_by(one, answered.get(snake_case(one.name))) for one in wanted.fields)
        return fields, _keys(fields, {})
    renamed = _known_names(named, {str(one.get("name")) for one in known})
    groups = {one.group for one in named}
    fields = reconcile((), [replace(one, name=renamed.get(one.name, one.name)) for one in named])
    kept = tuple(one for one in fields if one.group or one.name not in groups)
    dropped["field_is_group"] += len(fields) - len(kept)
    return kept, _keys(kept, renamed)


def _typed_by(wanted: Field, answered: Field | None) -> Field:
    if answered is None or wanted.type is not None:
        return wanted
    return replace(wanted, type=answered.type, many=wanted.many or answered.many)


def _known_names(named: Sequence[Field], known: set[str]) -> dict[str, str]:
    """Name in the answer -> the known name of the same thing."""
    by_singular = {singular(name): name for name in sorted(known)}
    names = {one.name for one in named}
    renamed = {name: by_singular.get(singular(name), name) for name in names - known}
    return {old: new for old, new in renamed.items() if new != old and new not in names}


def _keys(fields: Sequence[Field], renamed: Mapping[str, str]) -> dict[str, str]:
    """A field of a group may go by its own name where no other has it."""
    counts = Counter(one.name for one in fields)
    keys = {one.name: one.key for one in fields if counts[one.name] == 1}
    keys |= {one.name: one.key for one in fields if not one.group}
    keys |= {old: keys[new] for old, new in renamed.items() if new in keys}
    keys |= {one.key: one.key for one in fields}
    return {_plain(name): key for name, key in keys.items()} | keys


def key_of(name: Any, keys: Mapping[str, str]) -> str | None:
    """The key of the field that an answer calls so."""
    if not isinstance(name, str):
        return None
    return keys.get(name) or keys.get(_plain(name)) or keys.get(snake_case(name))


def _plain(name: str) -> str:
    return ".".join(snake_case(part) for part in name.split("."))


def _named(given: Any, dropped: Counter[str]) -> list[Field]:
    fields = []
    for one in given if isinstance(given, list) else ():
        name = snake_case(one.get("name")) if isinstance(one, dict) else ""
        if not name:
            dropped["nameless_field"] += 1
            continue
        kind, description = one.get("type"), one.get("description")
        known: FieldType | None = next((known for known in FIELD_TYPES if known == kind), "string")
        text = fold(description)[:_MAX_DESCRIPTION_CHARS] if isinstance(description, str) else ""
        fields.append(Field(name, known, bool(one.get("many")) or kind == "list", text, snake_case(one.get("group"))))
    return fields


def one_of_two_numbers(
    fields: Sequence[Field], pages: Iterable[frozenset[str]], known: Collection[str]
) -> dict[str, str]:
    """Key -> the key of the same field in the other number ("image", "images"), where no page has both.

    `pages` are the keys that each page has. The one whose name is known, else the one on more pages, keeps its name.
    """
    had = list(pages)
    counts = Counter(key for keys in had for key in keys)
    first: dict[tuple[str, str], str] = {}
    merged: dict[str, str] = {}
    for one in sorted(fields, key=lambda one: (one.name not in known, -counts[one.key])):
        kept = first.setdefault((one.group, singular(one.name)), one.key)
        if kept != one.key and not any({kept, one.key} <= keys for keys in had):
            merged[one.key] = kept
    return merged
