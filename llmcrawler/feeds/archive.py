"""The same files as in a folder, in a ZIP archive: one stream, so it goes wherever a feed can go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from tempfile import TemporaryFile
from typing import IO, Any, cast
from zipfile import ZIP_DEFLATED, ZipFile

from llmcrawler.feeds.names import file_name
from llmcrawler.feeds.notes import CONTENTS, INDEX, contents, index_line

_CHUNK_BYTES = 2**20


class NoteArchive:
    """A NoteStore. `file` need not be seekable; it stays open. `folder`: where the index waits for the end."""

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
            for name, parts in ((INDEX, self._chunks()), (CONTENTS, contents(self._lines))):
                self._add_file(name, parts)

    def _add_file(self, name: str, parts: Iterable[bytes]) -> None:
        with self._archive.open(name, "w", force_zip64=True) as member:
            for part in parts:
                member.write(part)

    def _free_name(self, url: str) -> str:
        """A stream can't take back the page that it has under this name."""
        name, number = file_name(url), 1
        while name in self._archive.NameToInfo:
            number += 1
            name = f"{PurePath(file_name(url)).stem}-{number}.md"
        return name

    def _chunks(self) -> Iterator[bytes]:
        self._index.seek(0)
        while chunk := self._index.read(_CHUNK_BYTES):
            yield chunk

    def _lines(self) -> Iterator[bytes]:
        self._index.seek(0)
        yield from self._index


class _Stream:
    """A file that can't go back. One that was opened to be added to says it can, and then writes at its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write
        self.flush = file.flush
