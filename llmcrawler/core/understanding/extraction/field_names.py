"""Knows what fields are called: as labels on pages, by people who ask for them, and by schema.org; and the usual fields
of page types. The words are in field_names.json, by language.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Final

from llmcrawler.core.understanding.extraction.record_schema import FIELD_TYPES, Field, FieldType

_WORDS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Words of a name as classes and ids are written: "priceBox", "price-box", "PRICE".
NAME_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MAX_NAME_CHARS: Final = 64
# Marks without which a letter that is not Latin is another one: й, が, ぱ.
_OF_LETTERS: Final = "\u0306\u3099\u309a"
_MARKS: Final = "".join(filter(unicodedata.combining, map(chr, range(0x300, 0x3100)))).translate(
    dict.fromkeys(map(ord, _OF_LETTERS))
)
_MARK: Final = re.compile(f"[{_MARKS}]")
_NO_PART_OF_LETTER: Final = re.compile(rf"(?<![^\x00-\x7f])[{_OF_LETTERS}]")
_BETWEEN_WORDS: Final = re.compile(r"[^\w\n]|_")
# What comes behind these in a description is what a type or a field is not, or is beside it.
_ASIDE: Final = re.compile(r"\b(?:not|no|but|rather|without|except|with)\b|[;(]", re.IGNORECASE)
# A unit or a count behind a label is no part of what it says.
_UNIT: Final = re.compile(
    r"\s*[(\[]\s*(?:[kmcd]?[gml]|lbs?|oz|in(?:ch(?:es)?)?|ft|k?m[²2³3]?|sq\.? ?ft|min(?:ute)?s?|h(?:ou)?rs?|days|kcal"
    r"|kW|hp|PS|USD|EUR|GBP|[€$£%]|\d+)\.?\s*[)\]]",
    re.IGNORECASE,
)

_SAME: Final = 0.95
_OF_PARTS: Final = 0.8
_QUALIFIED: Final = 0.7
_OF_COMPOUND: Final = 0.6
_DESCRIBED: Final = 0.7
# Types of values that none of the others' values are; texts may be any.
_KINDS: Final = {"number": "number", "integer": "number", "date": "date", "url": "url"}
# Scripts from here on write no spaces between words.
_UNSPACED: Final = "\u3040"
_OF_LAST_PART: Final = 0.9
_WRONG_TYPE: Final = 0.3
_FEWEST_CHARS: Final = 5
_WITHOUT_STROKE: Final = {"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe"}
_WITH_STROKE: Final = re.compile(rf"[{''.join(_WITHOUT_STROKE)}]")
_UMLAUT: Final = re.compile(r"([aou])e")  # as those write who have no key for "ä"


def snake_case(name: Any) -> str:
    """Return a name in snake_case, without accents; "" for what has no letters in it."""
    return _in_snake_case(name[:_MAX_NAME_CHARS]) if isinstance(name, str) else ""


@lru_cache(maxsize=4_096)
def _in_snake_case(name: str) -> str:
    snake = "_".join(_WORDS.findall(_folded(_CAMEL.sub(" ", name))))
    return snake if any(map(str.isalpha, snake)) else ""


def _folded(text: str) -> str:
    """Return a text in small letters without accents."""
    plain = text.casefold()
    if plain.isascii():
        return plain
    plain = _WITH_STROKE.sub(lambda match: _WITHOUT_STROKE[match[0]], plain)
    plain = _MARK.sub("", unicodedata.normalize("NFKD", plain))
    return unicodedata.normalize("NFC", _NO_PART_OF_LETTER.sub("", plain))


def singular(name: str) -> str:
    """Return one name for "images" and "image"."""
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    return name[:-1] if len(name) > 3 and name.endswith("s") and not name.endswith(("ss", "us", "is")) else name


@lru_cache(maxsize=4_096)
def canonical_name(label: str) -> str:
    """Return what a label is called as a field: the usual field that it is a word for, else its own words; "" for what
    has no letters."""
    name = snake_case(_UNIT.sub("", label).strip())
    return _known(name) or name


def schema_paths(name: str) -> tuple[str, ...]:
    """Return where schema.org has what people call so, the best first."""
    return _table().paths.get(_known(snake_case(name)), ())


def usual_fields(page_type: str, description: str = "") -> tuple[Field, ...]:
    """Return the fields that pages of a type mostly have, by words in its name, else in its description."""
    kinds = _table().page_types
    texts = (snake_case(page_type), snake_case(_ASIDE.split(description, maxsplit=1)[0]))
    return kinds[next(filter(None, map(_page_type_in, texts)), "other")]


def usual_type(name: str) -> FieldType | None:
    """Return the type of the usual field that a name is a word for; None where it is none."""
    usual = _table().fields.get(canonical_name(name))
    return None if usual is None else usual.type


@lru_cache(maxsize=4_096)
def usual_kind(name: str) -> str | None:
    """Return of which of text_kinds.KINDS the values mostly are of what is called so: by the whole name, else by its
    last words, else by its first ones; None where none of them is known, or its values are of no kind."""
    words = snake_case(name).split("_")
    parts = [words, *(words[at:] for at in range(1, len(words))), *(words[:-at] for at in range(1, len(words)))]
    known = next(filter(None, (_known(_core("_".join(part))) for part in parts)), "")
    return _table().kinds.get(known)


@lru_cache(maxsize=4_096)
def affinity(requested: Field, name: str) -> float:
    """Return how surely a usual field, or a label on a page, is what a requested field means, in 0..1."""
    offered = {snake_case(name), canonical_name(name)} - {""}
    asked = {snake_case(requested.name): 1.0, snake_case(requested.name.rpartition(".")[2]): _OF_LAST_PART}
    asked[snake_case(requested.name)] = 1.0
    found = max((worth * _alike(one, other) for one, worth in asked.items() for other in offered), default=0.0)
    if requested.description and not any(_known(_core(one)) for one in asked):
        found = max(found, *(_DESCRIBED * _is_described(requested.description, other) for other in offered), 0.0)
    usual = _table().fields.get(_known(_core(canonical_name(name))))
    kinds = {_KINDS.get(one.type or "") for one in (usual, requested) if one is not None} - {None}
    return found * _WRONG_TYPE if len(kinds) > 1 else found


@lru_cache(maxsize=4_096)
def is_furniture(label: str) -> bool:
    """Tell whether a label names nothing of the page's record: a weekday, or what shops and sites have on all pages."""
    table, name = _table(), snake_case(label)
    words = set(name.split("_"))
    if not name or name in table.furniture or (words & table.days and words <= table.days | table.between_days):
        return True
    return any(f"_{one}_" in f"_{name}_" or (one[0] >= _UNSPACED and one in name) for one in table.furniture_within)


