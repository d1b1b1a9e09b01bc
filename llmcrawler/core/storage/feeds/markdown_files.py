"""Writes a page as Markdown with YAML front matter, names its file, and writes the index of such files."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

from llmcrawler.core.storage.feeds.clean_values import as_json, clean

INDEX = "index.jsonl"  # for programs: a line for each page
CONTENTS = "index.md"  # for people

_ELSEWHERE = ("text", "kind")
_INDEXED = ("url", "title", "page_type", "template", "error")
_SLUG_BYTES = 80  # file systems allow 255; paths as a whole have limits too
# Characters that YAML reads as the end of a line, or does not allow, and that JSON lets stand.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NAME_CHARS = 200  # YAML takes no names of 1,024 characters or more
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))  # of YAML 1.1, which are no text


def markdown_file_of(
    line: Mapping[str, Any], fields: Collection[str] | None = None
) -> tuple[dict[str, Any], bytes | None]:
    """Return a page's line in the index and its file, None for a page without text."""
    facts = {
        name: clean(value)
        for name, value in line.items()
        if value is not None and name not in _ELSEWHERE and (fields is None or name in fields or name == "url")
    }
    entry = {name: clean(line.get(name)) for name in _INDEXED}
    text = clean(line.get("text"))
    if not isinstance(text, str) or not text.strip():
        return entry, None
    return entry, f"{front_matter(facts)}\n{text.rstrip()}\n".encode()


def file_name(url: str) -> str:
    """Name a url's file by its words and a hash of all of it: /Shop/lamp?id=1 is shop-lamp-id-1-0123456789ab.md.

    The hash tells urls apart that differ only in case, in the query or in what was cut; and with it no name is one that
    Windows reserves (con.md, nul.md) or that the folder's index has.
    """
    digest = blake2b(url.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    _scheme, _mark, rest = url.partition("://")
    host, _slash, path = (rest or url).partition("/")
    words = unicodedata.normalize("NFC", unquote(path.strip("/") or host).lower())
    # Letters of every script with the marks that belong to them, and digits.
    kept = "".join(char if unicodedata.category(char)[0] in "LMN" else "-" for char in words)
    # The end of a long path says most.
    slug = re.sub("-+", "-", kept).encode("utf-8", "ignore")[-_SLUG_BYTES:].decode("utf-8", "ignore").strip("-")
    return f"{slug}-{digest}.md" if slug else f"{digest}.md"


def front_matter(facts: Mapping[str, Any]) -> str:
    """Return clean values as YAML between two lines of dashes. YAML 1.1 (PyYAML, Jekyll) and 1.2 read the same."""
    return f"---\n{_block(facts, '')}---\n"


def _block(facts: Mapping[str, Any], indent: str) -> str:
    lines = []
    for name, value in facts.items():
        is_plain = len(name) < _NAME_CHARS and _PLAIN_NAME.fullmatch(name) and name not in _WORDS
        key = name if is_plain else _quoted(name[:_NAME_CHARS])
        nested = isinstance(value, dict) and value
        lines.append(f"{indent}{key}:" + (f"\n{_block(value, indent + '  ')}" if nested else f" {_flow(value)}\n"))
    return "".join(lines)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(name[:_NAME_CHARS])}: {_flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        # 1e+16 is text in YAML 1.1, which wants a point.
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    return json.dumps(value)


def _quoted(text: str) -> str:
    return _UNSAFE.sub(lambda char: f"\\u{ord(char[0]):04x}", json.dumps(text, ensure_ascii=False))


def index_line(entry: Mapping[str, Any], name: str | None) -> bytes:
    return as_json({"file": name, **entry}).encode() + b"\n"


def contents(lines: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """Return the index as Markdown, from its lines, which are read three times and not held in memory. A page that has
    come again stands where it was last.
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
