"""Lists of what to fetch: files of urls, and files of requests with keys. They are read one entry at a time."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlencode

from llmcrawler.errors import ConfigError
from llmcrawler.urls.normalise import normalise, without_login
from llmcrawler.urls.parts import normalise_with_route

_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:(?!\d)", re.IGNORECASE)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ListedTask:
    """`url` is normalised. `payload` is what else makes up the request, None for a plain GET without a key: a JSON
    object of key, method, body, headers, cookies, country, timeout (seconds) and meta, as far as they were given.
    """

    url: str
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class TaskList:
    """`argument` is the user's name for it, for messages. `kind`: txt, csv, jsonl or tasks.

    Going through it raises ConfigError with the line or the key of what is wrong. `check_country` does for a country.
    """

    path: Path
    argument: str
    kind: str
    check_country: Callable[[str], object]

    def __iter__(self) -> Iterator[ListedTask]:
        place = ""
        try:
            for where, entry in self._entries():
                place = where
                task = self._read(entry)
                if task is not None:
                    yield task
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self.argument}: after {place or 'the start'}: it is not UTF-8: {error}") from error
        except csv.Error as error:
            raise ConfigError(f"{self.argument}: after {place or 'the start'}: it is no CSV: {error}") from error
        except (OSError, RecursionError) as error:
            raise ConfigError(f"{self.argument}: cannot be read: {error}") from error
        except ValueError as error:
            raise ConfigError(f"{self.argument}: {place}: {error}") from error

    def _entries(self) -> Iterator[tuple[str, Any]]:
        """Each entry and where it stands."""
        if self.kind == "tasks":
            for key, value in _load_tasks(self.path, self.argument).items():
                yield f"task {key!r}", (key, value)
            return
        with self.path.open(encoding="utf-8-sig", newline="" if self.kind == "csv" else None) as file:
            for number, text in self._cells(file) if self.kind == "csv" else enumerate(file, 1):
                yield f"line {number}", text.strip()

    def _read(self, entry: Any) -> ListedTask | None:
        """ValueError where that cannot be done; None where there is nothing to fetch."""
        if self.kind == "tasks":
            return self._task(*entry)
        if not entry or (self.kind == "txt" and entry.startswith("#")):
            return None
        if self.kind != "jsonl":
            return ListedTask(_url(entry, normalise_with_route))
        try:
            row = json.loads(entry)
        except ValueError as error:
            raise ValueError(f"it is no JSON: {error}") from error
        if isinstance(row, dict) and row.get("kind") == "template":
            return None  # of a feed of ours
        return ListedTask(_url(row.get("url") if isinstance(row, dict) else row, normalise_with_route))

    def _cells(self, file: TextIO) -> Iterator[tuple[int, str]]:
        """The column of urls, with its line numbers."""
        head = file.readline().lower()
        file.seek(0)
        # Spreadsheets put between cells what their country's numbers leave free.
        mark = next((mark for mark in ",;\t" if "url" in [name.strip('" \r\n') for name in head.split(mark)]), ",")
        rows = csv.reader(file, strict=True, delimiter=mark)
        names = [name.strip().lower() for name in next(rows, [])]
        if "url" not in names:
            there = ", ".join(names) or "none"
            raise ConfigError(f"{self.argument}: line 1: there is no column url; there are: {there[:_MAX_SHOWN]}")
        column = names.index("url")
        for row in rows:
            yield rows.line_num, row[column] if column < len(row) else ""

    def _task(self, key: str, value: Any) -> ListedTask:
        if not key.strip():
            raise ValueError("a key must not be empty")
        if not isinstance(value, dict):
            raise ValueError(f"it is no object with a url: {_shown(value)}")
        unknown = sorted(set(value) - _FIELDS)
        if unknown:
            raise ValueError(f"no field {unknown[0]!r}; there are: {', '.join(sorted(_FIELDS))}")
        url = _url(value.get("url"))
        payload = _payload(key, {name: given for name, given in value.items() if given is not None}, self.check_country)
        return ListedTask(url, json.dumps(payload, ensure_ascii=False))


_FIELDS = frozenset({"url", "method", "post_payload", "json", "headers", "cookies", "country", "timeout", "meta"})


def _load_tasks(path: Path, argument: str) -> dict[str, Any]:
    try:
        tasks = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_Pairs)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{argument}: it is no JSON: {error}") from error
    if not isinstance(tasks, dict):
        raise ConfigError(f"{argument}: it is no JSON object of tasks by their keys")
    if isinstance(tasks, _Pairs) and tasks.repeated:
        raise ConfigError(f"{argument}: task {tasks.repeated[0]!r}: there are two of this key")
    return tasks


class _Pairs(dict[str, Any]):
    """An object, and the names that stand in it twice: of those the first would be lost without a word."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = [name for name in self if names.count(name) > 1] if len(self) < len(pairs) else []


