"""Places for Markdown files: a folder that a crawl can write anew, add to and take back, and a ZIP archive.

Two files in the folder tell what is whose. `index.jsonl` has a line for each page, written after the page's file; a job
that goes on cuts it back to what it held before. `.llmcrawler-files` names each file before it is made. So what stands
there and not in the index is of a run that was interrupted or is written anew, and goes; files that are named in
neither are the user's, and stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any, Final, Protocol, cast
from zipfile import ZIP_DEFLATED, ZipFile

from llmcrawler.core.storage.feeds.markdown_files import CONTENTS, INDEX, contents, file_name, index_line
from llmcrawler.errors import ConfigError

JOURNAL: Final = ".llmcrawler-files"


class MarkdownStore(Protocol):
    def add(self, entry: Mapping[str, Any], note: bytes | None) -> None:
        """Add a page. `entry` is its line of the index; without a `note` it stands there only."""

    def finish(self) -> None: ...


class MarkdownFolder:
    """Writes Markdown files into a folder. Raises ConfigError for one that has an index of somebody else."""

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
        """Return the descriptor of the index, whose length says what is in the folder."""
        return self._index.fileno()

    def add(self, entry: Mapping[str, Any], note: bytes | None) -> None:
        name = None
        if note is not None:
            name = file_name(str(entry["url"]))
            self._announce(name)
            try:
                (self._path / name).write_bytes(note)
            except OSError:
                (self._path / name).unlink(missing_ok=True)  # half a page would be taken for the whole
                raise
        self._index.write(index_line(entry, name))
        self._index.flush()

    def finish(self) -> None:
        self._announce(CONTENTS)
        with (self._path / CONTENTS).open("wb") as file:
            file.writelines(contents(lambda: _lines(self.index_path)))

    def flush(self) -> None:
        self._index.flush()

    def close(self) -> None:
        self._index.close()
        self._journal.close()

    def _announce(self, name: str) -> None:
        self._journal.write(name.encode() + b"\n")
        self._journal.flush()


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
    """Count the bytes before what a power cut may have left at the end: half a line, or a line of nothing."""
    whole = 0
    for line in _lines(index):
        if not line.endswith(b"}\n"):
            break
        whole += len(line)
    return whole


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


class MarkdownArchive:
    """Writes Markdown files into a ZIP archive. `file` need not be seekable; the index waits in `folder`."""

    def __init__(self, file: IO[bytes], folder: str | None = None) -> None:
        self._archive = ZipFile(cast("IO[bytes]", _Stream(file)), "w", ZIP_DEFLATED, compresslevel=1)
        self._index = TemporaryFile(dir=folder)  # noqa: SIM115 - it lives as long as the archive

    def add(self, entry: Mapping[str, Any], note: bytes | None) -> None:
        name = None
        if note is not None:
            name = self._free_name(str(entry["url"]))
            self._archive.writestr(name, note)
        self._index.write(index_line(entry, name))

    def finish(self) -> None:
        # The archive is closed also when the disk is full: it would try again when it is collected.
        with self._index, self._archive:
            self._index.seek(0)
            with self._archive.open(INDEX, "w", force_zip64=True) as member:
                copyfileobj(self._index, member, 2**20)
            with self._archive.open(CONTENTS, "w", force_zip64=True) as member:
                for part in contents(self._lines):
                    member.write(part)

    def _free_name(self, url: str) -> str:
        """Return a name that is not taken, as a stream cannot take back a page."""
        name, number = file_name(url), 1
        while name in self._archive.NameToInfo:
            number += 1
            name = f"{PurePath(file_name(url)).stem}-{number}.md"
        return name

    def _lines(self) -> Iterator[bytes]:
        self._index.seek(0)
        yield from self._index


class _Stream:
    """File that says of itself that it cannot seek: one opened to be added to says it can, and writes at its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write
        self.flush = file.flush
