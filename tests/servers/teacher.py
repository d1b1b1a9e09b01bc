"""Answers the LLM contract from the truth of a site: a perfect model, or one that slips."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import urlsplit

Document = dict[str, Any]
Truth = Mapping[str, Mapping[str, Any]]
Blocks = Sequence[Mapping[str, Any]]


def answer_from_truth(
    truth: Truth, *, slip: float = 0.0, seed: int = 1, otherwise: str = "other"
) -> Callable[[Document], Document]:
    """An `answer` for FakeLLM, for both tasks. `truth`: path -> page_type and fields (`Site.truth()`)."""
    rng = Random(seed)
    fields = {path: row["fields"] for path, row in truth.items()}

    def answer(document: Document) -> Document:
        if document["task"] == "induce":
            return answer_induce(document, fields, slip=slip, rng=rng)
        labels = {label["name"] for label in document["labels"]}
        pages = []
        for page in document["pages"]:
            label = truth.get(path_of(page["url"]), {}).get("page_type")
            label = label if label in labels else otherwise
            pages.append({"id": page["id"], "label": label, "confidence": 0.95})
        return {"pages": pages}

    return answer


def answer_induce(
    document: Document, truth_by_path: Mapping[str, Mapping[str, Any]], *, slip: float = 0.0, rng: Random
) -> Document:
    """Points at the values of each page's fields, and names the fields of the pages together.

    A value's block is the one whose text equals it, else the shortest that has it as whole words. Of items of a list
    and of the values of an object, those blocks are taken that stand closest together. With probability `slip` a field
    of a page is pointed at in some other block.
    """
    given = _given_keys(document.get("schema"))
    fields: dict[str, Document] = {}
    pages = []
    for page in document["pages"]:
        values = []
        for field, value in truth_by_path.get(path_of(page["url"]), {}).items():
            for key, hits in _pointed(page["blocks"], field, value):
                if given is not None and key not in given:
                    continue
                _note(fields, key, value, named=field)
                if hits and rng.random() < slip:
                    hits = [([rng.choice(page["blocks"])["n"]], None)]  # noqa: PLW2901 - a slip replaces them all
                values += [{"field": key, "blocks": blocks, "quote": quote} for blocks, quote in hits]
        pages.append({"id": page["id"], "values": values})
    return {"fields": list(fields.values()), "pages": pages}


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def type_of(value: Any) -> str:
    """The type of a field, from one of its values."""
    meant = getattr(value, "value", value)
    if isinstance(meant, int | float):
        return "integer" if isinstance(meant, int) else "number"
    if re.match(r"\d{4}-\d{2}-\d{2}(?:T|$)", meant):
        return "date"
    return "url" if re.match(r"https?://|/\w", meant) else "string"


# A hit: the blocks of one value, and the quote (None where several blocks hold it together).
Hits = list[tuple[list[int], str | None]]


def _pointed(blocks: Blocks, field: str, value: Any) -> Iterator[tuple[str, Hits]]:
    """(key of a field, its hits on the page)."""
    if not value:
        return
    if not isinstance(value, list):
        yield field, _scalar(blocks, value)
    elif isinstance(value[0], dict):
        keys = list(dict.fromkeys(key for row in value for key in row))
        found: dict[str, Hits] = {key: [] for key in keys}
        for row, places in zip(value, _rows(blocks, value), strict=True):
            for key, place in places.items():
                found[key].append(([place], fold(row[key])))
        for key in keys:
            yield f"{field}.{key}", found[key]
    else:
        yield (
            field,
            [([place], fold(value[at])) for at, place in _close_together(blocks, dict(enumerate(value))).items()],
        )


def _scalar(blocks: Blocks, value: str) -> Hits:
    places = _places(blocks, value)
    if places:
        return [([places[0]], fold(value))]
    parts = [_places(blocks, part) for part in getattr(value, "parts", ())]
    return [([places[0] for places in parts if places], None)] if any(parts) else []


def _places(blocks: Blocks, value: str) -> list[int]:
    """The blocks that hold a value: all that equal it, else all that have it as whole words, the shortest first."""
    want = fold(value)
    equal = [block["n"] for block in blocks if fold(block["text"]) == want]
    if equal or not want:
        return equal
    whole = re.compile(r"(?<![\w.,])" + re.escape(want) + r"(?!\w|[.,]\d)")
    within = [block for block in blocks if whole.search(fold(block["text"]))]
    return [block["n"] for block in sorted(within, key=lambda block: len(block["text"]))]


def _rows(blocks: Blocks, rows: Sequence[Mapping[str, str]]) -> Iterator[dict[str, int]]:
    """The blocks of each object's values; objects stand in document order."""
    behind, used = 0, set[int]()
    for row in rows:
        places = _close_together([one for one in blocks if one["n"] > behind and one["n"] not in used], row)
        behind = max(behind, min(places.values(), default=0))
        used |= set(places.values())
        yield places


def _close_together(blocks: Blocks, values: Mapping[Any, str | None]) -> dict[Any, int]:
    """One block for each value that the page shows, so that they stand as close together as can be."""
    options = {key: _places(blocks, value) for key, value in values.items() if value}
    options = {key: places for key, places in options.items() if places}
    if not options:
        return {}
    rarest = min(options.values(), key=len)

    def nearest(anchor: int) -> dict[Any, int]:
        return {key: min(places, key=lambda place: abs(place - anchor)) for key, places in options.items()}

    return min(map(nearest, sorted(rarest)), key=lambda found: max(found.values()) - min(found.values()))


def _note(fields: dict[str, Document], key: str, value: Any, *, named: str) -> None:
    name = key.removeprefix(f"{named}.")
    group = named if name != key else None
    known = fields.setdefault(key, {"name": name, "type": None, "description": key.replace("_", " "), "many": False})
    known["group"] = group
    if group is None:
        known["many"] |= isinstance(value, list)
        known["type"] = known["type"] or type_of(value[0] if isinstance(value, list) else value)
    else:
        known["type"] = known["type"] or next(type_of(row[name]) for row in value if row.get(name))


def _given_keys(schema: Any) -> set[str] | None:
    """The keys of a user's schema; None without one."""
    if not schema:
        return None
    keys = set()
    for name, one in (schema.get("properties") or {}).items():
        items = one.get("items") or {}
        inner = items.get("properties") or {}
        keys |= {f"{name}.{key}" for key in inner} or {name}
    return keys


def fold(text: str) -> str:
    return " ".join(str(text).split())
