"""Writes pages as Markdown files with YAML front matter into a folder, and an index of them."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from llmcrawler.core.storage.feeds.tables import as_json, clean
from llmcrawler.errors import ConfigError

INDEX = "index.jsonl"  # a line for each page

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
        if value is not None and name not in ("text", "kind") and (fields is None or name in fields or name == "url")
    }
    entry = {name: clean(line.get(name)) for name in ("url", "title", "page_type", "template", "error")}
    text = clean(line.get("text"))
    if not isinstance(text, str) or not text.strip():
        return entry, None
    return entry, f"{front_matter(facts)}\n{text.rstrip()}\n".encode()


def file_name(url: str) -> str:
    """Name a url's file by its words and a hash of all of it: /Shop/lamp?id=1 is shop-lamp-id-1-0123456789ab.md.

    The hash tells urls apart that differ only in case, in the query or in what was cut; and with it no name is one that
    Windows reserves (con.md, nul.md).
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


JOURNAL: Final = ".llmcrawler-files"


class MarkdownFolder:
    """Writes Markdown files into a folder. Raises ConfigError for one that has an index of somebody else."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        check_folder(path)
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        (path / JOURNAL).touch()
        (path / INDEX).touch()
        # A power cut may have left half a line at the end, or a line of nothing.
        whole = () if overwrite else takewhile(lambda line: line.endswith(b"}\n"), _lines(path / INDEX))
        os.truncate(path / INDEX, sum(map(len, whole)))
        sweep(path)
        self._journal = (path / JOURNAL).open("ab")
        self._index = (path / INDEX).open("ab")

    @property
    def index_path(self) -> Path:
        return self._path / INDEX

    def fileno(self) -> int:
        """Return the descriptor of the index, whose length says what is in the folder."""
        return self._index.fileno()

    def add(self, entry: Mapping[str, Any], note: bytes | None) -> None:
        """Add a page. `entry` is its line of the index; without a `note` it stands there only."""
        name = None
        if note is not None:
            name = file_name(str(entry["url"]))
            self._journal.write(name.encode() + b"\n")
            self._journal.flush()
            try:
                (self._path / name).write_bytes(note)
            except OSError:
                (self._path / name).unlink(missing_ok=True)  # half a page would be taken for the whole
                raise
        self._index.write(as_json({"file": name, **entry}).encode() + b"\n")
        self._index.flush()

    def flush(self) -> None:
        self._index.flush()

    def close(self) -> None:
        self._index.close()
        self._journal.close()


def check_folder(path: Path) -> None:
    """Raises ConfigError where no folder of pages can be written. Changes nothing."""
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; the markdown feed is a folder")
    if (path / INDEX).exists() and not (path / JOURNAL).exists():
        raise ConfigError(f"{path} has an {INDEX} that is not from a crawl: name another folder")


def sweep(path: Path) -> None:
    """Remove what crawls have written into a folder and its index does not have; and what is then left empty."""
    journal, index = path / JOURNAL, path / INDEX
    if not journal.exists():
        return
    kept: set[str] = set()
    if index.exists():
        try:
            kept = {json.loads(line)["file"] for line in _lines(index)} - {None}
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{index} is no longer an index of pages: {error}. Repair it, or remove it") from error
    for line in _lines(journal):
        name = line.decode("utf-8", "replace").strip()
        # Whoever has been at the journal: nothing but our own kind of file, and nothing elsewhere, is removed.
        if name not in kept and name.endswith(".md") and Path(name).name == name and "\0" not in name:
            (path / name).unlink(missing_ok=True)
    if kept or index.exists():
        fresh = path / f"{JOURNAL}.new"
        fresh.write_bytes(b"".join(name.encode() + b"\n" for name in sorted(kept)))
        fresh.replace(journal)
        return
    journal.unlink()
    if not any(path.iterdir()):
        path.rmdir()


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
