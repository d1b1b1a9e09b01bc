"""A feed (JSON Lines, also compressed with gzip) as material for a report."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from llmcrawler.errors import ConfigError
from llmcrawler.reporting.html.material import Line, Material
from llmcrawler.urls import site_name

_KINDS = ("page", "url")  # lines of a crawl, and of a map

_GAPS = (
    "Requests in flight, 429 and 503 answers, and what bounded the crawl: a feed has only the pages that came of it.",
    "Tokens and cost of the model: a feed has only the calls for learning a template.",
    "What waits in the queue, and earlier runs.",
)
_CURE = "With -s JOBDIR=FOLDER a crawl keeps these, and scrapy report FOLDER shows them."


@contextmanager
def feed_material(path: Path) -> Iterator[Material]:
    """Raises ConfigError, also while its lines are read, where it is no feed of ours."""
    try:
        with _open(path) as file:
            templates: list[dict[str, Any]] = []
            yield Material(path.name, _lines(file, path, templates), templates, gaps=[*_GAPS], cure=_CURE)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: is damaged, or no feed in JSON Lines ({error})") from error


def _open(path: Path) -> IO[str]:
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    if is_packed:
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _lines(file: IO[str], path: Path, templates: list[dict[str, Any]]) -> Iterator[Line]:
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    found = 0
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            line = _line(text, path, number)
        except ConfigError:
            if found and not text.endswith("\n"):  # the crawl is writing it, or was ended there
                break
            raise
        if line.get("kind") == "template" and isinstance(line.get("template"), str):
            site = next((site_name(url) for url in line.get("examples") or ()), "")
            newest[site, line["template"]] = {**line, "site": site}  # it comes again when it changes
        elif line.get("kind") in _KINDS and isinstance(line.get("url"), str):
            found += 1
            yield line
    if not found and not newest:
        raise ConfigError(f"{path}: there is no page in it; a report is made of a JOBDIR, or of a feed in JSON Lines")
    templates.extend(newest.values())


def _line(text: str, path: Path, number: int) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: line {number} is no JSON ({error}); a report needs a feed in JSON Lines") from error
    if not isinstance(line, dict):
        raise ConfigError(f"{path}: line {number} is no line of a feed")
    return line
