"""The arguments of the spiders: how their text is read, their descriptions, and what is said of a wrong one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Set
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FilePath,
    InstanceOf,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema, load_schema, requested_fields
from llmcrawler.core.urls import normalise_with_route
from llmcrawler.crawl.credentials import read_cookies, read_headers
from llmcrawler.crawl.render_choice import NEVER
from llmcrawler.crawl.setting_checks import hint, known_settings
from llmcrawler.crawl.task_lists import ArchiveList, ListedTask, TaskList, list_of, open_list, read_url
from llmcrawler.errors import ConfigError

_MOST: Final = 10**12  # pages, urls, links: SQLite and Redis can count that far
_COMPLAINTS: Final = {
    "int_parsing": "{name}={value!r} is not a whole number",
    "int_parsing_size": f"{{name}}={{value!s:.20}}... is too large: at most {_MOST}",
    "greater_than_equal": "{name}={value} is too small: at least {ge}",
    "less_than_equal": f"{{name}}={{value!s:.30}} is too large: at most {_MOST}",
    "bool_parsing": "{name}={value!r}: it is 1 or 0",
    "path_not_file": "{name}={value}: no such file",
    "literal_error": "{name}={value!r}: it is one of {expected}",
    "value_error": "{name}={value!r} {error}",
}
LISTS: Final = "txt (one a line), csv, jsonl; - for stdin"
Count = Annotated[int, Field(ge=1, le=_MOST)]
Depth = Annotated[int, Field(ge=0, le=_MOST)]
MARK: Final = "mark"
DROP: Final = "drop"
KEEP: Final = "keep"
NO_LIMIT: Final = sys.maxsize  # of max_pages


def _fault_summary(argument: str, fetched: int, faults: int, first: str) -> str:
    """Say how many entries of a list cannot be fetched, and why the first cannot. Raises ConfigError if none can be."""
    if not fetched:
        raise ConfigError(f"{argument}: {first or 'there is nothing in it to fetch'}")
    if not faults:
        return ""
    told = f"{argument}: {faults:,} of {faults + fetched:,} entries cannot be fetched, and each gets a line"
    return f"{told} with its error, as {first}"


def _of_text(read: Callable[[str], Any]) -> BeforeValidator:
    return BeforeValidator(lambda given: read(given) if isinstance(given, str) else given)


def split_names(given: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))


def _expression(given: str) -> str:
    try:
        re.compile(given)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return given


def _read_urls(texts: Iterable[str]) -> tuple[str, ...]:
    try:
        return tuple(read_url(text, normalise_with_route) for text in texts if text.strip())
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _schema_in(file: str) -> RequestedSchema:
    if not Path(file).is_file():
        raise ConfigError(f"schema={file}: no such file")
    return load_schema(Path(file))


Names = Annotated[tuple[str, ...], _of_text(split_names)]
Expression = Annotated[str, AfterValidator(_expression)]
Expressions = Annotated[tuple[Expression, ...], _of_text(lambda given: (given,))]
Urls = Annotated[tuple[str, ...], _of_text(lambda given: _read_urls(given.split(",")))]
WantedFields = Annotated[InstanceOf[RequestedSchema], _of_text(requested_fields)]
WantedSchema = Annotated[InstanceOf[RequestedSchema], _of_text(_schema_in)]
Headers = Annotated[dict[str, str], _of_text(read_headers)]
Cookies = Annotated[tuple[dict[str, Any], ...], _of_text(read_cookies)]
Duplicates = Annotated[Literal["mark", "drop", "keep"], _of_text(str.lower)]
Render = Annotated[Literal["never", "auto", "always"], _of_text(str.lower)]


_OF_ONE_RUN: Final = frozenset(("force", "refresh"))


class ExploreOptions(BaseModel):
    """Arguments of `scrapy crawl explore`. Fields with a description are arguments of the spider, but for those
    that are `refused`. `urls` are all start urls, normalised and distinct; `faulty` are entries of a list
    that cannot be fetched, and `list_fault` says so in words.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, defer_build=True)
    is_list: ClassVar[bool] = False  # what is fetched is what the user listed, and that alone
    own: ClassVar[Set[str] | None] = None  # what a subclass of the spider declares; it may have others, but no slips
    refused: ClassVar[Mapping[str, str]] = {}  # arguments that the spider does not have: why not

    url: Urls = Field(default=(), description="where to start; several with commas")
    urls: tuple[str, ...] = Field(default=(), validate_default=True, description=f"a FILE of start urls: {LISTS}")
    max_pages: Count = Field(default=500, description="stop after this many pages")
    max_pages_per_site: Count | None = Field(default=None, description="with several sites: at most this many of each")
    depth: Depth | None = Field(default=None, description="links away from the start; 0 fetches only the start URLs")
    allow: Expressions = Field(default=(), description="only links that match this regular expression")
    deny: Expressions = Field(default=(), description="skip links that match this regular expression")
    goal: Names = Field(default=(), description="pages of these types first, such as product,article")
    max_records: Count | None = Field(default=None, description="with a goal: stop after this many of its records")
    page_types: FilePath | None = Field(default=None, description="a FILE with your own page types")
    fields: WantedFields | None = Field(
        default=None, description="fields of records, such as title,price:number,tags[]"
    )
    schema_file: WantedSchema | None = Field(default=None, alias="schema", description="the same, a JSON Schema's FILE")
    render: Render = Field(default="auto", description="pages for a browser: auto (those that need it), never, always")
    duplicates: Duplicates = Field(default=MARK, description="pages that repeat another: mark, drop, keep")
    headers: Headers = Field(default={}, repr=False, description="a FILE of headers to send: Name: value")
    cookies: Cookies = Field(default=(), repr=False, description="a FILE of cookies: cookies.txt or JSON")
    force: Names = Field(default=(), description="of a job: run these stages again, such as classify,record, or all")
    refresh: bool = Field(default=False, description="of a job: find out what has changed")

    has_countries: bool = False
    faulty: tuple[ListedTask, ...] = ()
    list_fault: str = ""
    given: Mapping[str, str] = {}  # the arguments as they were typed, but for those of one run

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, given: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(given.get("urls"), str):
            return given
        listed = open_list("urls", given["urls"])
        tasks = [*listed]
        faulty = tuple(task for task in tasks if task.fault)
        urls = tuple(task.url for task in tasks if not task.fault)
        told = _fault_summary(listed.argument, len(urls), len(faulty), faulty[0].fault if faulty else "")
        return {**given, "urls": urls, "list_fault": told, "faulty": faulty}

    @classmethod
    def arguments(cls) -> dict[str, FieldInfo]:
        named = {one.alias or name: one for name, one in cls.model_fields.items() if one.description}
        return {name: one for name, one in named.items() if name not in cls.refused}

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> Self:
        """Read the arguments of a spider. Names that start with "_" are Scrapyd's.

        Raises ConfigError for an unknown argument, with the near one, and for a wrong value.
        """
        known = cls.arguments()
        given = {name: value for name, value in arguments.items() if value is not None and value != ""}
        for name in sorted(given.keys() - known.keys() - (cls.own or set())):
            if name.startswith("_"):
                continue
            if name in cls.refused:
                raise ConfigError(f"{name}={given[name]!r}: {cls.refused[name]}")
            if name.upper() in known_settings():
                setting = f"-s {name.upper()}={given[name]}"
                raise ConfigError(f"-a {name}: it is a setting, not an argument of the spider: {setting}")
            meant = hint(name, known)
            if meant or cls.own is None:
                raise ConfigError(f"no argument {name!r}: {meant}there are {', '.join(known)}")
        typed = {name: value for name, value in given.items() if isinstance(value, str) and name[0] != "_"}
        typed = {name: value for name, value in typed.items() if name not in _OF_ONE_RUN}
        options = cls.reading({**{name: value for name, value in given.items() if name in known}, "given": typed})
        if not options.urls:
            raise ConfigError("no start URL: give one with -a url=https://example.com (or -a urls=FILE, one a line)")
        return options

    @classmethod
    def reading(cls, values: Mapping[str, object]) -> Self:
        """Read arguments that the spider has, and as few of them as there are."""
        try:
            return cls.model_validate(values)
        except ValidationError as invalid:
            error = invalid.errors()[0]
            told = _COMPLAINTS.get(error["type"], "{name}={value!r}: {msg}")
            values = {"name": error["loc"][0], "value": error["input"], "msg": error["msg"], **error.get("ctx", {})}
            raise ConfigError(told.format(**values)) from invalid

    @field_validator("urls")
    @classmethod
    def _all_starts(cls, listed: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*info.data.get("url", ()), *listed)))

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.fields and self.schema_file:
            raise ConfigError("schema and fields both define the record: give one of them")
        if self.max_records is not None and not self.goal:
            raise ConfigError(f"max_records={self.max_records}: name the page types with -a goal=product,article")
        return self

    @property
    def wanted(self) -> RequestedSchema | None:
        """The fields that records are to have; None where that is left to the model."""
        return self.fields or self.schema_file

    def identity(self) -> dict[str, Any]:
        """Return what two runs of one job must have in common, as plain JSON."""
        return {
            "url": list(self.urls),
            **self.model_dump(
                mode="json",
                include={"max_pages", "max_pages_per_site", "depth", "allow", "deny", "max_records", "render"},
            ),
            "page_types": None if self.page_types is None else f"{self.page_types.name} ({_digest(self.page_types)})",
            "schema": None if self.wanted is None else self.wanted.schema,
            "goal": sorted(self.goal) or None,
        }


