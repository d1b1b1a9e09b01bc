"""Words that tell the kind of a page, in five groups; a linear model has a weight for each."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from llmcrawler.content.elements import H1

from .address_numbers import read_address
from .head_numbers import schema_types
from .kind_evidence import KindEvidence

_WORD: Final = re.compile(r"[^\W_]{1,24}")
_NUMBER: Final = re.compile(r"\d+")
_SHORT_WORDS: Final = 5
_MAX_SHORT_CHARS: Final = 100
_MAX_SHORT_BLOCKS: Final = 1500
_MAX_DESCRIPTION_CHARS: Final = 400
_MAX_METAS: Final = 200
_MAX_NAMES: Final = 12
_DESCRIBED: Final = ("description", "og:title", "keywords", "article:section", "generator", "og:type")


def _split(text: str) -> list[str]:
    return _WORD.findall(_NUMBER.sub("0", text.lower()))


@lru_cache(maxsize=16384)
def _short_tokens(text: str) -> list[str]:
    words = _split(text)
    return [f"={'_'.join(words)}", *words]


def _with_pairs(words: list[str]) -> list[str]:
    return words + [f"{first}_{second}" for first, second in pairwise(words)]


def kind_tokens(evidence: KindEvidence) -> dict[str, list[str]]:
    """Return the tokens of each group, a token as often as it occurs; digits are 0."""
    blocks = evidence.page.blocks
    heading = next((block.text for block in blocks if block.tag == H1), "")
    short = [block.text for block in blocks if block.words <= _SHORT_WORDS and len(block.text) <= _MAX_SHORT_CHARS]
    return {
        "address": _address_tokens(evidence.url),
        "title": _with_pairs(_split(evidence.title)),
        "heading": _with_pairs(_split(heading[:_MAX_DESCRIPTION_CHARS])),
        "short": [token for text in short[:_MAX_SHORT_BLOCKS] for token in _short_tokens(text)],
        "meta": _meta_tokens(evidence),
    }


def _address_tokens(url: str) -> list[str]:
    address = read_address(url)
    host = address.host.removeprefix("www.")
    folders = [_NUMBER.sub("0", segment)[:30] for segment in address.segments]
    found = [f"depth={min(6, len(folders))}", f"domain={host.rpartition('.')[2]}"]
    for folder in folders[:-1]:
        found += [f"folder={folder}", *(f"in={word}" for word in _split(folder))]
    if folders:
        last = folders[-1]
        suffix = last.rpartition(".")[2] if "." in last else ""
        found += [f"first={folders[0]}", f"last={last}", f"suffix={suffix[:5]}"]
        found += [f"word={word}" for word in _split(last)]
    found += [f"query={_NUMBER.sub('0', one.partition('=')[0])[:20]}" for one in address.query.split("&") if one]
    found += [f"label={label}" for label in re.split(r"[.-]", host)]
    return found + [f"host={host[start : start + 4]}" for start in range(len(host) - 3)]


def _meta_tokens(evidence: KindEvidence) -> list[str]:
    metas = evidence.metas
    found = [f"meta={name[:30]}" for name in list(metas)[:_MAX_METAS]]
    for tag, attributes in evidence.page.metas[:_MAX_METAS]:
        if tag == "link":
            found.append(f"rel={attributes.get('rel', '')[:20].lower()}")
    names = f"{evidence.page.html_attributes.get('id', '')} {evidence.page.html_attributes.get('class', '')}"
    found += [f"html={name[:20].lower()}" for name in names.split()[:_MAX_NAMES]]
    for name in _DESCRIBED:
        found += [f"{name}={word}" for word in _split(metas.get(name, "")[:_MAX_DESCRIPTION_CHARS])]
    return found + [f"schema={name[:40]}" for name, _ in schema_types(evidence.structured_data)]
