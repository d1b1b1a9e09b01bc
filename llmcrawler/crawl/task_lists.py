"""Lists of what to fetch or to extract: files of urls, of requests with keys, and archives, one entry at a time."""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from glob import glob, has_magic
from hashlib import blake2b
from pathlib import Path
from typing import IO, Annotated, Any, Final, Self, TextIO
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from llmcrawler.core.storage.archives.archived_pages import (
    INDEXES,
    ArchivedPage,
    RecordPlace,
    open_archive,
    pages_of_index,
    pages_of_warc,
)
from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.core.urls import MAX_URL_LENGTH, normalise, normalise_with_route, without_login
from llmcrawler.crawl.render_choice import NEVER
from llmcrawler.errors import ConfigError, install_command

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:(?!\d)", re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_BROKEN = re.compile(r"[\udc80-\udcff]")  # bytes that were no UTF-8
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MAX_SHOWN = 100
_MAX_HEAD = 10_000  # characters of the first line
_KINDS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".jl": "jsonl"}
Country = Annotated[str, Field(pattern=r"^\s*([A-Za-z]{2}|\*)\s*$")]
_FORM = "application/x-www-form-urlencoded"
_COMPLAINTS = {
    "method": "is not an HTTP method",
    "post_payload": "is not an object of form fields, nor a string",
    "headers": "is not an object of names and values",
    "cookies": "is not an object of names and values",
    "country": "is not a country: write two letters, such as DE, or * for any",
    "timeout": "is not a number of seconds",
}
_PLACE: Final = "archived"  # the key of a record's place among a task's details
_SHARED: Final = "it shares a gzip member with others, and cannot be read by itself; `warcio recompress` mends the file"


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A url to fetch, normalised. `payload` is what else makes up the request, None for a plain GET without a key: a
    JSON object of key, method, body, headers, cookies, country, timeout (seconds) and meta, as far as they are given.
    An entry that cannot be fetched has a `fault`, which says where it stands, and `url` as it is given.
    """

    url: str
    payload: str | None = None
    fault: str = ""
    key: str | None = None


@dataclass(frozen=True, slots=True)
class TaskList:
    """A list of what to fetch, read one entry at a time. `argument` is the user's name for it, for messages; `kind` is
    txt, csv, jsonl or tasks. Iterating raises ConfigError where the rest of the file cannot be read.
    """

    path: Path
    argument: str
    kind: str

    def __iter__(self) -> Iterator[ListedTask]:
        place = ""
        try:
            for where, entry in self._entries():
                place = where
                try:
                    task = self._read(entry)
                except (ValueError, RecursionError) as error:
                    task = _faulty(entry, f"{where}: {error}")
                if task is not None:
                    yield task
        except csv.Error as error:
            raise ConfigError(f"{self.argument}: after {place or 'the start'}: it is not CSV: {error}") from error
        except OSError as error:
            raise ConfigError(f"{self.argument}: cannot be read: {error}") from error

    def _entries(self) -> Iterator[tuple[str, Any]]:
        if self.kind == "tasks":
            yield from ((f"task {key!r}", (key, value)) for key, value in self._load_tasks().items())
            return
        is_csv = self.kind == "csv"
        with self.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="" if is_csv else None) as file:
            for number, entry in self._cells(file) if is_csv else enumerate(file, 1):
                yield f"line {number}", entry

    def _load_tasks(self) -> dict[str, Any]:
        repeated: list[str] = []

        def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # of two with one name the first would be lost
            made: dict[str, Any] = {}
            repeated.clear()  # the object of all comes last
            for name, value in pairs:
                if name in made:
                    repeated.append(name)
                made[name] = value
            return made

        try:
            tasks = json.loads(self.path.read_text(encoding="utf-8-sig"), object_pairs_hook=as_dict)
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise ConfigError(f"{self.argument}: it is not JSON: {error}") from error
        if not isinstance(tasks, dict):
            raise ConfigError(f"{self.argument}: it is not a JSON object of tasks by key")
        if repeated:
            raise ConfigError(f"{self.argument}: task {repeated[0]!r}: this key occurs twice")
        return tasks

    def _read(self, entry: Any) -> ListedTask | None:
        """Read an entry: None where there is nothing to fetch. Raises ValueError for a wrong one."""
        if isinstance(entry, Exception):
            raise ValueError(f"it is not CSV: {entry}") from entry
        if self.kind == "tasks":
            return self._task(*entry)
        entry = entry.strip()
        if _BROKEN.search(entry):
            raise ValueError("it is not UTF-8")
        if not entry or (self.kind == "txt" and entry.startswith("#")):
            return None
        if self.kind != "jsonl":
            return ListedTask(read_url(entry, normalise_with_route))
        try:
            row = json.loads(entry)
        except ValueError as error:
            raise ValueError(f"it is not JSON: {error}") from error
        if isinstance(row, dict) and row.get("kind") == "template":
            return None  # the list is the feed of another crawl
        return ListedTask(read_url(row.get("url") if isinstance(row, dict) else row, normalise_with_route))

    def _cells(self, file: TextIO) -> Iterator[tuple[int, str | csv.Error]]:
        """Yield the cells of the column of urls, with their line numbers; the error of a line that is no row."""
        rows = url_rows(file)
        names = [name.strip().lower() for name in next(rows, [])]
        if "url" not in names:
            there = ", ".join(names) or "none"
            raise ConfigError(f"{self.argument}: line 1: there is no column url; there are: {there[:_MAX_SHOWN]}")
        column = names.index("url")
        while True:
            before = rows.line_num
            try:
                if (row := next(rows, None)) is None:
                    return
                yield rows.line_num, row[column] if column < len(row) else ""
            except csv.Error as error:
                if rows.line_num > before + 1:  # a quote that nothing ends has taken lines in
                    raise
                yield rows.line_num, error

    def _task(self, key: str, value: Any) -> ListedTask:
        if not key.strip():
            raise ValueError("a key must not be empty")
        if not isinstance(value, dict):
            raise ValueError(f"it is not an object with a url: {_shown(value)}")
        try:
            task = TaskRequest.model_validate(value)
        except ValidationError as invalid:
            error = invalid.errors()[0]
            field = str(error["loc"][0]) if error["loc"] else ""
            if error["type"] == "extra_forbidden":
                known = sorted(one.alias or name for name, one in TaskRequest.model_fields.items())
                raise ValueError(f"no field {field!r}; there are: {', '.join(known)}") from invalid
            if error["type"] == "value_error":
                raise error["ctx"]["error"] from invalid
            raise ValueError(f"{field}={_shown(error['input'])} {_COMPLAINTS[field]}") from invalid
        payload = json.dumps({"key": key, **task.request()}, ensure_ascii=False)
        return ListedTask(read_url(task.url), payload, key=key)


def open_list(name: str, file: str) -> TaskList:
    """Find the list that the argument `name` (urls or tasks) gives; "-" is standard input. Raises ConfigError."""
    path = Path(_standard_input().name if file == "-" else file)
    if not path.is_file():
        raise ConfigError(f"{name}={file}: {'it is a folder' if path.is_dir() else 'no such file'}")
    kind = _KINDS.get(path.suffix.lower(), "txt")
    if file == "-":  # its first line tells
        with path.open(encoding="utf-8-sig", errors="replace") as opened:
            first = next((line.strip() for line in opened if line.strip()), "")
        if first.startswith(("{", '"')) and first.endswith(("}", '"')):
            kind = "jsonl"
        elif "url" in [name.strip(' "').lower() for name in first.split(",")]:
            kind = "csv"
    return TaskList(path, f"{name}={file}", name if name == "tasks" else kind)


@cache
def _standard_input() -> IO[bytes]:
    # A copy that lasts as long as this process, as the list is gone through several times.
    copy = tempfile.NamedTemporaryFile(prefix="llmcrawler-", suffix=".urls")  # noqa: SIM115 - see above
    shutil.copyfileobj(sys.stdin.buffer, copy)
    copy.flush()
    return copy


def _faulty(entry: Any, fault: str) -> ListedTask:
    """Return the task of an entry that cannot be fetched, with as much of it as a line has room for."""
    key, given = entry if isinstance(entry, tuple) else (None, entry)
    text = given.get("url") if isinstance(given, dict) else given
    text = without_login(text.strip())[:MAX_URL_LENGTH] if isinstance(text, str) else ""
    return ListedTask(text.encode("utf-8", "replace").decode(), fault=fault, key=key)


def _plain_text(given: Any, info: ValidationInfo) -> Any:
    """Check headers or cookies. A line break would begin another one; a semicolon would cut a cookie off."""
    if not isinstance(given, dict):
        return given
    for name, value in given.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{info.field_name}: {_shown(name)} is not a valid name")
        is_cut = info.field_name == "cookies" and ";" in str(value)
        if not isinstance(value, (str, int, float)) or _CONTROL.search(str(value)) or is_cut:
            raise ValueError(f"{info.field_name}: {name} is {_shown(value)}, not plain text")
    return {name: str(value) for name, value in given.items()}


Pairs = Annotated[dict[str, str], BeforeValidator(_plain_text)]


class TaskRequest(BaseModel):
    """A request of a task list. What is null is as if it were not there."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)  # few crawls have a list

    url: Any = Field(default=None, description="what to fetch; https if it has no scheme")
    method: Annotated[str, Field(pattern="^[A-Za-z]+$")] = Field(default="", description="GET, or POST with a body")
    post_payload: str | dict[str, Any] | None = Field(default=None, description="a form's fields, or the body itself")
    json_body: Any = Field(default=None, alias="json", description="a JSON body")
    headers: Pairs = Field(default={}, description="names and values")
    cookies: Pairs = Field(default={}, description="names and values, for this task only")
    country: Country | None = Field(default=None, description="two letters, such as DE, or *: of its proxies")
    timeout: Annotated[float, Field(gt=0, lt=1e6)] | None = Field(default=None, description="seconds for one attempt")
    meta: Any = Field(default=None, description="any JSON; it is copied into the task's line")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, task: dict[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in task.items() if value is not None}
        if "json" in given and "post_payload" in given:
            raise ValueError("post_payload and json are two bodies: give one of them")
        return given

    def request(self) -> dict[str, Any]:
        """Return what makes up the request beside its url, as the payload of a ListedTask has it."""
        body, kind, headers = self.post_payload, _FORM, self.headers
        if isinstance(body, dict):
            body = urlencode({name: _form_value(one) for name, one in body.items()}, doseq=True)
        if self.json_body is not None:
            body, kind = json.dumps(self.json_body, ensure_ascii=False), "application/json"
        if body is not None and "content-type" not in map(str.lower, headers):
            headers = {**headers, "Content-Type": kind}
        method = (self.method or ("GET" if body is None else "POST")).upper()
        others = self.model_dump(include={"cookies", "country", "timeout", "meta"})
        made = {"method": method, "body": body, "headers": headers, **others}
        return {name: value for name, value in made.items() if value not in (None, {}, "")}