def _url(given: Any, spell: Callable[[str], str | None] = normalise) -> str:
    if given is None or given == "":
        raise ValueError("there is no url")
    text = given.strip() if isinstance(given, str) else ""
    url = spell(text if _SCHEME.match(text) else f"https://{text}") if text else None
    if url is None:
        shown = without_login(given.strip()) if isinstance(given, str) else given
        raise ValueError(f"url={_shown(shown)} is not an http or https url")
    return url


def _payload(key: str, task: Mapping[str, Any], check_country: Callable[[str], object]) -> dict[str, Any]:
    headers = _pairs(task, "headers")
    body, content_type = _body(task)
    if content_type is not None and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = content_type
    method = task.get("method", "GET" if body is None else "POST")
    if not isinstance(method, str) or not method.isalpha():
        raise ValueError(f"method={_shown(method)} is no HTTP method")
    timeout, country = task.get("timeout"), task.get("country")
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout < 1e6):
        raise ValueError(f"timeout={_shown(timeout)} is no number of seconds")
    if country is not None:
        if not isinstance(country, str):
            raise ValueError(f"country={_shown(country)} is no country: write two letters, such as DE")
        try:
            check_country(country)
        except ConfigError as error:
            raise ValueError(f"country: {error}") from error
    payload = {
        "key": key,
        "method": method.upper(),
        "body": body,
        "headers": headers,
        "cookies": _pairs(task, "cookies"),
        "country": country,
        "timeout": timeout,
        "meta": task.get("meta"),
    }
    return {name: value for name, value in payload.items() if value not in (None, {}, "")}


def _body(task: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The body and its content type."""
    if "json" in task and "post_payload" in task:
        raise ValueError("post_payload and json are two bodies: give one of them")
    if "json" in task:
        return json.dumps(task["json"], ensure_ascii=False), "application/json"
    form = task.get("post_payload")
    if form is None:
        return None, None
    if isinstance(form, str):
        return form, "application/x-www-form-urlencoded"
    if not isinstance(form, dict):
        raise ValueError(f"post_payload={_shown(form)} is no object of a form's fields, nor a string")
    return urlencode({name: _form_value(value) for name, value in form.items()}, doseq=True), (
        "application/x-www-form-urlencoded"
    )


def _form_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_form_value(one) for one in value]
    if isinstance(value, (dict, bool)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


def _pairs(task: Mapping[str, Any], field: str) -> dict[str, str]:
    """Headers or cookies. A line break in one would be another one."""
    given = task.get(field, {})
    if not isinstance(given, dict):
        raise ValueError(f"{field}={_shown(given)} is no object of names and values")
    for name, value in given.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{field}: {_shown(name)} is no name of one")
        # What stands behind a semicolon would be cut off without a word.
        is_cut = field == "cookies" and ";" in str(value)
        if not isinstance(value, (str, int, float)) or _CONTROL.search(str(value)) or is_cut:
            raise ValueError(f"{field}: {name} is {_shown(value)}, and no plain text")
    return {name: str(value) for name, value in given.items()}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
