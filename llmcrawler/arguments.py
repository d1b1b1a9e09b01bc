"""A spider's `-a` arguments, checked before the first request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from llmcrawler.errors import ConfigError
from llmcrawler.extraction import Wanted, load_schema, wanted_fields
from llmcrawler.urls import normalise

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:(?!\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """What `scrapy crawl explore` was asked to do. `urls` are normalised and distinct."""

    urls: tuple[str, ...]
    max_pages: int = 500
    depth: int | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    page_types: Path | None = None
    wanted: Wanted | None = None
    force: tuple[str, ...] = ()
    refresh: bool = False
    goal: tuple[str, ...] = ()
    max_records: int | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> ExploreOptions:
        """Raises ConfigError for a wrong value. Arguments it does not know are ignored: Scrapyd adds its own."""
        goal, max_records = _names(arguments, "goal"), _number(arguments, "max_records", minimum=1)
        if max_records is not None and not goal:
            raise ConfigError(f"max_records={max_records}: of which page types? Say so with -a goal=product,article")
        return cls(
            urls=_urls(arguments),
            max_pages=_number(arguments, "max_pages", minimum=1) or 500,
            depth=_number(arguments, "depth", minimum=0),
            allow=_expressions(arguments, "allow"),
            deny=_expressions(arguments, "deny"),
            page_types=_file(arguments, "page_types"),
            wanted=_wanted(arguments),
            force=_names(arguments, "force"),
            refresh=_flag(arguments, "refresh"),
            goal=goal,
            max_records=max_records,
        )

    def identity(self) -> dict[str, Any]:
        """What two runs of one job must have in common, as plain JSON."""
        return {
            "url": list(self.urls),
            "max_pages": self.max_pages,
            "depth": self.depth,
            "allow": list(self.allow),
            "deny": list(self.deny),
            "page_types": None if self.page_types is None else f"{self.page_types.name} ({_digest(self.page_types)})",
            "schema": None if self.wanted is None else self.wanted.schema,
            "goal": sorted(self.goal) or None,
            "max_records": self.max_records,
        }


def _wanted(arguments: Mapping[str, object]) -> Wanted | None:
    schema, fields = _file(arguments, "schema"), str(arguments.get("fields") or "")
    if schema is not None and fields:
        raise ConfigError("schema and fields are two ways to say the same: give one of them")
    if schema is not None:
        return load_schema(schema)
    return wanted_fields(fields) if fields else None


def _urls(arguments: Mapping[str, object]) -> tuple[str, ...]:
    given = str(arguments.get("url") or "").split(",")
    listed = arguments.get("urls")
    if listed:
        given += _lines(Path(str(listed)))
    urls: dict[str, None] = {}
    for text in filter(None, (one.strip() for one in given)):
        url = normalise(text if _SCHEME.match(text) else f"https://{text}")
        if url is None:
            raise ConfigError(f"url={text!r} is not an http or https url")
        urls[url] = None
    if not urls:
        raise ConfigError("no url: say where to start with -a url=https://example.com (or -a urls=FILE, one a line)")
    return tuple(urls)


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"urls={path}: cannot be read: {error}") from error
    return [line for line in lines if not line.lstrip().startswith("#")]


def _number(arguments: Mapping[str, object], name: str, minimum: int) -> int | None:
    text = arguments.get(name)
    if text is None or text == "":
        return None
    try:
        number = int(str(text))
    except ValueError:
        raise ConfigError(f"{name}={text!r} is not a whole number") from None
    if number < minimum:
        raise ConfigError(f"{name}={number} is too small: at least {minimum}")
    return number


def _names(arguments: Mapping[str, object], name: str) -> tuple[str, ...]:
    text = str(arguments.get(name) or "")
    return tuple(dict.fromkeys(filter(None, (one.strip() for one in text.split(",")))))


def _flag(arguments: Mapping[str, object], name: str) -> bool:
    text = str(arguments.get(name) or "0").lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise ConfigError(f"{name}={text!r}: it is 1 or 0")


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=6).hexdigest()


def _expressions(arguments: Mapping[str, object], name: str) -> tuple[str, ...]:
    text = str(arguments.get(name) or "")
    if not text:
        return ()
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"{name}={text!r} is not a regular expression: {error}") from error
    return (text,)


def _file(arguments: Mapping[str, object], name: str) -> Path | None:
    text = str(arguments.get(name) or "")
    if not text:
        return None
    path = Path(text)
    if not path.is_file():
        raise ConfigError(f"{name}={text}: no such file")
    return path
