"""Numbers from the words of a page: phrases by group, in all of it and in its main content, and signs."""

from __future__ import annotations

from math import log1p
from typing import Final

from .kind_evidence import BlockNumbers
from .phrases import count_phrases, phrase_groups, phrase_tokens

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
