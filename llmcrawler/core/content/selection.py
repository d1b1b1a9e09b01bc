"""Chooses the main text of a page from its scored blocks, corrected by what repeats over the pages of its site."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from math import exp, inf
from operator import mul
from typing import Final

from llmcrawler.core.content.block_markdown import RULE, is_code
from llmcrawler.items import TextBlock

_MIN_PAGES: Final = 3
_SHARE: Final = 0.3
_MAX_OBSERVED: Final = 1_000  # at each end of a page

# By how much the log-odds of a block change: in the main region, where it repeats on every page, and where all of its
# region repeats (a form's labels, a notice: less a sign than words that repeat among others). From a logistic
# regression over sites whose software marks the main content; benchmarks/content_by_template.py measures it.
_IN_MAIN_REGION: Final = 2.1
_REPEATS: Final = -2.6
_REGION_REPEATS: Final = 1.5
# After so many other pages what they show counts for half.
_HALF_TRUSTED: Final = 3
_TRUSTED: Final = 0.4  # three pages
# So much less a block that is on all pages counts for its region: of two regions that read alike the rail is the other.
_REPEATED_LESS: Final = 0.15
# A region that explains the pages so much worse than all of them is none of the main content.
_NEAR_WHOLE: Final = 0.8


def _trust(pages: int) -> float:
    """Return how far what `pages` pages have shown is believed, 0 (a single one) to 1."""
    return max(0, pages - 1) / (max(0, pages - 1) + _HALF_TRUSTED)


class Boilerplate:
    """Counts for one site the pages that show each block, and how well each region holds the main content.

    A region is a path of containers (see `TextBlock.region`). The main one of a page is that which, on the pages that
    show it, comes nearest to what the blocks' own scores say, by the expected word F1 of taking all that is in it. So
    regions that only one template has are judged by its pages, and those that templates share by all of theirs.

    Memory is bounded: of more than `max_keys` blocks or regions the one not seen for longest goes first.
    """

    def __init__(self, max_keys: int = 20_000) -> None:
        self._max_keys = max_keys
        self._pages = 0
        # key -> pages that show it, number of pages seen before the first of them
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()
        # region -> pages with text in it, sum of its expected F1; pages with blocks of its own, sum of the shares of
        # their words that repeat
        self._regions: OrderedDict[int, tuple[int, float, int, float]] = OrderedDict()

    def observe(self, blocks: Sequence[TextBlock]) -> None:
        """Count the blocks of one page, each key once. Of a very long page those at its ends, where a site repeats
        itself: else a single page would make the others be forgotten.
        """
        keys = _keys(blocks)
        observed = keys
        if len(keys) > 2 * _MAX_OBSERVED:
            observed = [*keys[:_MAX_OBSERVED], *keys[-_MAX_OBSERVED:]]
        for key in set(observed):
            count, first = self._seen.pop(key, (0, self._pages))
            self._seen[key] = (count + 1, first)
        self._pages += 1
        self._observe_regions(blocks, keys)
        for known in (self._seen, self._regions):
            while len(known) > self._max_keys:
                known.popitem(last=False)

    def is_repeated(self, key: int) -> bool:
        """Tell whether the block of this key is on enough pages to be the site's and not the page's: at least three,
        and 30% of those seen since it first came up, so that a section's block counts within the section's run.
        """
        count, first = self._seen.get(key, (0, 0))
        return count >= _MIN_PAGES and count >= _SHARE * (self._pages - first)

    def repeated(self, blocks: Sequence[TextBlock]) -> list[bool]:
        """Tell of each block whether it is repeated; of a unit only the whole is counted, not its parts: tables of
        many pages share their header and some rows.
        """
        return [self.is_repeated(key) for key in _keys(blocks)]

    def judge(self, blocks: Sequence[TextBlock]) -> tuple[list[float], list[bool]]:
        """Return for each block the probability that it is main content, by its page and all that were observed, and
        whether it is of the site's frame: repeated, and outside of the page's main region, which is known.
        """
        main, trust = self._main_region(blocks)
        of_regions: dict[tuple[int, ...], float] = {}
        is_known = trust >= _TRUSTED
        scores, frame = [], []
        region, evidence = None, 0.0
        keys = _keys(blocks)
        for block, key, repetition in zip(blocks, keys, self._repetitions(keys), strict=True):
            score = block.score
            if block.region is not region:
                region = block.region
                known = of_regions.get(region)
                evidence = of_regions[region] = self._evidence(region, main, trust) if known is None else known
            if not repetition and not evidence:
                scores.append(score)
                frame.append(False)
                continue
            odds = exp(evidence + _REPEATS * repetition) * score
            scores.append(odds / (1 - score + odds))
            frame.append(repetition > 0 and is_known and main not in region and self.is_repeated(key))
        return scores, frame

    def _evidence(self, region: tuple[int, ...], main: int, trust: float) -> float:
        _, _, pages, share = self._regions.get(region[-1], _UNSEEN) if region else _UNSEEN
        found = _IN_MAIN_REGION * trust if main in region else 0.0
        return found + (_REGION_REPEATS * _trust(pages) * share / pages if pages else 0.0)

    def _repetitions(self, keys: Sequence[int]) -> list[float]:
        """Return for each block the share of the other pages since the first that show it, less where only a few do."""
        seen, all_pages = self._seen.get, self._pages
        found = []
        for key in keys:
            count, first = seen(key, _NEW)
            others = count - 1
            found.append(others * others / ((others + _HALF_TRUSTED) * (all_pages - first)) if others > 0 else 0.0)
        return found

    def _observe_regions(self, blocks: Sequence[TextBlock], keys: Sequence[int]) -> None:
        own: dict[tuple[int, ...], list[float]] = {}  # words, expected main words, words that repeat
        before, sums = None, [0.0, 0.0, 0.0]  # a path is long to look up, and mostly the same as that before it
        for block, repetition in zip(blocks, self._repetitions(keys), strict=True):
            if block.region is not before:
                before = block.region
                sums = own.setdefault(before, [0.0, 0.0, 0.0])
            words = block.word_count
            sums[0] += words
            sums[1] += words * block.score * (1 - _REPEATED_LESS * repetition)
            if repetition:
                sums[2] += words
        total = sum(sums[1] for sums in own.values())
        for one, (all_words, main) in _sums_below(own).items():
            pages, quality, own_pages, repeated = self._regions.pop(one, _UNSEEN)
            found = 2 * main / (all_words + total) if all_words else 0.0
            self._regions[one] = (pages + 1, quality + found, own_pages, repeated)
        for region, (count, _, again) in own.items():
            if region and count:
                pages, quality, own_pages, repeated = self._regions[region[-1]]
                self._regions[region[-1]] = (pages, quality, own_pages + 1, repeated + again / count)

    def _main_region(self, blocks: Sequence[TextBlock]) -> tuple[int, float]:
        """Return the region of the page's main content, and how far that is to be trusted: 0 where there is none that
        comes near to what the whole page is.
        """
        paths = {block.region for block in blocks}
        if not paths:
            return 0, 0.0
        shared = set(next(iter(paths))).intersection(*paths)  # these hold the whole page, and tell nothing
        best, main = max(self._qualities(set[int]().union(*paths) - shared), default=(0.0, 0))
        if best <= _NEAR_WHOLE * max(self._qualities(shared), default=(0.0, 0))[0]:
            return 0, 0.0
        return main, _trust(self._regions.get(main, _UNSEEN)[0])

    def _qualities(self, regions: Iterable[int]) -> list[tuple[float, int]]:
        """Return how well each region holds the main content, and the region."""
        found = []
        for one in regions:
            pages, quality, _, _ = self._regions.get(one, _UNSEEN)
            found.append((quality / (pages + _HALF_TRUSTED), one))
        return found


_NEW: Final = (0, 0)
_UNSEEN: Final = (0, 0.0, 0, 0.0)


def _sums_below(own: Mapping[tuple[int, ...], Sequence[float]]) -> dict[int, tuple[float, float]]:
    """Return the first two sums of each region and all within it."""
    levels: list[dict[int, list[float]]] = [{} for _ in range(max(map(len, own), default=0))]
    around: dict[int, int] = {}
    for path, (words, main, _) in own.items():
        for depth in range(len(path) - 1, -1, -1):
            one = path[depth]
            if one in around:
                break
            around[one] = path[depth - 1] if depth else 0
            levels[depth][one] = [0.0, 0.0]
        if path:
            sums = levels[len(path) - 1][path[-1]]
            sums[0] += words
            sums[1] += main
    for depth in range(len(levels) - 1, 0, -1):
        for one, (words, main) in levels[depth].items():
            sums = levels[depth - 1][around[one]]
            sums[0] += words
            sums[1] += main
    return {one: (sums[0], sums[1]) for level in levels for one, sums in level.items()}


def _keys(blocks: Sequence[TextBlock]) -> list[int]:
    """Return the key of each block, and for those of a unit the one that stands for all of it."""
    members: dict[int, list[int]] = {}
    for block in blocks:
        if block.unit:
            members.setdefault(block.unit, []).append(block.key)
    if not members:
        return [block.key for block in blocks]
    of_units = {unit: hash(tuple(keys)) for unit, keys in members.items()}
    return [of_units[block.unit] if block.unit else block.key for block in blocks]


# A block of the site's frame must reach the page's limit with its score to this power.
_FRAME_POWER: Final = 3
TRUST: Final = 1.2
SURE: Final = 0.99  # the score of what is main in any case
_ROUNDING: Final = 1e-9
_PIECE_CHARS: Final = 100_000
_SPACE: Final = re.compile(r"\s")
# How many words a change between main and other blocks costs, at most such a share of the main ones that are expected;
# and to what share of that it falls with each level between them. From the word F1 on pages of sites that the scores
# have not learned from.
_CHANGE: Final = 7
_CHANGE_SHARE: Final = 0.05
_NEARNESS: Final = 0.5
_SIBLINGS: Final = 2  # from an element up to what it stands in, and down again
# Code and cells are short, and a low score tells the less of them.
_NO_PROSE: Final = 0.3
_HEADING: Final = re.compile(r"[ >]*+#{1,6} ")
_PART: Final = re.compile(r"[ >]*+(?:#{1,6} |- |\d+\. |\$\$)")
_LIST_ITEM: Final = re.compile(r"[ >]*+(?:- |\d+\. )")
_ROW: Final = re.compile(r"\n?[ >]*+\|")
_FIRST_ROW: Final = re.compile(r"\n?(?:[ >]|- |\d+\. )*+\|")  # may be the beginning of an item
_NOTE: Final = re.compile(r"\[\^[^\]]{1,20}\](?=: )")
_REFERENCE: Final = re.compile(r"\[\^[^\]]{1,20}\](?!: )")
_DEFINITION: Final = re.compile(r"[ >]*+: ")


def unit_scores(scores: Sequence[float], words: Sequence[int], units: Sequence[int]) -> list[float]:
    """Return the score of each block, and for those of a unit the mean of theirs, weighted by words: so any limit keeps
    or leaves all of it.
    """
    if not any(units):
        return list(scores)
    hits, counts = dict.fromkeys(units, 0.0), dict.fromkeys(units, 0)
    for score, count, unit in zip(scores, words, units, strict=True):
        hits[unit] += score * count
        counts[unit] += count
    means = {unit: hits[unit] / max(1, counts[unit]) for unit in hits}
    return [means[unit] if unit else score for score, unit in zip(scores, units, strict=True)]


def limit_score(trusted: Sequence[float], words: Sequence[int]) -> float:
    """Return the score from which on blocks are taken, so that the expected word F1 is highest.

    With p_i the chance that block i is main content and w_i its words, the expected F1 of a choice S is about
    2 sum_S p_i w_i / (sum_S w_i + sum_all p_i w_i); its maximum takes all blocks above one score
    (Lewis 1995, "Evaluating and optimizing autonomous text classification systems"). `trusted` are the scores to the
    power of TRUST: blocks of a page are right or wrong together, so that a middling one is worth less than it says.
    """
    expected_total = sum(map(mul, trusted, words))
    taken = hit = best = 0.0
    limit = 2.0
    for score, count in sorted(zip(trusted, words, strict=True), reverse=True):
        taken += count
        hit += score * count
        quality = 2 * hit / (taken + expected_total) if taken else 0.0
        if quality >= best:
            best, limit = quality, score
    return float(limit ** (1 / TRUST)) - _ROUNDING


def main_text(blocks: Sequence[TextBlock], boilerplate: Boilerplate | None = None) -> str:
    """Return the main content as Markdown."""
    return joined(main_blocks(blocks, boilerplate))


def main_blocks(blocks: Sequence[TextBlock], boilerplate: Boilerplate | None = None) -> list[TextBlock]:
    """Return the blocks of the main content. Units are kept or left as a whole.

    With `boilerplate` the site's other pages count too: what repeats around the main region must be surer than the
    rest. A page whose chosen text is all repeated keeps it: it is never emptied.
    """
    words = [block.word_count for block in blocks]
    own, frame = [block.score for block in blocks], [False] * len(blocks)
    if boilerplate is not None:
        own, frame = boilerplate.judge(blocks)
    scores = unit_scores(own, words, [block.unit for block in blocks])
    trusted = [score**TRUST for score in scores]
    # What is main whatever its score says nothing of the others.
    limit = limit_score(trusted, [0 if block.score == SURE else block.word_count for block in blocks])
    taken = [score >= limit for score in scores]
    if any(taken):
        # The score of a block that would leave the expected F1 as it is: half of that (see `limit_score`). It lies
        # between those that reach the limit, which are taken, and the others.
        parts = list(map(mul, trusted, words))
        hit, count = sum(compress(parts, taken)), sum(compress(words, taken))
        even = float((hit / max(1, count + sum(parts))) ** (1 / TRUST))
        taken = _with_parts(blocks, scores, limit, taken, _smoothed(blocks, words, scores, even))
    if any(frame):
        rest = [
            take and (not is_frame or score**_FRAME_POWER >= limit)
            for take, score, is_frame in zip(taken, scores, frame, strict=True)
        ]
        taken = rest if any(rest) else taken
    return [block for block, take in zip(blocks, taken, strict=True) if take]


def _with_parts(
    blocks: Sequence[TextBlock], scores: Sequence[float], limit: float, taken: list[bool], around: list[bool]
) -> list[bool]:
    """Tell which blocks are main. Text is if it reaches the limit, and a heading as what stands around it. What has few
    words to score by (an item, code, a formula, a unit) is if either is, and a note to which main text refers if it
    reaches a quarter of the limit.
    """
    notes = {}
    for index, block in enumerate(blocks):
        markdown = block.markdown
        if taken[index] != around[index]:
            can_join = block.unit or _PART.match(markdown) or is_code(markdown)
            if can_join if around[index] else _HEADING.match(markdown) and scores[index] < SURE:
                taken[index] = around[index]
        if markdown.startswith("[^") and (match := _NOTE.match(markdown)):
            notes[index] = match[0]
    if notes:
        main = [block.markdown for block, take in zip(blocks, taken, strict=True) if take]
        known = {match for markdown in main for match in _REFERENCE.findall(markdown)}
        for index, label in notes.items():
            taken[index] = taken[index] or (label in known and scores[index] >= limit / 4)
    return taken


def _smoothed(blocks: Sequence[TextBlock], words: Sequence[int], scores: Sequence[float], even: float) -> list[bool]:
    """Tell which blocks are main if their neighbours count too: of all ways to take some, the one that gains most.

    A block that is taken gains its words times what its score has above `even`. Each change from main to other
    blocks or back costs words too: most between blocks that stand in the same element, half as much with each level
    that lies between them. Before and behind the page is nothing main. The best way ends in a main block or in another;
    both are known for each block from the one before it (Viterbi's algorithm), so the time is linear.
    """
    price = min(_CHANGE, _CHANGE_SHARE * sum(map(mul, words, scores)))
    main, other = -inf, 0.0  # what the best way gains that ends so
    ways: list[tuple[bool, bool]] = []  # whether the block before was main, if this one is and if it is not
    before: tuple[int, ...] = ()
    last_unit = 0
    for block, count, score in zip(blocks, words, scores, strict=True):
        unit, region = block.unit, block.region
        if unit and unit == last_unit:
            cost = inf
        elif before is region:
            cost = price
        else:
            cost = price * _nearness(before, region)
        gain = count * (score - even)
        if gain < 0 and (unit or is_code(block.markdown)):
            gain *= _NO_PROSE
        ways.append((main >= other - cost, main - cost > other))
        main, other = max(main, other - cost) + gain, max(other, main - cost)
        before, last_unit = region, unit
    is_main = main - price * _nearness(before, ()) > other
    found = []
    for stays, leaves in reversed(ways):
        found.append(is_main)
        is_main = stays if is_main else leaves
    return found[::-1]


def _nearness(before: tuple[int, ...], region: tuple[int, ...]) -> float:
    """Return 1 for two places in the same element, and less the more elements lie between them."""
    shared = min(len(before), len(region))
    while shared and before[shared - 1] != region[shared - 1]:  # a region tells all that are around it
        shared -= 1
    return float(_NEARNESS ** max(0, len(before) + len(region) - 2 * shared - _SIBLINGS))


def joined(blocks: Sequence[TextBlock]) -> str:
    text: list[str] = []
    before, unit = "", 0
    for block in blocks:
        part = block.markdown
        if not part:
            continue
        if before:
            # A row of a table and a definition go on right below what is before them.
            is_next_line = (_ROW.match(part) and _FIRST_ROW.match(before)) or _DEFINITION.match(part)
            is_tight = (unit and unit == block.unit and is_next_line) or (
                _LIST_ITEM.match(before) and _LIST_ITEM.match(part)
            )
            is_quoted = part.startswith("> ") and before.startswith("> ")
            text.append("\n" if is_tight else "\n>\n" if is_quoted else "\n\n")
        part = part.lstrip("\n")
        text.append(part)
        before, unit = part, block.unit
    return "".join(text).removesuffix(RULE)


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
