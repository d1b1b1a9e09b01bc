"""Types of the spiders' arguments: how their text is read, and what is said of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, ValidationError

from llmcrawler.core.understanding.extraction import RequestedSchema, load_schema, requested_fields
from llmcrawler.core.urls import normalise_with_route
from llmcrawler.crawl.archive_lists import CaptureIndex
from llmcrawler.crawl.task_lists import read_url
from llmcrawler.errors import ConfigError

_COMPLAINTS: Final = {
    "int_parsing": "{name}={value!r} is not a whole number",
    "greater_than_equal": "{name}={value} is too small: at least {ge}",
    "bool_parsing": "{name}={value!r}: it is 1 or 0",
    "path_not_file": "{name}={value}: no such file",
    "literal_error": "{name}={value!r}: it is one of {expected}",
    "value_error": "{name}={value!r} {error}",
}


def _of_text(read: Callable[[str], Any]) -> BeforeValidator:
    """Read what came as text; values of Python stay as they are."""
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


LISTS: Final = "txt (one a line), csv, jsonl; - for stdin"
Count = Annotated[int, Field(ge=1)]
Depth = Annotated[int, Field(ge=0)]
Names = Annotated[tuple[str, ...], _of_text(split_names)]
Expression = Annotated[str, AfterValidator(_expression)]
Expressions = Annotated[tuple[Expression, ...], _of_text(lambda given: (given,))]
Urls = Annotated[tuple[str, ...], _of_text(lambda given: _read_urls(given.split(",")))]
WantedFields = Annotated[InstanceOf[RequestedSchema], _of_text(requested_fields)]
SiteIndex = Annotated[InstanceOf[CaptureIndex], _of_text(CaptureIndex.of)]
WantedSchema = Annotated[InstanceOf[RequestedSchema], _of_text(_schema_in)]
MARK: Final = "mark"
DROP: Final = "drop"
KEEP: Final = "keep"
Duplicates = Annotated[Literal["mark", "drop", "keep"], _of_text(str.lower)]
Render = Annotated[Literal["never", "auto", "always"], _of_text(str.lower)]


def complaint(invalid: ValidationError) -> str:
    """Say what is wrong with the first wrong argument."""
    error = invalid.errors()[0]
    said = _COMPLAINTS.get(error["type"], "{name}={value!r}: {msg}")
    return said.format(name=error["loc"][0], value=error["input"], msg=error["msg"], **error.get("ctx", {}))
