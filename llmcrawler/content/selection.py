"""Chooses the main text of a page from its scored blocks, and finds the blocks that repeat over the pages of a site."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from llmcrawler.items import TextBlock

_MIN_PAGES: Final = 3
_SHARE: Final = 0.3
_MAX_OBSERVED: Final = 1_000  # at each end of a page


class Boilerplate:
    """Counts, per block key, the pages of one site that show it.

    Memory is bounded: of more than `max_keys` keys the one not seen for longest goes first. A block is
    repeated when it stands on at least three pages and on 30% of the pages seen since it first came up:
    so a block that belongs to one section of a site counts within that section's run, too.
    """

    def __init__(self, max_keys: int = 20_000) -> None:
        self._max_keys = max_keys
        self._pages = 0
        # key -> pages that show it, number of pages seen before the first of them
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def observe(self, blocks: Sequence[TextBlock]) -> None:
        """Count the blocks of one page, each key once. Of a very long page those at its ends, where a site repeats
        itself: else a single page would make the others be forgotten.
        """
        if len(blocks) > 2 * _MAX_OBSERVED:
            blocks = [*blocks[:_MAX_OBSERVED], *blocks[-_MAX_OBSERVED:]]
        for key in {block.key for block in blocks}:
            count, first = self._seen.pop(key, (0, self._pages))
            self._seen[key] = (count + 1, first)
        self._pages += 1
        while len(self._seen) > self._max_keys:
            self._seen.popitem(last=False)

    def is_repeated(self, key: int) -> bool:
        """Tell whether the block of this key is on enough pages to be the site's and not the page's."""
        count, first = self._seen.get(key, (0, 0))
        return count >= _MIN_PAGES and count >= _SHARE * (self._pages - first)


# A repeated block must reach the page's limit with its score to this power: what the page itself holds for surely
# main (a label of a product table) stays, what it doubts goes.
_REPEATED_POWER: Final = 3
_PIECE_CHARS: Final = 100_000
_SPACE: Final = re.compile(r"\s")
_LIST_ITEM: Final = re.compile(r"\s*(?:> )*(?:- |\d+\. )")


def limit_score(scores: Sequence[float], words: Sequence[int]) -> float:
    """Return the score from which on blocks are taken, so that the expected word F1 is highest.

    With p_i the chance that block i is main content and w_i its words, the expected F1 of a choice S is about
    2 sum_S p_i w_i / (sum_S w_i + sum_all p_i w_i); its maximum takes all blocks above one score
    (Lewis 1995, "Evaluating and optimizing autonomous text classification systems").
    """
    expected_total = sum(score * count for score, count in zip(scores, words, strict=True))
    taken = hit = best = 0.0
    limit = 2.0
    for score, count in sorted(zip(scores, words, strict=True), reverse=True):
        taken += count
        hit += score * count
        quality = 2 * hit / (taken + expected_total) if taken else 0.0
        if quality >= best:
            best, limit = quality, score
    return limit


def main_text(blocks: Sequence[TextBlock], boilerplate: Boilerplate | None = None) -> str:
    """Return the main content as Markdown."""
    return _join([block.markdown for block in main_blocks(blocks, boilerplate)])


def main_blocks(blocks: Sequence[TextBlock], boilerplate: Boilerplate | None = None) -> list[TextBlock]:
    """Return the blocks of the main content.

    Blocks that repeat over the site lose score. A page whose chosen text is all repeated keeps it: it is never emptied.
    """
    limit = limit_score([block.score for block in blocks], [block.word_count for block in blocks])
    chosen = _with_code(blocks, [block.score >= limit for block in blocks])
    if boilerplate is not None:
        repeated = boilerplate.is_repeated
        chosen = [one for one in chosen if one.score**_REPEATED_POWER >= limit or not repeated(one.key)] or chosen
    return chosen


def _with_code(blocks: Sequence[TextBlock], taken: list[bool]) -> list[TextBlock]:
    """Return the taken blocks and the code between two of them: a short listing has no prose to score by."""
    found: list[TextBlock] = []
    code: list[TextBlock] = []
    before = False
    for block, take in zip(blocks, taken, strict=True):
        if take:
            found += [*code, block]
            before, code = True, []
        elif before and block.markdown.startswith("```"):
            code.append(block)
        else:
            before, code = False, []
    return found


def _join(parts: list[str]) -> str:
    text, before = [], ""
    for part in parts:
        if before:
            both_items = _LIST_ITEM.match(before) and _LIST_ITEM.match(part)
            rows = before.startswith("|") and part.startswith("|") and "\n" not in part
            text.append("\n" if both_items or rows else "\n\n")
        text.append(part)
        before = part
    return "".join(text)


def content_hash(text: str) -> str:
    """Return the SHA-256 in hex of the text with white space folded: the same words are the same content."""
    digest = hashlib.sha256()
    between = b""
    start = 0
    # In pieces, cut at white space: a call into C on megabytes of text would hold up all threads.
    while start < len(text):
        space = _SPACE.search(text, start + _PIECE_CHARS)
        end = len(text) if space is None else space.start()
        if folded := " ".join(text[start:end].split()).encode("utf-8", "replace"):
            digest.update(between + folded)
            between = b" "
        start = end
    return digest.hexdigest()