# -- the table --


@dataclass(frozen=True, slots=True)
class _Table:
    """`words`: what people say, without spaces -> the usual field. `kinds`: usual field -> what kind of text its values
    are. `paths`: usual field -> schema.org's. `page_words`: what page types are called -> one of `page_types`. `kin`:
    how often two fields are one. `empty_words`: they add nothing to the name that they stand in ("item weight", "the
    author's name")."""

    fields: Mapping[str, Field]
    words: Mapping[str, str]
    kinds: Mapping[str, str]
    paths: Mapping[str, tuple[str, ...]]
    page_types: Mapping[str, tuple[Field, ...]]
    page_words: Mapping[str, str]
    kin: Mapping[tuple[str, str], float]
    furniture: frozenset[str]
    furniture_within: tuple[str, ...]
    days: frozenset[str]
    between_days: frozenset[str]
    empty_words: frozenset[str]
    short_forms: Mapping[str, str]
    opposites: Mapping[str, str]


@cache
def _table() -> _Table:
    given = json.loads(files(__package__).joinpath("field_names.json").read_text(encoding="utf-8"))
    fields = {
        name: Field(name, _type_of(one.get("type")), one.get("many", False)) for name, one in given["fields"].items()
    }
    words = {name.replace("_", ""): name for name in fields}
    # All at once: a process that starts has no time for 33,000 words one by one.
    said = "\n\n".join("\n".join(one["words"].values()) for one in given["fields"].values()).replace(", ", "\n")
    folded = _BETWEEN_WORDS.sub("", _folded(said)).split("\n\n")
    for name, some in zip(fields, folded, strict=True):
        words |= dict.fromkeys(some.split("\n"), name)
    kinds = given["page_types"]
    kin = {(one, other): weight for one, others in given["kin"].items() for other, weight in others.items()}
    furniture = given["furniture"]
    return _Table(
        fields,
        words,
        {name: one["kind"] for name, one in given["fields"].items() if "kind" in one},
        {name: tuple(one.get("schema_org", "").split()) for name, one in given["fields"].items()},
        {name: tuple(fields[field] for field in one["fields"].split()) for name, one in kinds.items()},
        {word: name for name, one in reversed(kinds.items()) for word in _listed({"": one["words"]}, " ")},
        kin | {(other, one): weight for (one, other), weight in kin.items()},
        frozenset(_listed(furniture["whole"], ", ")),
        tuple(_listed(furniture["within"], ", ")),
        frozenset(_listed(furniture["days"], " ")),
        frozenset(furniture["between_days"].split()),
        frozenset(given["empty_words"].split()),
        given["short_forms"],
        given["opposites"],
    )


