"""What pages look like, each by itself, and how far that can be trusted where a model judges some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

# Guesses that are at least so sure are right on nineteen pages of twenty, on sites that they were not trained on; less
# sure ones on three of five.
SURE_GUESS: Final = 0.8

# Less sure guesses are no votes on what a template's pages are.
_MIN_CONFIDENCE: Final = 0.5

# From so many pages on, of which so large a share looks like one type, only some of the others are looked at.
_CLEAR_PAGES: Final = 12
_CLEAR_SHARE: Final = 0.95

# Guesses of one label have proved right: so many were, of one template or of one site, and nine in ten of all.
MIN_RIGHT: Final = 2
MIN_RIGHT_OF_SITE: Final = 5
_RIGHT_PER_WRONG: Final = 9


class Guess(NamedTuple):
    """The label that a page seems to have, by itself, and the probability in 0..1 that it has it."""

    label: str
    confidence: float


class PageHint(NamedTuple):
    """What is known of a page without a model. `words` are tokens of its address, title and headings that other pages
    of its kind may share."""

    guess: Guess | None = None
    words: frozenset[str] = frozenset()


NO_HINT: Final = PageHint()


@dataclass(slots=True)
class GuessVotes:
    """The guesses of a template's pages, added up: label -> sum of the confidences."""

    page_count: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def note(self, guess: Guess | None) -> None:
        self.page_count += 1
        if guess is not None and guess.confidence >= _MIN_CONFIDENCE:
            self.sums[guess.label] = self.sums.get(guess.label, 0.0) + guess.confidence

    def add(self, other: GuessVotes) -> None:
        """Take over the votes of a template that was merged into this one."""
        self.page_count += other.page_count
        for label, value in other.sums.items():
            self.sums[label] = self.sums.get(label, 0.0) + value

    @property
    def winner(self) -> str | None:
        """The label with most votes; None without any."""
        return max(sorted(self.sums), key=self.sums.__getitem__, default=None)

    def share_of(self, label: str) -> float | None:
        """Return the label's share of the votes, in 0..1; None where no page has voted."""
        total = sum(self.sums.values())
        return self.sums.get(label, 0.0) / total if total else None

    @property
    def are_clear(self) -> bool:
        """True where so many pages look alike that the next one hardly tells more."""
        winner = self.winner
        share = None if winner is None else self.share_of(winner)
        return share is not None and share >= _CLEAR_SHARE and self.page_count >= _CLEAR_PAGES

    def to_json(self) -> list[Any]:
        return [self.page_count, {label: round(value, 3) for label, value in sorted(self.sums.items())}]

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `to_json` gave. Raises ValueError or TypeError for anything else."""
        page_count, sums = value
        if not isinstance(sums, Mapping):
            raise TypeError("votes are no object")
        return cls(int(page_count), {str(label): float(number) for label, number in sums.items()})


def is_reliable(guess: Guess | None, record: tuple[int, int], *, at_least: int = MIN_RIGHT) -> bool:
    """Tell whether a guess may stand for the model's answer: it is sure, and guesses of its label were (right, wrong)
    so often, `at_least` so often right."""
    right, wrong = record
    is_sure = guess is not None and guess.confidence >= SURE_GUESS
    return is_sure and right >= at_least and right >= _RIGHT_PER_WRONG * wrong


def record_of(label: str, answers: Iterable[tuple[str, str]], hints: Mapping[str, PageHint]) -> tuple[int, int]:
    """Return how many of the pages with an answer (url, label) that surely looked like `label` are so, and how many
    are not."""
    found = [
        answer
        for url, answer in answers
        if (guess := hints.get(url, NO_HINT).guess) and guess.label == label and guess.confidence >= SURE_GUESS
    ]
    right = found.count(label)
    return right, len(found) - right


def resemblance(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two sets, in 0..1; 0 for two empty ones."""
    union = len(one | other)
    return len(one & other) / union if union else 0.0
