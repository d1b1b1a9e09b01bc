"""Names the places of a page's blocks so that they are the same on all pages of a template."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from llmcrawler.core.content.elements import TAG_IDS
from llmcrawler.core.content.layout import Layout

# Containers deeper than this are one region with what is around them: content and frame part above.
_MAX_DEPTH: Final = 24
_MAX_COLUMN: Final = 3
_CELL: Final = TAG_IDS["td"]


@lru_cache(maxsize=16384)
def _name(signature: str) -> str:
    """Return a container's tag and its first class that holds no digit, as a class with a number is often of one page
    or one build of the site.
    """
    tag, _, classes = signature.partition(' class="')
    for one in classes.partition('"')[0].split():
        if one.isalpha() or not any(map(str.isdigit, one)):
            return f"{tag}.{one}"
    return f"{tag}."


class _Region:
    """A path of containers; those within it are found by their signatures and columns."""

    __slots__ = ("inner", "path")

    def __init__(self, path: tuple[int, ...]) -> None:
        self.path = path
        self.inner: dict[tuple[str, int], _Region] = {}


class Regions:
    """Remembers the paths of containers, which the pages of a site share; of more than `most` it forgets all."""

    def __init__(self, most: int = 8_192) -> None:
        self._most = most
        self.count = 0
        self.root = _Region(())

    def inside(self, outer: _Region, signature: str, column: int) -> _Region:
        """Return the region of a container within another one."""
        found = outer.inner.get((signature, column))
        if found is None:
            if self.count >= self._most:
                self.count, self.root = 0, _Region(())
            self.count += 1
            path = outer.path
            if len(path) < _MAX_DEPTH:
                path = (*path, _inside(path[-1] if path else 0, _name(signature), column))
            found = outer.inner[signature, column] = _Region(path)
        return found


_REGIONS: Final = Regions()


def _inside(region: int, name: str, column: int) -> int:
    """Return the number of a container within a region."""
    text = f"{region} {name} {column}".encode("utf-8", "replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def _columns(layout: Layout) -> dict[int, int]:
    """Return the column of each cell that is a container: in a table that lays out the page."""
    if _CELL not in layout.tags:
        return {}
    counts: dict[int, int] = {}
    columns = {}
    for container, (tag, row) in enumerate(zip(layout.tags, layout.parents.tolist(), strict=True)):
        if tag == _CELL:
            columns[container] = counts[row] = min(counts.get(row, 0) + 1, _MAX_COLUMN)
    return columns


def block_regions(layout: Layout) -> list[tuple[int, ...]]:
    """Return for each block the regions that it stands in, the outermost first, the same tuple for a container's."""
    if layout.is_empty:
        return []
    parents, signatures, columns = layout.parents.tolist(), layout.signatures, _columns(layout)
    found: list[_Region | None] = [None] * len(parents)
    found[0] = _REGIONS.root
    regions = []
    for container in layout.containers.tolist():
        region, waiting = found[container], []
        while region is None:
            waiting.append(container)
            container = parents[container]  # noqa: PLW2901 - up to the next one that is known
            region = found[container]
        for one in reversed(waiting):
            region = found[one] = _REGIONS.inside(region, signatures[one], columns.get(one, 0))
        regions.append(region.path)
    return regions