def _listed(by_language: Mapping[str, str], between: str) -> Iterator[str]:
    for words in by_language.values():
        yield from map(snake_case, words.split(between))


def _type_of(name: str | None) -> FieldType:
    return next((one for one in FIELD_TYPES if one == name), "string")


def _page_type_in(name: str) -> str:
    """Return the kind of page that a name speaks of; of several the first of the table, of a whole name its own."""
    words = _table().page_words
    parts = name.split("_")
    said = {words.get("_".join(parts[at : at + size])) for at in range(len(parts)) for size in (1, 2)}
    return words.get(name) or next((one for one in _table().page_types if one in said), "")


# -- comparing names --


@lru_cache(maxsize=4_096)
def _known(name: str) -> str:
    """Return the usual field that a name in snake_case is a word for, "" for none."""
    plain = name.replace("_", "")
    words = _table().words
    return words.get(plain) or words.get(singular(plain)) or ""


@lru_cache(maxsize=4_096)
def _core(name: str) -> str:
    """Return a name without the words that add nothing to it."""
    return "_".join(part for part in name.split("_") if part not in _table().empty_words) or name


@lru_cache(maxsize=4_096)
def _alike(one: str, other: str) -> float:
    """Return how surely two names in snake_case mean the same."""
    plain, other_plain = one.replace("_", ""), other.replace("_", "")
    if plain == other_plain:
        return 1.0
    if _UMLAUT.sub(r"\1", plain) == _UMLAUT.sub(r"\1", other_plain):
        return _SAME
    for first, second in ((one, other), (_core(one), _core(other))):
        known, known_too = _known(first), _known(second)
        if known and known_too:
            return _SAME if known == known_too else _table().kin.get((known, known_too), 0.0)
    return max(_of_parts(_parts(one), _parts(other)), _of_compound(one, other), _of_compound(other, one))


@lru_cache(maxsize=4_096)
def _parts(name: str) -> frozenset[str]:
    """Return what a name is made of, each word by the usual field or the long form that it stands for."""
    long = _table().short_forms
    parts = (long.get(part, part) for part in _core(name).split("_"))
    return frozenset(_known(part) or singular(part) for part in parts)


def _of_parts(one: frozenset[str], other: frozenset[str]) -> float:
    shared, apart = one & other, one ^ other
    if not shared or any({first, second} <= apart for first, second in _table().opposites.items()):
        return 0.0
    if not apart:
        return _SAME
    likeness = _OF_PARTS * 2 * len(shared) / (len(one) + len(other))
    usual = _table().fields
    # "Shipping price" is no price of the thing, "price per night" is.
    if any(part in usual for part in apart) or not any(part in usual for part in shared):
        return likeness / 2
    return max(likeness, _QUALIFIED) if one <= other or other <= one else likeness


def _of_compound(name: str, other: str) -> float:
    """Compare the end of a word that is made of two with a usual field: "Gesamtpreis" is a "preis"."""
    known = _known(other)
    ends = (name[at:] for at in range(2, len(name) - _FEWEST_CHARS + 1)) if known and "_" not in name else ()
    return _OF_COMPOUND if any(_table().words.get(end) == known for end in ends) else 0.0


def _is_described(description: str, offered: str) -> float:
    """Return how surely a description speaks of a usual field or a label, the earlier the surer."""
    words = [snake_case(word) for word in _WORDS.findall(_ASIDE.split(description, maxsplit=1)[0])]
    known = _known(_core(offered))
    if not known:
        return _OF_PARTS if _parts(offered) <= _parts("_".join(words)) else 0.0
    said = [*map("_".join, pairwise(words)), *(word for word in words if word not in _table().empty_words)]
    spoken = list(dict.fromkeys(filter(None, map(_known, said))))
    return 1 / (1 + spoken.index(known)) if known in spoken else 0.0
