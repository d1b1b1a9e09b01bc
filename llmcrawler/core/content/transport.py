"""Packs what was read of a page for its way between processes: pickling it as it is takes ten times as long."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from llmcrawler.items import Link, PageContent, TextBlock

_BLOCKS_AT_ONCE: Final = 500  # pickling holds the interpreter's lock, so that no more is done in one call
_BLOCK_FIELDS: Final = ("markdown", "word_count", "score", "key", "unit", "region")
_PLAIN_FIELDS: Final = ("title", "lang", "metadata", "structured_data", "features", "cues", "robots")


class PackedContent(NamedTuple):
    """Everything of a PageContent but its kinds, in columns. `blocks` are pickled, some hundred at a time."""

    plain: tuple[Any, ...]
    links: tuple[list[str], list[str], list[str]]
    blocks: tuple[bytes, ...]


def pack_content(content: PageContent, *, with_blocks: bool = True) -> PackedContent:
    links = content.links
    blocks = content.blocks if with_blocks else ()
    parts = [blocks[start : start + _BLOCKS_AT_ONCE] for start in range(0, len(blocks), _BLOCKS_AT_ONCE)]
    return PackedContent(
        tuple(getattr(content, name) for name in _PLAIN_FIELDS),
        ([one.url for one in links], [one.text for one in links], [one.place for one in links]),
        tuple(pickle.dumps(_columns(part), pickle.HIGHEST_PROTOCOL) for part in parts),
    )


def unpack_content(packed: PackedContent) -> PageContent:
    """Return the content that `pack_content` was given, without kinds."""
    blocks: list[TextBlock] = []
    for part in packed.blocks:
        blocks += map(TextBlock, *pickle.loads(part))  # noqa: S301 - from a process of ours
    plain = dict(zip(_PLAIN_FIELDS, packed.plain, strict=True))
    return PageContent(links=tuple(map(Link, *packed.links)), blocks=tuple(blocks), **plain)


def _columns(blocks: Sequence[TextBlock]) -> list[list[Any]]:
    return [[getattr(block, name) for block in blocks] for name in _BLOCK_FIELDS]
