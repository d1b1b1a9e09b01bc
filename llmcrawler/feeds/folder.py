"""A folder of Markdown files that a crawl can write anew, add to, and take back.

Two files tell what is whose. `index.jsonl` has a line for each page, written after the page's file; a job that goes on
cuts it back to what it held before (storage/feeds.py). `.llmcrawler-files` names each file before it is made. So what
stands there and not in the index is of a run that was interrupted or is written anew, and goes; files that are named
in neither are the user's, and stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from llmcrawler.errors import ConfigError
from llmcrawler.feeds.names import file_name
from llmcrawler.feeds.notes import CONTENTS, INDEX, contents, index_line

JOURNAL: Final = ".llmcrawler-files"


class NoteFolder:
    """A NoteStore. Raises ConfigError for a folder that has an index of somebody else."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        check_folder(path)
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        (path / JOURNAL).touch()
        (path / INDEX).touch()
        os.truncate(path / INDEX, 0 if overwrite else _whole_bytes(path / INDEX))
        sweep(path)
        self._journal = (path / JOURNAL).open("ab")
        self._index = (path / INDEX).open("ab")

    @property
    def index_path(self) -> Path:
        return self._path / INDEX

    def fileno(self) -> int:
        """Of the index, whose length says what is in the folder."""
        return self._index.fileno()

    def add(self, entry: Mapping[str, Any], note: bytes | None) -> None:
        name = None
        if note is not None:
            name = file_name(str(entry["url"]))
            self._write(name, note)
        self._index.write(index_line(entry, name))
        self._index.flush()

    def finish(self) -> None:
        self._note(CONTENTS)
        with (self._path / CONTENTS).open("wb") as file:
            file.writelines(contents(lambda: _lines(self.index_path)))

    def flush(self) -> None:
        self._index.flush()

    def close(self) -> None:
        self._index.close()
        self._journal.close()

    def _note(self, name: str) -> None:
        self._journal.write(name.encode() + b"\n")
        self._journal.flush()

    def _write(self, name: str, note: bytes) -> None:
        self._note(name)
        path = self._path / name
        try:
            path.write_bytes(note)
        except OSError:
            path.unlink(missing_ok=True)  # half a page would be taken for the whole
            raise


def check_folder(path: Path) -> None:
    """Raises ConfigError where no folder of pages can be written. Changes nothing."""
    if path.exists() and not path.is_dir():
        raise ConfigError(f"{path} is a file; the markdown feed is a folder (or an archive: {path}.zip)")
    theirs = [name for name in (INDEX, CONTENTS) if (path / name).exists()]
    if theirs and not (path / JOURNAL).exists():
        raise ConfigError(f"{path} has an {theirs[0]} that is not of a crawl: name another folder")


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
            raise ConfigError(f"{index} is no index of pages any more: {error}. Put it right, or remove it") from error
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


def _whole_bytes(index: Path) -> int:
    """Without what a power cut may have left at the end: half a line, or a line of nothing."""
    whole = 0
    for line in _lines(index):
        if not line.endswith(b"}\n"):
            break
        whole += len(line)
    return whole


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file
