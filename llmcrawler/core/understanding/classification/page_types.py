"""Page types that a crawl tells apart: the default set, or the user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Self

from llmcrawler.errors import ConfigError

# Characters that model providers allow in an enum, and that a file name and a stat's name can hold.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_MAX_DESCRIPTION_CHARS = 500
FALLBACK_TYPE = "other"


@dataclass(frozen=True, slots=True)
class PageType:
    """A kind of page. The model reads `description`: it says what decides between this type and its neighbours."""

    name: str
    description: str


class PageTypes(tuple[PageType, ...]):
    """Page types in the order given: at least two, with distinct names. Raises ConfigError otherwise."""

    __slots__ = ()

    def __new__(cls, types: Iterable[PageType]) -> Self:
        """Check the names."""
        made = super().__new__(cls, types)
        _check_names(made.names)
        return made

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self)

    @property
    def fallback(self) -> str | None:
        """The type of a page that is none of the others: "other" where the set has it."""
        return FALLBACK_TYPE if FALLBACK_TYPE in self.names else None


def _check_names(names: Sequence[str]) -> None:
    if len(names) < 2:
        raise ConfigError(f"page types: {len(names)} given; to tell pages apart takes at least 2")
    for name in names:
        if not _NAME.match(name):
            raise ConfigError(
                f"page types: {name!r} is no name: at most 64 letters, digits, '_', '-' and '.', no mark first"
            )
    folded = [name.casefold() for name in names]
    for at, name in enumerate(folded):
        if name in folded[:at]:
            raise ConfigError(f"page types: {names[at]!r} is there twice")


def load_page_types(path: Path | Traversable) -> PageTypes:
    """Read a JSON object of name -> description. Raises ConfigError with what is wrong and where."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"page_types={path}: cannot be read: {error}") from error
    try:
        # As pairs: a dict would hide a name that is there twice.
        pairs = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"page_types={path}: not JSON: {error}") from error
    if not isinstance(pairs, tuple):
        raise ConfigError(
            f'page_types={path}: has to be a JSON object of name -> description, like {{"article": "a news story"}}'
        )
    try:
        return PageTypes([_page_type(name, description) for name, description in pairs])
    except ConfigError as error:
        raise ConfigError(f"page_types={path}: {error}") from error


def _page_type(name: str, description: Any) -> PageType:
    if not isinstance(description, str):
        raise ConfigError(f"the description of {name!r} is not a string")
    description = " ".join(description.split())
    if len(description) > _MAX_DESCRIPTION_CHARS:
        raise ConfigError(
            f"the description of {name!r} has {len(description)} characters; more than {_MAX_DESCRIPTION_CHARS} "
            "would be paid for in every call"
        )
    return PageType(name, description)


# Its descriptions are short, as every call repeats them; each says what decides against its near neighbours.
DEFAULT_PAGE_TYPES = load_page_types(files("llmcrawler.core.understanding.classification").joinpath("page_types.json"))
