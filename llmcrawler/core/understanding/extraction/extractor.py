"""Extractors: the fields of a template's records, and for each the selectors that find it. All kept as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

FieldType = Literal["string", "integer", "number", "boolean", "date", "url"]
Language = Literal["css", "xpath", "json-ld"]

FIELD_TYPES: Final[tuple[FieldType, ...]] = get_args(FieldType)
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)


@dataclass(frozen=True, slots=True)
class Field:
    """A property of a record.

    `name` is its path in the record: "price", "offer.price". A field with a `group` is a property of each object of
    the array that stands at the path `group`; its name is then relative to that object. `many` is an array of
    plain values. `type` is None while nobody has said what it is: it is then read as a string.
    """

    name: str
    type: FieldType | None = None
    many: bool = False
    description: str = ""
    group: str = ""

    @property
    def key(self) -> str:
        """The name that no other field of the record has."""
        return f"{self.group}.{self.name}" if self.group else self.name


@dataclass(frozen=True, slots=True)
class Selector:
    """A way to a value on the pages of a template, and the part of the text there that is the value.

    `query` selects elements (css, xpath), text nodes (xpath), or a value of the page's JSON-LD: `Product.offers.price`
    is the path behind the type of an object. Of an element the `attribute` is taken, else its text, white space
    folded. `pattern` is a regular expression whose only group is the value; where it does not match there is none.
    `evidence` is the kind of evidence that it rests on: property, id, label, class, path, structured-data.
    `coverage` is the share of the template's pages on which it gives a value; `agreement` the share of the pages that
    were not shown to the model on which it gives what a selector of another kind of evidence gives (None: there is no
    such selector).
    """

    query: str
    language: Language
    attribute: str | None = None
    pattern: str | None = None
    evidence: str = "path"
    coverage: float = 0.0
    agreement: float | None = None


@dataclass(frozen=True, slots=True)
class FieldRule:
    """A field and its selectors, the best one first; the next is used where those before give nothing.

    The queries of a field with a group are relative to the elements that the group's selectors give. With `joined`, one
    value stands in several places (the paragraphs of a text): they are joined with line feeds.
    """

    field: Field
    selectors: tuple[Selector, ...]
    joined: bool = False


@dataclass(frozen=True, slots=True)
class TemplateExtractor:
    """Extractor of one variant of a template: the rules that turn its pages into records without the LLM."""

    page_type: str
    rules: tuple[FieldRule, ...]
    groups: tuple[tuple[str, tuple[Selector, ...]], ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(rule.field for rule in self.rules)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TemplateExtractor:
        """Read what `to_json` gave. Raises ValueError for anything else."""
        try:
            rules = tuple(
                FieldRule(_field(rule["field"]), _selectors(rule["selectors"]), bool(rule["joined"]))
                for rule in value["rules"]
            )
            groups = tuple((_text(name), _selectors(rows)) for name, rows in value["groups"])
            return cls(_text(value["page_type"]), rules, groups)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not an extractor: {error!r}") from error


def _field(value: Mapping[str, Any]) -> Field:
    field = Field(**value)
    if field.type not in (None, *FIELD_TYPES) or not field.name:
        raise ValueError(f"not a field: {value!r}")
    return field


def _selectors(values: Iterable[Mapping[str, Any]]) -> tuple[Selector, ...]:
    selectors = tuple(Selector(**value) for value in values)
    for one in selectors:
        if one.language not in LANGUAGES or not isinstance(one.query, str):
            raise ValueError(f"not a selector: {one!r}")
    return selectors


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
