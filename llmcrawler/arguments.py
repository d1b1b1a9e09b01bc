"""A spider's `-a` arguments, checked before the first request."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import IO, Any, ClassVar, Final
from urllib.parse import urlsplit

from llmcrawler.errors import ConfigError
from llmcrawler.extraction import Wanted, load_schema, wanted_fields
from llmcrawler.proxies import parse_country
from llmcrawler.rendering import AUTO, MODES, NEVER
from llmcrawler.urls import ListedTask, TaskList, normalise_with_route, without_login

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:(?!\d)", re.IGNORECASE)

NO_LIMIT: Final = sys.maxsize  # of max_pages


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
    render: str = AUTO
    goal: tuple[str, ...] = ()
    max_records: int | None = None
    keys: tuple[str, ...] = ()
    has_countries: bool = False
    is_list: ClassVar[bool] = False  # what is fetched is what the user listed, and that alone

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
            render=_render(arguments),
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
            "render": self.render,
        }


@dataclass(frozen=True, slots=True)
class ExtractOptions(ExploreOptions):
    """What `scrapy crawl extract` was asked to do. The list may be long, so `urls` has one of each host only. `keys`:
    the tasks to run, of those that the list has.
    """

    listed: TaskList | None = None
    is_list: ClassVar[bool] = True

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> ExtractOptions:
        """Goes through the whole list once."""
        listed, keys = _task_list(arguments), _names(arguments, "keys")
        if keys and listed.kind != "tasks":
            raise ConfigError(f"keys={','.join(keys)}: urls have no keys; give the tasks with -a tasks=FILE.json")
        urls: dict[str, str] = {}
        missing, has_countries = set(keys), False
        for task in listed:
            urls.setdefault(urlsplit(task.url).netloc, task.url)
            details = json.loads(task.payload) if task.payload else {}
            missing.discard(details.get("key"))
            has_countries = has_countries or "country" in details
        if missing:
            raise ConfigError(f"keys={','.join(keys)}: {listed.argument} has no task {min(missing)!r}")
        if not urls:
            raise ConfigError(f"{listed.argument}: there is nothing in it to fetch")
        return cls(
            urls=tuple(urls.values()),
            max_pages=NO_LIMIT,
            depth=0,
            page_types=_file(arguments, "page_types"),
            wanted=_wanted(arguments),
            force=_names(arguments, "force"),
            refresh=_flag(arguments, "refresh"),
            render=_render(arguments),
            keys=keys,
            has_countries=has_countries,
            listed=listed,
        )

    def tasks(self) -> Iterator[ListedTask]:
        """Those of this run. Raises ConfigError when the list has become another one meanwhile."""
        assert self.listed is not None
        for task in self.listed:
            if not self.keys or (task.payload and json.loads(task.payload)["key"] in self.keys):
                yield task

    def identity(self) -> dict[str, Any]:
        assert self.listed is not None
        # Without super(): a dataclass with slots is another class than the one that this body belongs to.
        known = ExploreOptions.identity(self)
        name, _, given = self.listed.argument.partition("=")
        return {
            name: f"{given.rpartition('/')[2]} ({_digest(self.listed.path)})",
            **{one: known[one] for one in ("page_types", "schema", "render")},
        }


@dataclass(frozen=True, slots=True)
class MapOptions(ExploreOptions):
    """What `scrapy crawl map` was asked to do. `max_pages` are looked through for links."""

    max_urls: int = 30_000
    match: str | None = None
    subdomains: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> MapOptions:
        for name in ("force", "refresh"):
            if arguments.get(name) not in (None, "", "0"):
                raise ConfigError(f"{name}={arguments[name]!r}: a map has no stages to run again; name another JOBDIR")
        return cls(
            urls=_urls(arguments),
            max_pages=_number(arguments, "max_pages", minimum=1) or 1000,
            depth=_number(arguments, "depth", minimum=0),
            allow=_expressions(arguments, "allow"),
            deny=_expressions(arguments, "deny"),
            render=NEVER,
            max_urls=_number(arguments, "max_urls", minimum=1) or 30_000,
            match=next(iter(_expressions(arguments, "match")), None),
            subdomains=_flag(arguments, "subdomains"),
        )

    def identity(self) -> dict[str, Any]:
        # Without super(): a dataclass with slots is another class than the one that this body belongs to.
        known = ExploreOptions.identity(self)
        return {**known, "max_urls": self.max_urls, "match": self.match, "subdomains": self.subdomains}


def _task_list(arguments: Mapping[str, object]) -> TaskList:
    given = {name: str(arguments.get(name) or "") for name in ("urls", "tasks")}
    names = [name for name, value in given.items() if value]
    if len(names) != 1:
        raise ConfigError(
            "urls and tasks are two lists: give one of them"
            if names
            else "no list: say what to fetch with -a urls=FILE (txt, csv or jsonl; - for standard input) or "
            "-a tasks=FILE.json"
        )
    name = names[0]
    argument = f"{name}={given[name]}"
    if given[name] == "-":
        path = Path(_standard_input().name)
        return TaskList(path, argument, "tasks" if name == "tasks" else _guessed_kind(path), parse_country)
    path = Path(given[name])
    if not path.is_file():
        raise ConfigError(f"{argument}: no such file")
    kind = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".jl": "jsonl"}.get(path.suffix.lower(), "txt")
    return TaskList(path, argument, "tasks" if name == "tasks" else kind, parse_country)


@cache
def _standard_input() -> IO[bytes]:
    """What came in, in a file that lasts as long as this process: it is gone through several times."""
    copy = tempfile.NamedTemporaryFile(prefix="llmcrawler-", suffix=".urls")  # noqa: SIM115 - see above
    shutil.copyfileobj(sys.stdin.buffer, copy)
    copy.flush()
    return copy


def _guessed_kind(path: Path) -> str:
    """Of what has no name to tell by."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        first = next((line.strip() for line in file if line.strip()), "")
    if first.startswith(("{", '"')) and first.endswith(("}", '"')):
        return "jsonl"
    names = [name.strip(' "').lower() for name in first.split(",")]
    return "csv" if "url" in names else "txt"


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
        url = normalise_with_route(text if _SCHEME.match(text) else f"https://{text}")
        if url is None:
            raise ConfigError(f"url={without_login(text)!r} is not an http or https url")
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


def _render(arguments: Mapping[str, object]) -> str:
    mode = str(arguments.get("render") or AUTO).lower()
    if mode not in MODES:
        raise ConfigError(f"render={mode!r}: it is one of {', '.join(MODES)}")
    return mode


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=6)).hexdigest()


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
