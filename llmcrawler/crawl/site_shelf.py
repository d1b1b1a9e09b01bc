"""Holds what is known of many sites: of those used last in memory, of all others packed in a temporary file."""

from __future__ import annotations

import logging
import pickle
import sqlite3
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

MOST_AWAKE: Final = 500  # some 25 KB each, more of large sites

T = TypeVar("T")

logger = logging.getLogger(__name__)


class SiteShelf(Generic[T]):
    """Objects by the names of their sites, in the order in which these came. Beyond `most_awake` the one not asked for
    longest is put away, as it is, and comes back when it is asked for; but none that somebody else holds: what that one
    does to it would be lost.
    """

    def __init__(self, most_awake: int) -> None:
        self._most_awake = most_awake
        self._awake: OrderedDict[str, T] = OrderedDict()
        self._names: dict[str, None] = {}
        self._file: sqlite3.Connection | None = None
        self._is_full = False

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names))

    def __setitem__(self, name: str, value: T) -> None:
        self._names[name] = None
        self._awake[name] = value
        self._awake.move_to_end(name)
        for _ in range(0 if self._is_full else len(self._awake) - self._most_awake):
            self._put_away()

    def __getitem__(self, name: str) -> T:
        if name not in self._awake:
            self[name] = self._fetch(name)
        self._awake.move_to_end(name)
        return self._awake[name]

    def forget(self, name: str) -> None:
        """Let the next one of this name be new."""
        self._names.pop(name, None)
        self._awake.pop(name, None)

    def _put_away(self) -> None:
        name, value = self._awake.popitem(last=False)
        try:
            self._write(name, zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1))
        except sqlite3.Error as error:
            logger.warning("What is known of sites stays in memory, as no temporary file can be written: %s", error)
            self._is_full = True
            self._awake[name] = value
            return
        alive = weakref.ref(value)
        del value
        held = alive()
        if held is not None:
            self._awake[name] = held

    def _write(self, name: str, packed: bytes) -> None:
        if self._file is None:
            # The name "" gives a database of this connection alone. What does not fit its cache is in a file that is
            # never synced, and gone with the connection. Whichever thread collects the shelf as garbage closes it.
            self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._file.close)
            self._file.execute("CREATE TABLE sites (name TEXT PRIMARY KEY, packed BLOB) WITHOUT ROWID")
        self._file.execute("INSERT OR REPLACE INTO sites VALUES (?, ?)", (name, packed))

    def _fetch(self, name: str) -> T:
        if name not in self._names or self._file is None:
            raise KeyError(name)
        (packed,) = self._file.execute("SELECT packed FROM sites WHERE name = ?", (name,)).fetchone()
        value: T = pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed by this process
        return value
