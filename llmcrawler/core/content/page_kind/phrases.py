"""Counts phrases that tell what kind of page it is ("add to cart", "last reply", "on this page"), in groups."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from math import log1p
from typing import Final

from llmcrawler.core.content.page_kind.kind_evidence import BlockNumbers

_TOKEN: Final = re.compile(r"[a-z]+|[0-9](?![0-9])|[$%#:]")
_SHORT_CHARS: Final = 200

# The words behind the first two of a phrase, and the numbers of the groups that it counts for.
_Endings = list[tuple[list[str], int]]


@lru_cache(maxsize=1)
def phrase_groups() -> dict[str, list[str]]:
    """Return the phrases of each group; in them, 0 is any number."""
    text = files(__package__).joinpath("phrases.json").read_text(encoding="utf-8")
    return {name: phrases.split("|") for name, phrases in json.loads(text).items()}


@lru_cache(maxsize=4)
def _lookup(groups: tuple[str, ...]) -> tuple[dict[str, list[int]], dict[str, dict[str, _Endings]]]:
    """Return the groups of single words, and phrases by their first and second word."""
    single: dict[str, list[int]] = {}
    longer: dict[str, dict[str, _Endings]] = {}
    for number, group in enumerate(groups):
        for phrase in phrase_groups()[group]:
            first, *others = phrase.split()
            if others:
                longer.setdefault(first, {}).setdefault(others[0], []).append((others[1:], number))
            else:
                single.setdefault(first, []).append(number)
    return single, longer


def _split(text: str) -> list[str]:
    return ["0" if "0" <= token < ":" else token for token in _TOKEN.findall(text.lower())]


_cached_split: Final = lru_cache(maxsize=16384)(_split)


def phrase_tokens(text: str) -> list[str]:
    """Return the words and numbers of a text, each number as 0; kept for short texts, as a site's pages repeat them."""
    return _cached_split(text) if len(text) <= _SHORT_CHARS else _split(text)


def count_phrases(tokens: list[str], groups: tuple[str, ...]) -> list[int]:
    """Return for each of the groups how often its phrases stand in the tokens."""
    single, longer = _lookup(groups)
    counts = [0] * len(groups)
    counted = Counter(tokens)
    for token in single.keys() & counted.keys():
        for group in single[token]:
            counts[group] += counted[token]
    if longer.keys() & counted.keys():
        for index, (token, following) in enumerate(pairwise(tokens)):
            if token in longer and following in longer[token]:
                for rest, group in longer[token][following]:
                    if not rest or tokens[index + 2 : index + 2 + len(rest)] == rest:
                        counts[group] += 1
    return counts


# So much is read of each block, and of all of them.
_BLOCK_CHARS: Final = 200
_PAGE_CHARS: Final = 6000
_MAIN_BLOCK_CHARS: Final = 600
_MAIN_CHARS: Final = 2500
# Groups of which it tells something that they stand in the main content.
_IN_MAIN: Final = (
    "byline", "quantity", "our_firm", "we_offer", "get_started", "references_of_firm", "your_business", "setup",
    "code_words", "first_person", "we", "you", "third_person", "thanks", "function_words", "imperative",
)  # fmt: skip
_CODE_SIGNS: Final = "{}=;_"


def phrase_numbers(blocks: BlockNumbers) -> dict[str, float]:
    """Return the counts and rates of phrases by group, and of signs."""
    starts = _heads(blocks.texts, _BLOCK_CHARS, _PAGE_CHARS)
    tokens = [token for text in starts for token in phrase_tokens(text)]
    main_texts = [text for text, is_main in zip(blocks.texts, blocks.main.tolist(), strict=True) if is_main]
    main = [token for text in _heads(main_texts, _MAIN_BLOCK_CHARS, _MAIN_CHARS) for token in phrase_tokens(text)]
    count, main_count = max(1, len(tokens)), max(1, len(main))
    found: dict[str, float] = {}
    groups = tuple(phrase_groups())
    for name, number in zip(groups, count_phrases(tokens, groups), strict=True):
        found[f"phrases {name}"] = log1p(number)
        found[f"phrases {name} rate"] = 100 * number / count
    for name, number in zip(_IN_MAIN, count_phrases(main, _IN_MAIN), strict=True):
        found[f"phrases {name} in main"] = 100 * number / main_count
    text = "\n".join(starts)
    found["words distinct in main"] = len(set(main)) / main_count**0.7
    found["signs number"] = tokens.count("0") / count
    found["signs code"] = sum(map(text.count, _CODE_SIGNS)) / max(1, len(text))
    found["chars a word"] = len(text) / max(1, text.count(" "))
    return found


def _heads(texts: list[str], block_chars: int, chars: int) -> list[str]:
    heads = []
    for text in texts:
        heads.append(text[: min(block_chars, chars)])
        chars -= len(heads[-1])
        if chars <= 0:
            break
    return heads
