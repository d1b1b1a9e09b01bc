"""Tells lists of terms and their definitions from lists that lay out longer texts, such as references of code."""

from __future__ import annotations

from typing import Final

from llmcrawler.core.content.markup import Token

_NOT_IN_DEFINITIONS: Final = frozenset(
    "dl table pre h1 h2 h3 h4 h5 h6 section article nav header footer aside form iframe".split()
)


def is_definition_list(page: list[Token], position: int) -> bool:
    """Tell whether the list that begins at a token holds terms and texts only; tokens are looked at once for each list,
    as another list ends the look.
    """
    for index in range(position + 1, len(page)):
        slash, tag, _, _ = page[index]
        if tag in _NOT_IN_DEFINITIONS:
            return bool(slash)
    return False
