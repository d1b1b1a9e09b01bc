"""Packs lines and bodies of a job: zstd, bodies with a dictionary that the first pages of their site have made.

Pages of one site share most of their markup, which a dictionary holds once: bodies take a third of what they take
without (5% of the page where zstd alone comes to 16% and zlib to 17%), in a seventh of zlib's time.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, TypeVar

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Key = TypeVar("Key")
Value = TypeVar("Value")

PackingError: Final = zstd.ZstdError  # a line or a body is damaged

# Level 3 takes half as long again for a twelfth less. Damage shows by the checksum.
ZSTD_OPTIONS: Final[Mapping[int, int]] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.checksum_flag: 1,
}
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# More samples gain little. A dictionary needs some twenty times its size of them, or zstd makes a poor one.
_SAMPLES = 32
_SAMPLE_BYTES = 32 * 2**10  # of the beginning of each: to make one takes some 50 ms at most
_DICTIONARY_BYTES = 24 * 2**10
_MAX_KEPT = 64  # dictionaries in memory
_MAX_WATCHED = 2_000  # sites whose first pages are being counted


class BodyPacker:
    """Packs the bodies of one job, on its connection. The first of a site are packed without a dictionary."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._of_site: OrderedDict[str, zstd.ZstdDict] = OrderedDict()
        self._of_number: OrderedDict[int, zstd.ZstdDict] = OrderedDict()
        self._first_pages: OrderedDict[str, list[int]] = OrderedDict()  # ids of urls, by site

    def pack(self, url_id: int, site: str, body: bytes) -> bytes:
        """Pack the body of a url, which the caller stores with the next statement."""
        dictionary = self._of_site.get(site) or self._stored_or_new(site)
        if dictionary is None:
            self._first_pages[site].append(url_id)
            return zstd.compress(body, options=ZSTD_OPTIONS)
        _put_last(self._of_site, site, dictionary, _MAX_KEPT)
        return zstd.compress(body, options=ZSTD_OPTIONS, zstd_dict=dictionary.as_digested_dict)

    def unpack(self, packed: bytes) -> bytes | None:
        """Unpack a body; None where its dictionary is lost. Raises PackingError where it is damaged itself."""
        number = number_of_dictionary(packed)
        if not number:
            return zstd.decompress(packed)
        dictionary = self._of_number.get(number)
        if dictionary is None:
            query = "SELECT content, digest FROM dictionaries WHERE id = ?"
            row = self._connection.execute(query, (number,)).fetchone()
            dictionary = None if row is None else _checked(*row)
        if dictionary is None:
            return None
        _put_last(self._of_number, number, dictionary, _MAX_KEPT)
        return zstd.decompress(packed, zstd_dict=dictionary)

    def _stored_or_new(self, site: str) -> zstd.ZstdDict | None:
        if site not in self._first_pages:
            query = "SELECT content, digest FROM dictionaries WHERE site = ?"
            for row in self._connection.execute(query, (site,)).fetchall():
                if (stored := _checked(*row)) is not None:
                    return stored
        pages = self._first_pages.get(site, [])
        if len(pages) >= _SAMPLES:
            del self._first_pages[site]  # where none could be made, the next pages are tried
            if (made := self._make(site, pages)) is not None:
                return made
            pages = []
        _put_last(self._first_pages, site, pages, _MAX_WATCHED)
        return None

    def _make(self, site: str, pages: list[int]) -> zstd.ZstdDict | None:
        """Make and store a dictionary; None where that fails, or its number, a hash of it, stands for another one."""
        query = "SELECT body FROM bodies WHERE url = ? AND body IS NOT NULL"
        rows = [self._connection.execute(query, (page,)).fetchone() for page in pages]
        try:
            bodies = [self.unpack(row[0]) for row in rows if row is not None]
            made = zstd.train_dict([body[:_SAMPLE_BYTES] for body in bodies if body], _DICTIONARY_BYTES)
        except (PackingError, ValueError):  # they are damaged, too small, or too few of them are left
            return None
        row = (made.dict_id, site, made.dict_content, _digest(made.dict_content))
        self._connection.execute("INSERT OR IGNORE INTO dictionaries VALUES (?, ?, ?, ?)", row)
        query = "SELECT content FROM dictionaries WHERE id = ?"
        stored = self._connection.execute(query, (made.dict_id,)).fetchone()
        return made if stored == (made.dict_content,) else None


def pack(text: str) -> bytes:
    return zstd.compress(text.encode("utf-8", "surrogatepass"), options=ZSTD_OPTIONS)


def unpack(packed: bytes) -> str:
    """Unpack a line. Raises PackingError where it is damaged."""
    return zstd.decompress(packed).decode("utf-8", "surrogatepass")


def number_of_dictionary(packed: bytes) -> int:
    """Return the number of the dictionary that a body was packed with; 0: none."""
    return zstd.get_frame_info(packed).dictionary_id if packed.startswith(_ZSTD_MAGIC) else 0


def _checked(content: bytes, digest: bytes) -> zstd.ZstdDict | None:
    """Return the dictionary, or None where it is damaged: what it unpacked would be garbage."""
    return zstd.ZstdDict(content) if isinstance(content, bytes) and _digest(content) == digest else None


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _put_last(kept: OrderedDict[Key, Value], key: Key, value: Value, limit: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > limit:
        kept.popitem(last=False)