def read_url(given: Any, spell: Callable[[str], str | None] = normalise) -> str:
    """Return the normalised url of a text that may lack its scheme. Raises ValueError where there is none."""
    if given is None or given == "":
        raise ValueError("there is no url")
    text = given.strip() if isinstance(given, str) else ""
    url = spell(text if _SCHEME.match(text) else f"https://{text}") if text else None
    if url is None:
        shown = without_login(given.strip()) if isinstance(given, str) else given
        raise ValueError(f"url={_shown(shown)} is not an http or https url")
    return url


def url_rows(file: TextIO) -> Any:
    """Return the reader of a CSV file with a column of urls."""
    head = file.readline(_MAX_HEAD).lower()
    file.seek(0)
    # Spreadsheets put between cells what their country's numbers leave free.
    mark = next((mark for mark in ",;\t" if "url" in [name.strip('" \r\n') for name in head.split(mark)]), ",")
    return csv.reader(file, strict=True, delimiter=mark)


def _form_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_form_value(one) for one in value]
    if isinstance(value, (dict, bool)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


@dataclass(frozen=True, slots=True)
class ArchiveList:
    """Pages of WARC files, and of indexes of such. `argument` is the user's name for them, for messages; an index's
    files are below `root`. Iterating raises ConfigError where the rest of a file cannot be read.
    """

    files: tuple[str, ...]
    argument: str
    root: str = ""
    kind: Final = "warc"

    @classmethod
    def of(cls, given: str, root: str = "") -> Self:
        """Find the files that the argument `warc` names. Raises ConfigError."""
        files = tuple(archive_files(given))
        if root and not any(file.endswith(INDEXES) for file in files):
            raise ConfigError(
                f"warc_root={root}: it is where the files of an index are, and there is none in warc={given}"
            )
        return cls(files, f"warc={given}", root)

    def __iter__(self) -> Iterator[ListedTask]:
        for page in archived_pages(self.files, self.root):
            fault = page.fault or ("" if page.place is not None else f"{page.url}: {_SHARED}")
            try:
                url = page.url if fault else read_url(page.url)
            except ValueError as error:
                url, fault = page.url, str(error)
            yield ListedTask(url, None if fault else json.dumps({_PLACE: page.place}), fault)

    def digest(self) -> str:
        sizes = [archive_size(file) for file in self.files]
        return blake2b(repr((self.files, sizes, self.root)).encode(), digest_size=6).hexdigest()


def archive_files(given: str) -> list[str]:
    """Return the files that an argument names: paths and urls with commas between them, and patterns as *.warc.gz.
    Raises ConfigError where one of them cannot be read.
    """
    files: list[str] = []
    for name in filter(None, map(str.strip, given.split(","))):
        is_pattern = "://" not in name and has_magic(name) and not Path(name).exists()
        found = sorted(glob(name)) if is_pattern else [name]  # noqa: PTH207 - Path.glob takes no absolute pattern
        if not found:
            raise ConfigError(f"{name}: no such files")
        files += found
    for file in files:
        try:
            archive_size(file)
        except OSError as error:
            raise ConfigError(f"{file}: it cannot be read: {error.strerror or error}") from error
        except ImportError as error:
            raise ConfigError(f"{file}: it is read with pyarrow: {install_command('parquet')}") from error
    return files


def archive_size(file: str) -> int:
    """Return the size of a file. Raises OSError."""
    with open_archive(file) as opened:
        return opened.seek(0, 2)


def archived_pages(files: tuple[str, ...], root: str = "") -> Iterator[ArchivedPage]:
    """Yield the pages of archives, file by file. Raises ConfigError where the rest of one cannot be read."""
    for file in files:
        try:
            yield from pages_of_index(file, root) if file.endswith(INDEXES) else pages_of_warc(file)
        except (WarcFault, OSError) as error:
            raise ConfigError(f"{file}: {error}") from error


def place_of(details: dict[str, Any]) -> RecordPlace | None:
    """Return the record that answers a task, by the task's details; None for a task of the network."""
    place = details.get(_PLACE)
    return None if place is None else RecordPlace(*place)


def list_of(given: Mapping[str, Any]) -> TaskList | ArchiveList:
    """Find the list that a spider's arguments name. Raises ConfigError where they name none, or several."""
    names = [name for name in ("urls", "tasks", "warc") if name in given]
    if len(names) != 1:
        raise ConfigError(
            f"{' and '.join(names)} are several lists: give one of them"
            if names
            else "no list: give one with -a urls=FILE (txt, csv or jsonl; - for standard input), "
            "-a tasks=FILE.json or -a warc=FILE.warc.gz"
        )
    if names == ["warc"]:
        if given.get("render", NEVER) not in (NEVER, "auto"):
            raise ConfigError(
                f"render={given['render']}: pages of an archive are used unchanged, and nothing is fetched"
            )
        if str(given.get("refresh", "0")).lower() not in ("0", "false", "no", "off"):
            raise ConfigError(
                "refresh: an archive does not change; give the urls with -a urls=FILE to fetch them again"
            )
        return ArchiveList.of(str(given["warc"]), str(given.get("warc_root", "")))
    if "warc_root" in given:
        raise ConfigError(f"warc_root={given['warc_root']}: it belongs to warc=FILE.cdxj")
    return open_list(names[0], str(given[names[0]]))