class ExtractOptions(ExploreOptions):
    """Arguments of `scrapy crawl extract`. The list may be long, so `urls` has one of each host only."""

    is_list: ClassVar[bool] = True
    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("url", "max_pages", "max_pages_per_site", "depth", "allow", "deny", "goal", "max_records"),
            "give the list to fetch with urls=FILE or tasks=FILE.json",
        ),
        "duplicates": "each url of a list gives its own text and record",
    }

    urls: tuple[str, ...] = Field(default=(), description=f"a FILE of urls: {LISTS}")
    tasks: str = Field(default="", description="a FILE.json of requests by keys; - for standard input")
    warc: str = Field(default="", description="pages of archives: FILE,FILE of .warc, .warc.gz, .cdx, .cdxj")
    warc_root: str = Field(default="", description="where the archives of a .cdx or .cdxj are; else beside it")
    max_pages: Count = NO_LIMIT
    depth: Depth | None = 0
    duplicates: Duplicates = KEEP
    listed: InstanceOf[TaskList] | InstanceOf[ArchiveList] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, given: dict[str, Any]) -> dict[str, Any]:
        listed = list_of(given)
        urls: dict[str, str] = {}
        has_countries, count, faults, first_fault = False, 0, 0, ""
        for task in listed:
            if task.fault:
                faults, first_fault = faults + 1, first_fault or task.fault
                continue
            count += 1
            urls.setdefault(urlsplit(task.url).netloc, task.url)
            has_countries = has_countries or (task.payload is not None and "country" in json.loads(task.payload))
        return {
            **given,
            "list_fault": _fault_summary(listed.argument, count, faults, first_fault),
            **({"render": NEVER} if isinstance(listed, ArchiveList) else {}),
            "listed": listed,
            "urls": tuple(urls.values()),
            "has_countries": has_countries,
        }

    @property
    def is_archive(self) -> bool:
        """Tell whether all pages come from archives."""
        return isinstance(self.listed, ArchiveList)

    def identity(self) -> dict[str, Any]:
        assert self.listed is not None
        known = super().identity()
        digest = self.listed.digest() if isinstance(self.listed, ArchiveList) else _digest(self.listed.path)
        name, _, given = self.listed.argument.partition("=")
        listed = {name: f"{given.rpartition('/')[2]} ({digest})"}
        return listed | {one: known[one] for one in ("page_types", "schema", "render")}


class MapOptions(ExploreOptions):
    """Arguments of `scrapy crawl map`. `max_pages` are looked through for links."""

    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("force", "refresh"), "a map has no stages to run again; name another JOBDIR"),
        **dict.fromkeys(("goal", "max_records", "page_types", "fields", "schema"), "a map lists URLs, not records"),
        "max_pages_per_site": "a map is of one site",
        "render": "a map needs no browser",
        "duplicates": "a map reads no pages",
    }

    max_pages: Count = Field(default=1000, description="fetch at most this many pages to look for links")
    render: Render = NEVER
    duplicates: Duplicates = KEEP
    max_urls: Count = Field(default=30_000, description="list at most this many URLs, not counting the start URLs")
    match: Expression | None = Field(
        default=None, description="list only URLs that match; links are followed through the others"
    )
    subdomains: bool = Field(default=False, description="list the subdomains of the start urls' hosts too")

    def identity(self) -> dict[str, Any]:
        return super().identity() | self.model_dump(include={"max_urls", "match", "subdomains"})


def argument_names() -> frozenset[str]:
    return frozenset().union(*(one.arguments() for one in (ExploreOptions, ExtractOptions, MapOptions)))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=6)).hexdigest()
