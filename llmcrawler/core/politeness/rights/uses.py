"""One vocabulary for what content may be used for, and how each standard's words translate into it.

| word | its standard | uses here |
| --- | --- | --- |
| `train-ai`, `search` | AIPREF, draft-ietf-aipref-vocab | `ai-train`; `search` |
| `bots`, `tdm`, `ai`, `genai`, `train-genai` | AIPREF, its earlier drafts | all; `tdm`, `ai-train`; `ai-train` |
| `search`, `ai-input`, `ai-train` | Content Signals, contentsignals.org | the same |
| `all`, `ai-all`, `ai-train`, `ai-input`, `ai-index`, `search` | RSL 1.0, 3.4.1.1 | all; the three of AI; the same |
| `tdm-reservation` | TDMRep, W3C Community Group report of 2024-05-10 | `tdm`, `ai-train` |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

USES: Final = ("search", "ai-index", "ai-input", "ai-train", "tdm", "monitoring", "other")
YES, NO, CONDITIONS = ANSWERS = "yes", "no", "conditions"

_OF_AI: Final = ("ai-index", "ai-input", "ai-train")
_TRAINING: Final = ("ai-train",)
_MINING: Final = ("tdm", "ai-train")
_MEANINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "all": USES,
    "bots": USES,
    "ai-all": _OF_AI,
    "ai-index": ("ai-index",),
    "ai-input": ("ai-input",),
    "ai-train": _TRAINING,
    "train-ai": _TRAINING,
    "train-genai": _TRAINING,
    "ai": _TRAINING,
    "genai": _TRAINING,
    "search": ("search",),
    "tdm": _MINING,
}
_ANSWERS: Final = {"y": YES, "yes": YES, "n": NO, "no": NO}
_PUBLIC_DOMAIN: Final = re.compile(r"https?://(?:www\.)?creativecommons\.org/publicdomain/", re.IGNORECASE)
_COMMONS: Final = re.compile(r"https?://(?:www\.)?creativecommons\.org/licenses/", re.IGNORECASE)
_MAX_WORDS: Final = 50  # of one statement


def uses_of_words(answers: Mapping[str, str]) -> dict[str, str]:
    """Return what holds for each use, of answers by the words of the standards; a word that means less decides over
    one that means more (`all`, `search`). Words that no standard has say nothing.
    """
    known = sorted((word for word in answers if word in _MEANINGS), key=lambda word: -len(_MEANINGS[word]))
    return {use: answers[word] for word in known for use in _MEANINGS[word]}


def uses_of_statement(text: str) -> dict[str, str]:
    """Read `train-ai=n, search=y` (AIPREF) or `search=yes,ai-train=no` (Content Signals): a dictionary of RFC 9651
    whose values are tokens. Parameters and other values are passed over.
    """
    answers = {}
    for part in text.split(",", _MAX_WORDS)[:_MAX_WORDS]:
        word, _, answer = part.partition("=")
        answer = answer.partition(";")[0].strip().lower()
        if answer in _ANSWERS:
            answers[word.strip().lower()] = _ANSWERS[answer]
    return uses_of_words(answers)


def uses_of_list(words: Iterable[str], answer: str) -> dict[str, str]:
    return uses_of_words(dict.fromkeys(words, answer))


def uses_of_reservation(reservation: str, policy: str = "") -> dict[str, str]:
    """Read TDMRep's `tdm-reservation`: "1" or "0", anything else is as if it were not there. With a `policy` the
    rights can be had.
    """
    reserved = CONDITIONS if policy else NO
    answer = {"1": reserved, "0": YES}.get(reservation.strip())
    return {} if answer is None else dict.fromkeys(_MINING, answer)


def uses_of_licence(url: str) -> dict[str, str]:
    """Return what a public licence allows. Of those of Creative Commons that is known: all, on conditions such as
    credit, which are kept without asking.
    """
    answer = YES if _PUBLIC_DOMAIN.match(url) else CONDITIONS if _COMMONS.match(url) else None
    return {} if answer is None else dict.fromkeys(USES, answer)
