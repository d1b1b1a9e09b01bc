"""A bounded set of the latest strings."""

from __future__ import annotations

from array import array

_BITS = 2**63 - 1
_SLOTS_PER_HASH = 2


class RecentStrings:
    """Holds at least the last `most` strings that were added, and at most twice as many, as hashes.

    Two generations of open-addressed tables, of which the older one is dropped as a whole: 32 bytes a string, where a
    Python set takes three times that.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._slots = 1 << (most * _SLOTS_PER_HASH - 1).bit_length()
        self._recent = self._before = array("q", bytes(8))  # an empty one; the first page makes a real one
        self._mask = 0
        self._count = most

    def __contains__(self, text: str) -> bool:
        key = hash(text) & _BITS or 1
        return _has(self._recent, key) or _has(self._before, key)

    def add(self, text: str) -> None:
        if self._count >= self._most:
            self._before, self._recent = self._recent, array("q", bytes(8 * self._slots))
            self._mask, self._count = self._slots - 1, 0
        key, table, mask = hash(text) & _BITS or 1, self._recent, self._mask
        at = key & mask
        while table[at] and table[at] != key:
            at = (at + 1) & mask
        self._count += not table[at]
        table[at] = key


def _has(table: array[int], key: int) -> bool:
    mask = len(table) - 1
    at = key & mask
    while found := table[at]:
        if found == key:
            return True
        at = (at + 1) & mask
    return False
