"""A page as a Markdown file with its facts on top, and the index of such files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from llmcrawler.feeds.front_matter import front_matter
from llmcrawler.feeds.values import as_json, clean

INDEX = "index.jsonl"  # for programs: a line for each page
CONTENTS = "index.md"  # for people

_ELSEWHERE = ("text", "kind")
_INDEXED = ("url", "title", "page_type", "template", "error")


class NoteStore(Protocol):
    """Where Markdown files go: a folder, or an archive."""

    def add(self, entry: Mapping[str, Any], note: bytes | None) -> None:
        """`entry` is a line of the index; a page without text has no `note`, and stands in the index only."""

    def finish(self) -> None: ...


def note_of(line: Mapping[str, Any], wanted: Collection[str] | None = None) -> tuple[dict[str, Any], bytes | None]:
    """The index's entry and the file; None for a page without text."""
    facts = {
        name: clean(value)
        for name, value in line.items()
        if value is not None and name not in _ELSEWHERE and (wanted is None or name in wanted or name == "url")
    }
    entry = {name: clean(line.get(name)) for name in _INDEXED}
    text = clean(line.get("text"))
    if not isinstance(text, str) or not text.strip():
        return entry, None
    return entry, f"{front_matter(facts)}\n{text.rstrip()}\n".encode()


def index_line(entry: Mapping[str, Any], name: str | None) -> bytes:
    return as_json({"file": name, **entry}).encode() + b"\n"


def contents(lines: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """The index as Markdown, from its lines, which are gone through three times and not held. A page that has come
    again stands where it was last.
    """
    last: dict[str, int] = {}
    without = 0
    for number, line in enumerate(lines()):
        entry = json.loads(line)
        last[entry["file"] or entry["url"]] = number
        without += entry["file"] is None
    yield f"# Pages\n\n{len(last)} pages, {without} of them without text.\n\n".encode()
    for number, line in enumerate(lines()):
        entry = json.loads(line)
        if entry["file"] is not None and last[entry["file"]] == number:
            about = f" {entry['page_type']}" if entry.get("page_type") else ""
            title = _inline(entry.get("title") or entry["url"])
            yield f"- [{title}]({entry['file']}){about} {_address(entry['url'])}\n".encode()
    if without:
        yield b"\n## Without text\n\n"
        for number, line in enumerate(lines()):
            entry = json.loads(line)
            if entry["file"] is None and last[entry["url"]] == number:
                error = entry.get("error") or {}
                yield f"- {_address(entry['url'])} {_inline(error.get('message') or '')}".rstrip().encode() + b"\n"


def _inline(text: Any) -> str:
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", " ".join(str(text).split()))


def _address(url: Any) -> str:
    return f"<{re.sub(r'[<>]', '', ''.join(str(url).split()))}>"
