"""Scores of candidate selectors: on the annotated pages, and on those that the annotator was not shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.candidates import Candidate
from llmcrawler.core.understanding.extraction.extractor import Selector
from llmcrawler.core.understanding.extraction.patterns import learn_pattern, taken
from llmcrawler.core.understanding.extraction.training_set import TrainingSet

Texts = tuple[str, ...]

_LONG_LIST = 12
MIN_SUPPORT = 0.6


@dataclass(slots=True)
class CandidateScore:
    """The figures of a candidate. `judged` counts the annotated pages, the next four what it does on them; it may also
    be silent where it should be. `outputs` are its texts on the other pages."""

    candidate: Candidate
    selector: Selector
    judged: int = 0
    hit: frozenset[int] = frozenset()
    wrong: int = 0
    missed: int = 0
    ghosts: int = 0
    outputs: tuple[Texts, ...] = ()
    agreement: float | None = None
    coverage: float = 0.0
    several: float = 0.0
    distinct: float = 0.0

    @property
    def claims(self) -> float:
        """The number of pages that it is judged by: those with a value, and those where it gives one that is not there.

        A model often leaves out what is there; it seldom points where nothing is.
        """
        return len(self.hit) + self.wrong + self.missed + 0.5 * self.ghosts

    @property
    def support(self) -> float:
        return len(self.hit) / max(1.0, self.claims)

    @property
    def is_quiet(self) -> bool:
        """Tell whether the candidate is right wherever it gives a value on the annotated pages."""
        return not self.wrong and not self.ghosts

    @property
    def score(self) -> float:
        """The weighted sum of the evidence for the candidate."""
        agreement = 0.5 if self.agreement is None else self.agreement
        seen = 1.5 * self.coverage - 0.6 * self.several + 0.3 * self.distinct
        return 4 * self.support + self.candidate.prior + agreement + seen


def score_annotated(
    candidate: Candidate, expected: Sequence[Texts], pages: TrainingSet, *, lists: bool
) -> CandidateScore:
    """Try a candidate on the annotated pages; `expected` are the values of each."""
    given = [pages.texts(one.page, candidate.selector) for one in pages.annotated]
    pairs = [pair for texts, want in zip(given, expected, strict=True) for pair in _pairs(texts, want)]
    selector = replace(candidate.selector, pattern=learn_pattern(pairs))
    score = CandidateScore(candidate, selector, len(pages.annotated))
    for place, (one, want) in enumerate(zip(pages.annotated, expected, strict=True)):
        got = _output(pages, one.page, selector, lists=lists)
        if len(want) >= _LONG_LIST:
            got = got[: len(want)]  # the model may have been shown only the beginning
        if got == want:
            score.hit |= {place} if want else set()
        elif not want:
            score.ghosts += 1
        elif got:
            score.wrong += 1
        else:
            score.missed += 1
    return score


def score_others(score: CandidateScore, pages: TrainingSet, *, lists: bool) -> None:
    """Try a candidate on the other pages, and note what all pages say of it together."""
    score.outputs = tuple(_output(pages, page, score.selector, lists=lists) for page in pages.others)
    everywhere = [
        *score.outputs,
        *(_output(pages, one.page, score.selector, lists=lists) for one in pages.annotated),
    ]
    score.coverage = sum(map(bool, everywhere)) / len(everywhere)
    spoken = [one for one in everywhere if one]
    score.distinct = (len(set(spoken)) - 1) / max(1, len(spoken) - 1)
    if not lists and pages.others:
        several = (len(set(_output(pages, page, score.selector, lists=True))) > 1 for page in pages.others)
        score.several = sum(several) / len(pages.others)


def compare(scores: Sequence[CandidateScore]) -> None:
    """Note how far each agrees with the best one of another kind of evidence that explains the annotated pages."""
    for one in scores:
        rivals = [
            other
            for other in scores
            if other.selector.evidence != one.selector.evidence
            and other.support >= min(MIN_SUPPORT, one.support)
            and other.outputs
        ]
        if rivals and one.outputs:
            one.agreement = max(agreement_of(one, other) for other in rivals)


def agreement_of(one: CandidateScore, other: CandidateScore) -> float:
    """Return the share of the other pages on which two candidates give the same texts."""
    return fmean(a == b for a, b in zip(one.outputs, other.outputs, strict=True))


def _pairs(texts: Sequence[str], want: Texts) -> list[tuple[str, str]]:
    """Return pairs (text, value) where a text holds a value; for a single value the first text that is or holds it."""
    if not want or not texts:
        return []
    if len(want) > 1:
        return [pair for pair in zip(texts, want, strict=False) if pair[1] in pair[0]]
    value = want[0]
    holding = [text for text in texts if text == value] or [text for text in texts if value in text]
    return [(holding[0], value)] if holding else []


def _output(pages: TrainingSet, page: PageBlocks, selector: Selector, *, lists: bool) -> Texts:
    texts = taken(pages.texts(page, selector), selector.pattern)
    return tuple(texts if lists else texts[:1])
