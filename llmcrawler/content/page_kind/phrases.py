"""Counts phrases that tell what kind of page it is ("add to cart", "last reply", "on this page"), in groups."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Final

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
