"""Finds the number of a url in a job's file by a key, a hash of the url."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from llmcrawler.core.storage.body_packer import BodyPacker
from llmcrawler.core.urls import dedup_key

# Keys are spread evenly, so in a large table each of them changes a page of its own: a million urls would cost four
# times the writes of ten thousand. New ones are gathered in memory, and put in by the thousands in their order.
_MIN_GATHERED, _MAX_GATHERED = 20_000, 200_000
_GATHERED_SHARE = 50

REQUEST_MARK: Final = "#request:"  # between the url of a spider's own request and what alone identifies it


def url_key(url: str) -> int:
    """Hash a normalised url to 64 bits: among ten million urls two collide once in 370,000 crawls."""
    _address, mark, identity = url.rpartition(REQUEST_MARK)
    digest = blake2b((identity if mark else dedup_key(url)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class UrlKeys:
    """The keys of one connection, used by its thread alone. New keys are gathered in memory; after a crash they are
    made again from `urls`, where their numbers follow the last one in `keys`.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        keyed = connection.execute("SELECT value FROM job WHERE name = 'keyed'").fetchone()
        rows = connection.execute("SELECT id, url FROM urls WHERE id > ?", (int(keyed[0]) if keyed else 0,))
        self._gathered = {url_key(url): number for number, url in rows}
        (last,) = connection.execute("SELECT max(id) FROM urls").fetchone()
        self.next_number = (last or 0) + 1

    def find(self, key: int) -> int | None:
        number = self._gathered.get(key)
        if number is None:
            row = self._connection.execute("SELECT url FROM keys WHERE key = ?", (key,)).fetchone()
            number = None if row is None else row[0]
        return number

    def add(self, numbers: Mapping[int, int]) -> None:
        """Add the keys of urls that were just inserted: key -> number, counting on from `next_number`."""
        self._gathered.update(numbers)
        self.next_number += len(numbers)
        if len(self._gathered) >= min(max(_MIN_GATHERED, self.next_number // _GATHERED_SHARE), _MAX_GATHERED):
            self._connection.executemany("INSERT INTO keys VALUES (?, ?)", sorted(self._gathered.items()))
            self._connection.execute("INSERT OR REPLACE INTO job VALUES ('keyed', ?)", (str(self.next_number - 1),))
            self._gathered.clear()


class JobConnection(sqlite3.Connection):
    """A connection to a job's file."""

    _keys: UrlKeys | None = None
    _packer: BodyPacker | None = None

    @property
    def keys(self) -> UrlKeys:
        if self._keys is None:
            self._keys = UrlKeys(self)
        return self._keys

    @property
    def packer(self) -> BodyPacker:
        if self._packer is None:
            self._packer = BodyPacker(self)
        return self._packer
