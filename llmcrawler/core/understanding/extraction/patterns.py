"""Patterns that take a value out of a longer text, learned from (text, value) pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from llmcrawler.core.understanding.extraction.tree import Work
from llmcrawler.errors import TooCostly

_NUMBER: Final = r"[-+]?\d(?:[\d.,' ]*\d)?"
_MAX_CONTEXT_CHARS: Final = 40
_MAX_PIECES: Final = 6
_MAX_WORD_CHARS: Final = 200
_STEPS_A_TEXT: Final = 10
# A value is no part of a longer text; some patterns take quadratic time, and a person's may take any.
_MAX_TEXT_CHARS: Final = 4_000
_MAX_SECONDS: Final = 0.02
# Pairs of a long list that make patterns, and pairs that decide which pattern is best.
_MAX_BUILDERS: Final = 40
_MAX_JUDGES: Final = 200


def learn_pattern(pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return the regular expression (one group) that takes the value out of most texts; None where they are the values.

    Tried in this order, the first of those that fit most pairs wins: the text is the value; what stands before and
    after is constant but for its numbers; a piece between separators; the words next to the value are
    constant; a number behind the same word; the first number. Most give nothing on a page where what they stand on is
    missing.
    """
    pairs = [pair for pair in pairs if len(pair[0]) <= _MAX_TEXT_CHARS][:_MAX_JUDGES]
    within = [(text, value) for text, value in pairs if text != value and value in text]
    if not within:
        return None
    builders = (_constant_around, *_PIECES, _words_beside, _word_and_number, _number)
    options = dict.fromkeys(build(text, value) for build in builders for text, value in within[:_MAX_BUILDERS])
    fits = {one: _fits(one, pairs) for one in options if one is not None}
    best = max(fits, key=lambda one: fits[one], default=None)
    whole = sum(text == value for text, value in pairs)
    return best if best is not None and fits[best] > whole else None


def _fits(pattern: str, pairs: Sequence[tuple[str, str]]) -> int:
    try:
        return sum(take(pattern, text) == value for text, value in pairs)
    except TooCostly:
        return -1


def take(pattern: str, text: str) -> str | None:
    """Return what a pattern takes out of a text; None where it does not match. Raises TooCostly for a slow one."""
    if len(text) > _MAX_TEXT_CHARS:
        return None
    try:
        match = compile_pattern(pattern).search(text, timeout=_MAX_SECONDS)
    except TimeoutError:
        raise TooCostly(f"the pattern {pattern!r} takes too long on a text of {len(text)} characters") from None
    return match[1].strip() or None if match and match[1] else None


def taken(texts: Iterable[str], pattern: str | None, work: Work | None = None) -> list[str]:
    """Return what a pattern takes out of texts; all of them where there is none. Raises TooCostly."""
    if pattern is None:
        return list(texts)
    found = []
    for text in texts:
        if work is not None:
            work.charge(_STEPS_A_TEXT + len(text))
        value = take(pattern, text)
        if value is not None:
            found.append(value)
    return found


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern. Raises ValueError for what is no regular expression with one group."""
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - re, with a limit of time; most crawls begin without

    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"not a regular expression: {pattern!r}: {error}") from error
    if compiled.groups != 1:
        raise ValueError(f"{pattern!r} must have one group")
    return compiled


def _cut(text: str, value: str) -> tuple[str, str]:
    """Return the texts before and after a value, where it stands as a whole word if it does so anywhere."""
    word = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)
    start = word.start() if word else text.index(value)
    return text[:start], text[start + len(value) :]


def _constant_around(text: str, value: str) -> str | None:
    """Return the pattern of the texts around a value, whatever numbers are in them."""
    before, after = _cut(text, value)
    if max(len(before), len(after)) > _MAX_CONTEXT_CHARS:
        return None
    return f"^{_fold_digits(before)}(.+?){_fold_digits(after)}$"


def _piece(separator: str, text: str, value: str, *, from_end: bool) -> str | None:
    """Return the n-th piece of a text that a separator cuts; pieces are counted from its start or from its end."""
    pieces = text.split(separator)
    if value not in pieces or len(pieces) > _MAX_PIECES:
        return None
    mark = re.escape(separator)
    piece = f"(?:(?!{mark}).)+"
    if from_end:
        after = len(pieces) - 1 - pieces[::-1].index(value)
        # Anchored, and greedy up to the piece: looked for from every place, it would take quadratic time.
        return f"^(?:.*{mark})?({piece})" + f"{mark}{piece}" * (len(pieces) - 1 - after) + "$"
    return "^" + f"{piece}{mark}" * pieces.index(value) + f"({piece})"


_PIECES: Final[tuple[Callable[[str, str], str | None], ...]] = tuple(
    partial(_piece, separator, from_end=from_end)
    for separator in (", ", " | ", " · ", " • ", " – ", " — ", " - ", " / ", ": ", "; ", " (", ") ", " » ", " > ")
    for from_end in (False, True)
)


def _words_beside(text: str, value: str) -> str | None:
    before, after = _cut(text, value)
    left = re.search(r"\S+\s*$", before[-_MAX_WORD_CHARS:])
    right = re.match(r"\s*\S+", after)
    start = _escape(left[0]) if left else "^"
    end = _escape(right[0]) if right else "$"
    return None if start == "^" and end == "$" else f"{start}(.+?){end}"


def _word_and_number(text: str, value: str) -> str | None:
    before, after = _cut(text, value)
    if not re.fullmatch(_NUMBER, value):
        return None
    left, right = re.search(r"[^\W\d]+\W*$", before[-_MAX_WORD_CHARS:]), re.match(r"\W*[^\W\d]+", after)
    if left:
        return f"{_escape(left[0])}({_NUMBER})"
    return f"({_NUMBER}){_escape(right[0])}" if right else None


def _number(_text: str, value: str) -> str | None:
    return f"({_NUMBER})" if re.fullmatch(_NUMBER, value) else None


def _escape(text: str) -> str:
    return re.escape(text).replace("\\ ", r"\s*" if not text.strip() else r"\s+")


def _fold_digits(text: str) -> str:
    pieces = re.split(r"(\d[\d.,]*)", text)
    return "".join(r"\d[\d.,]*" if at % 2 else _escape(piece) for at, piece in enumerate(pieces))
