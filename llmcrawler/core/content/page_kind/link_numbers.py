"""Numbers from the links of a page: where they lead, beside it, below it or away from it, and how they are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log1p
from typing import Final

import numpy as np

from llmcrawler.core.content.hints import HINTS
from llmcrawler.core.content.layout import ABOVE, Layout, bit_columns
from llmcrawler.core.content.page_kind.address_numbers import ADDRESS_WORDS, KINDS_OF_WORD, read_address
from llmcrawler.core.content.page_kind.kind_evidence import BlockNumbers
from llmcrawler.core.content.segments import Segments
from llmcrawler.items import Link

# A name for each of HINTS.
_HINT_NAMES: Final = tuple(
    "nav foot header comment side share related cookie ad meta content post product card review filter hero faq".split()
)


def container_numbers(page: Segments, layout: Layout, blocks: BlockNumbers) -> dict[str, float]:
    """Return the share of blocks, words and prose under each hint and each tag of ABOVE."""
    count, total = len(blocks.words), blocks.total_words
    prose = blocks.words * blocks.prose
    shares = np.stack([np.full(count, 1 / count), blocks.words / total, prose / max(1.0, float(prose.sum()))])
    found: dict[str, float] = {}
    for prefix, names, columns in (("hint", _HINT_NAMES, layout.block_hints), ("within", ABOVE, layout.block_above)):
        for part, row in zip(("blocks", "words", "prose"), (shares @ columns).tolist(), strict=True):
            for name, share in zip(names, row, strict=True):
                found[f"{prefix} {name} {part}"] = share
    values, times = np.unique(layout.own_hints, return_counts=True)
    own = times @ bit_columns(values, len(HINTS))
    for name, number in zip(_HINT_NAMES, own.tolist(), strict=True):
        found[f"hint {name} elements"] = log1p(number)
    found["depth mean"] = float(layout.depth[layout.containers].mean())
    found["depth greatest"] = float(layout.depth.max())
    found["containers a block"] = len(page.parents) / count
    return found


_USERS: Final = frozenset({"u", "user", "users", "author"})
_LONG_TEXT_SPACES: Final = 4
_MAX_LINKS: Final = 1500


def link_numbers(url: str, links: Sequence[Link], blocks: BlockNumbers) -> dict[str, float]:
    """Return shares and counts of the links of each sort; of very many links the first ones are looked at."""
    links = links[:_MAX_LINKS]
    address = read_address(url)
    host, path = address.host.removeprefix("www."), address.path.rstrip("/")
    parent = path.rpartition("/")[0]
    external = below = beside = users = queries = unnamed = long_texts = 0
    folders: list[str] = []
    by_kind = dict.fromkeys(ADDRESS_WORDS, 0)
    for link in links:
        unnamed += not link.text
        long_texts += link.text.count(" ") >= _LONG_TEXT_SPACES
        _, _, site, rest = [*link.url.split("/", 3), "", "", ""][:4]
        target, asked, _ = f"/{rest}".lower().partition("?")
        queries += bool(asked)
        parts = target.split("/")
        if known := [name for name in parts if name in KINDS_OF_WORD]:
            for kind in {kind for name in known for kind in KINDS_OF_WORD[name]}:
                by_kind[kind] += 1
        users += "profile" in target or "member" in target or not _USERS.isdisjoint(parts[:-1])
        if site.removeprefix("www.") != host:
            external += 1
            continue
        target = target.rstrip("/")
        folder = target.rpartition("/")[0]
        below += bool(path) and target.startswith(f"{path}/")
        beside += bool(parent) and folder == parent
        folders.append(folder)
    count = max(1, len(links))
    most = max(Counter(folders).values(), default=0)
    found: dict[str, float] = {
        "links": log1p(len(links)),
        "links a word": len(links) / blocks.total_words,
        "links a block": len(links) / len(blocks.words),
        "links away": external / count,
        "links below share": below / count,
        "links beside share": beside / count,
        "links of a folder": log1p(most),
        "links of a folder share": most / count,
        "links unnamed": unnamed / count,
        "links with long text": log1p(long_texts),
        "links with long text share": long_texts / count,
        "links with query": queries / count,
        "links to users": users / count,
    }
    for kind, number in by_kind.items():
        found[f"links to {kind}"] = number / count
    return found
