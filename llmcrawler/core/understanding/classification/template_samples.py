"""Keeps the samples of one template, and decides the next step of each of its pages. No waiting happens here."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from llmcrawler.core.understanding.classification.guess_votes import (
    NO_HINT,
    SURE_GUESS,
    GuessVotes,
    PageHint,
    is_reliable,
    record_of,
    resemblance,
)

# After a sample that disagrees, so many more are asked: twice as many each time that nothing was found to separate
# them, but no more than a batch.
EXTRA_SAMPLES = 6
MAX_EXTRA_SAMPLES = 20

# So many failed samples in a row, and the pages that wait for the template's first verdict wait no longer.
MAX_FAILURES = 3

# One answer may be wrong: it may decide for so many pages, then it has to be confirmed. From so many pages on that
# wait for it, it takes the majority of QUORUM before any of them goes on.
TRUSTED_ALONE = 8
QUORUM = 3

# A template in which the samples keep disagreeing though nothing separates them: only below this share of the
# majority does another odd sample ask for more.
_CLEAR_MAJORITY = 0.75

# A second label that two samples have, and this share of all: the template holds several kinds of page.
_MIXED_SHARE = 0.15

# So many pages with the same guess may show that it is wrong here; from then on it makes nobody ask.
_FALSE_ALARMS = 2


class SampleStep(enum.Enum):
    """The next step of a page of the template."""

    ASK = "ask"  # it is a sample: the model judges it, now
    ASK_PATIENTLY = "ask patiently"  # it is a sample, but nobody waits for it
    WAIT = "wait"  # others are being asked
    TAKE = "take"  # the template's verdict is its own
    GUESS = "guess"  # the template has no verdict for it, but guesses have proved right
    FAIL = "fail"  # there is no verdict, and asking did not help


@dataclass(slots=True)
class TemplateSamples:
    """Samples of a template. `labels` are the model's answers by url, in the order they came. `asked` are the samples
    that are out (url -> patient), `waiting` the pages that wait for them. `page_count` is the highest member number
    seen. `hints` has what is known of these pages without a model; `votes` adds up the guesses of all pages.
    """

    labels: dict[str, str] = field(default_factory=dict)
    asked: dict[str, bool] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    hints: dict[str, PageHint] = field(default_factory=dict)
    votes: GuessVotes = field(default_factory=GuessVotes)
    page_count: int = 0
    _round: int = -1
    _chosen: set[str] = field(default_factory=set)
    _extra_left: int = 0
    _in_doubt: bool = False
    _is_held: bool = False
    _doubts: int = 0
    _failures: int = 0
    _retry_at: int = 0
    _taken: int = 0

    def step(self, url: str, member: int, *, may_ask: bool = True) -> SampleStep:  # noqa: C901, PLR0911 - a list of rules
        """Return the next step of a page. `may_ask` is False for one that was asked about in vain."""
        self.page_count = max(self.page_count, member)
        if url in self.asked:
            return SampleStep.WAIT  # the same page twice at a time
        if url in self._chosen and may_ask:
            return SampleStep.ASK
        if all(map(_is_front_page, self.labels)):
            return self._step_to_first_verdict(may_ask)
        if self._in_doubt:
            if self._extra_left and may_ask:
                return SampleStep.ASK
            if self._is_waited_for(may_ask):
                return SampleStep.WAIT
        if self.is_mixed:
            return self._step_of_mixed(url, may_ask)
        if self._is_held and len(self.labels) < QUORUM and self._is_waited_for(may_ask):
            return SampleStep.WAIT
        if may_ask and self._taken >= TRUSTED_ALONE and len(self.labels) == 1 and not self._urgent_count:
            return SampleStep.ASK
        if may_ask and (step := self._step_of_contradicted(url)):
            return step
        if may_ask and _round_of(self.page_count) > self._round:
            return SampleStep.ASK_PATIENTLY
        return SampleStep.TAKE

    def _step_of_mixed(self, url: str, may_ask: bool) -> SampleStep:
        """Return the step of a page that nobody can speak for; not too many are asked before there are answers."""
        guess = self._hint(url).guess
        if guess is not None and is_reliable(guess, self._record_of(guess.label)):
            return SampleStep.GUESS
        if not may_ask:
            return SampleStep.FAIL
        return SampleStep.ASK if self._urgent_count < MAX_EXTRA_SAMPLES else SampleStep.WAIT

    def _step_of_contradicted(self, url: str) -> SampleStep | None:
        """Return the step of a page that surely looks like something else than the template's verdict, unless its looks
        have proved to mean nothing here."""
        guess = self._hint(url).guess
        if guess is None or guess.confidence < SURE_GUESS or guess.label == self.majority:
            return None
        right, wrong = record = self._record_of(guess.label)
        if is_reliable(guess, record):
            return SampleStep.GUESS
        out = sum(1 for one in self.asked if (told := self._hint(one).guess) and told.label == guess.label)
        if wrong + out < _FALSE_ALARMS or right > wrong:
            return SampleStep.ASK
        return SampleStep.WAIT if out and self._urgent_count else None

    def _record_of(self, label: str) -> tuple[int, int]:
        return record_of(label, self.labels.items(), self.hints)

    def _hint(self, url: str) -> PageHint:
        return self.hints.get(url, NO_HINT)

    def _step_to_first_verdict(self, may_ask: bool) -> SampleStep:
        if self.asked:
            if may_ask and _round_of(self.page_count) > self._round:
                return SampleStep.ASK_PATIENTLY if len(self.waiting) < TRUSTED_ALONE else SampleStep.ASK
            return SampleStep.WAIT
        return SampleStep.ASK if may_ask and self.page_count >= self._retry_at else SampleStep.FAIL

    def note_asked(self, url: str, *, patient: bool) -> None:
        self.asked[url] = patient
        self._round = max(self._round, _round_of(self.page_count))
        self.waiting.pop(url, None)
        if url in self._chosen:
            self._chosen.remove(url)
        elif self._in_doubt and self._extra_left:
            self._extra_left -= 1

    def note_taken(self, url: str) -> None:
        self._taken += 1
        self.waiting.pop(url, None)

    def note_answer(self, url: str, label: str) -> None:
        """Note the answer on a sample. It may put the template in doubt, and choose further samples."""
        majority = None if all(map(_is_front_page, self.labels)) else self.majority
        self.asked.pop(url, None)
        self.labels[url] = label
        self._failures = 0
        if _is_front_page(url):
            return
        if majority is not None and label != majority and not self._in_doubt and self._is_doubtful:
            self._in_doubt = True
            extra = min(EXTRA_SAMPLES << min(self._doubts, 4), MAX_EXTRA_SAMPLES)
            self._extra_left = extra - self._choose(extra, like=url)
        elif not self._in_doubt and len(self.waiting) >= TRUSTED_ALONE:
            self._is_held = True
            self._choose(QUORUM - len(self.labels) - self._urgent_count)

    def note_failure(self, url: str) -> None:
        self.asked.pop(url, None)
        self._failures += 1
        if not self.labels and not self.asked and self._failures >= MAX_FAILURES:
            # Those that come later try again, at twice the number of pages each time: a model that always fails on
            # this template costs a few calls, not one a page.
            self._retry_at = 2 * max(self.page_count, 1)

    @property
    def majority(self) -> str | None:
        """The label of most samples; of equally many the one that came first. A site's front page speaks for others
        only until one of them has been judged."""
        votes = Counter(label for url, label in self.labels.items() if not _is_front_page(url))
        votes = votes or Counter(self.labels.values())
        return votes.most_common(1)[0][0] if votes else None

    @property
    def confidence(self) -> float:
        """The probability that the next page has the majority's label: (agreeing + 1) / (samples + 2), Laplace's rule
        of succession ("Essai philosophique sur les probabilités", 1814). The looks of all its pages count like one
        more sample, which agrees as far as they do: they err together."""
        answers = Counter(self.labels.values())
        majority, agreeing = answers.most_common(1)[0] if answers else ("", 0)
        share = self.votes.share_of(majority)
        if share is None:
            return (agreeing + 1) / (len(self.labels) + 2)
        return (agreeing + share + 1) / (len(self.labels) + 3)

    @property
    def is_mixed(self) -> bool:
        """True where the samples speak for several kinds of page: the template's verdict is nobody's."""
        common = Counter(self.labels.values()).most_common(2)
        return len(common) > 1 and common[1][1] > 1 and common[1][1] >= _MIXED_SHARE * len(self.labels)

    def take_settled_doubt(self) -> Mapping[str, str] | None:
        """Return the labels by url, once after each doubt, when its last sample is in and they speak for two kinds of
        page."""
        if not self._in_doubt or self._extra_left or self._chosen or self._urgent_count:
            return None
        self._in_doubt = False
        self._doubts += 1
        # A single odd answer among eight is an odd page or a slip of the model; two of a kind may be a template.
        common = Counter(self.labels.values()).most_common(2)
        return dict(self.labels) if len(common) > 1 and common[1][1] > 1 else None

    def inherit(self, labels: Mapping[str, str], asked: Mapping[str, bool]) -> TemplateSamples:
        """Return the group after a change of its members, with exactly those samples that are its own now.

        Where it has lost samples its counts of pages start anew: the next page brings the right one.
        """
        kept = self.labels.keys() <= labels.keys()
        page_count = max(len(labels) + len(asked), self.page_count if kept else 0)
        return TemplateSamples(
            labels=dict(labels),
            asked=dict(asked),
            hints=self.hints,
            votes=self.votes if kept else GuessVotes(),
            page_count=page_count,
            _round=max(_round_of(len(labels) + len(asked)), self._round if kept else -1),
            _failures=self._failures,
            _retry_at=self._retry_at if kept else 0,
        )

    def to_json(self) -> list[Any]:
        """Return what has been counted; the labels are their pages' own."""
        return [self.page_count, self._round, self._doubts, self._taken, self.votes.to_json()]

    @classmethod
    def from_json(cls, value: Any, labels: Mapping[str, str], hints: dict[str, PageHint]) -> Self:
        """Restore the group in the next crawl. No page waits; a doubt that was not settled is dropped."""
        *numbers, votes = value
        page_count, last_round, doubts, taken = map(int, numbers)
        return cls(
            labels=dict(labels),
            hints=hints,
            votes=GuessVotes.from_json(votes),
            page_count=page_count,
            _round=last_round,
            _doubts=doubts,
            _taken=taken,
        )

    def leave(self, url: str) -> bool:
        """Let a page wait no longer; True when it was chosen as a sample, and others must not wait for it."""
        self.waiting.pop(url, None)
        was_chosen = url in self._chosen
        self._chosen.discard(url)
        return was_chosen

    def _is_waited_for(self, may_ask: bool) -> bool:
        """Tell whether samples are out, or chosen and about to be asked. A page that may not be asked about must not
        wait for others that may not either."""
        return self._urgent_count > 0 or (may_ask and bool(self._chosen))

    @property
    def _urgent_count(self) -> int:
        return sum(not patient for patient in self.asked.values())

    @property
    def _is_doubtful(self) -> bool:
        votes = Counter(self.labels.values())
        share = votes.most_common(1)[0][1] / len(self.labels)
        return not self._doubts or share < _CLEAR_MAJORITY or self.is_mixed

    def _choose(self, count: int, like: str | None = None) -> int:
        """Choose samples from the waiting pages: half are those that are most like the page `like`, or that look like
        something else than the verdict; the others are evenly spread. Returns how many."""
        free = [url for url in self.waiting if url not in self._chosen]
        count = max(0, min(count, len(free)))
        words = self._hint(like).words if like else frozenset()
        ranked = {url: (resemblance(words, self._hint(url).words), self._looks_other(url)) for url in free}
        first = sorted((url for url in free if any(ranked[url])), key=ranked.__getitem__, reverse=True)[: count // 2]
        self._chosen.update(first)
        free = [url for url in free if url not in self._chosen]
        rest = count - len(first)
        self._chosen.update(free[at * len(free) // rest] for at in range(rest))
        return count

    def _looks_other(self, url: str) -> bool:
        guess = self._hint(url).guess
        return guess is not None and guess.label != self.majority


def _is_front_page(url: str) -> bool:
    return "://" in url and not url.partition("://")[2].partition("/")[2]


def _round_of(page_count: int) -> int:
    """Return the round of samples, due at pages 1, 4, 16, 64, ...: the number of the last of these; -1 before the
    first."""
    return (page_count.bit_length() - 1) // 2 if page_count > 0 else -1
