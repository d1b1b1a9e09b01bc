"""Splits long lists of links, so that the event loop has its turns between the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Link = TypeVar("_Link")

# Admission takes about 30 us for an ordinary link. One of 2,000 characters that all have to be escaped, or that tries
# each pattern of a trap at each place, takes 5 ms: so many characters are 30 ms at worst.
_LINKS = 200
_CHARACTERS = 12_000


def in_turns(links: Iterable[_Link], length: Callable[[_Link], int]) -> Iterator[list[_Link]]:
    """Split links into lists that can be admitted at once; `length` returns that of a link's url."""
    part: list[_Link] = []
    characters = 0
    for link in links:
        part.append(link)
        characters += length(link)
        if len(part) >= _LINKS or characters >= _CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part
