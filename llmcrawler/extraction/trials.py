"""How a candidate does: on the samples, and on pages that nobody was shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from llmcrawler.extraction.blocks import PageBlocks
from llmcrawler.extraction.candidates import Candidate
from llmcrawler.extraction.ground import Ground
from llmcrawler.extraction.model import Selector
from llmcrawler.extraction.patterns import learn_pattern, taken

Texts = tuple[str, ...]

_LONG_LIST = 12
MIN_SUPPORT = 0.6


@dataclass(slots=True)
class Trial:
    """How a candidate does. `judged` counts the samples, the next four what it does on them; it may also be silent
    where it should be."""

    candidate: Candidate
    selector: Selector
    judged: int = 0
    hit: frozenset[int] = frozenset()
    wrong: int = 0
    missed: int = 0
    ghosts: int = 0
    outputs: tuple[Texts, ...] = ()  # on the unlabelled pages
    agreement: float | None = None
    coverage: float = 0.0
    several: float = 0.0
    distinct: float = 0.0

    @property
    def hits(self) -> int:
        return len(self.hit)

    @property
    def claims(self) -> float:
        """The samples that it is judged by: those with a value, and those where it speaks of one that is not there.

        A model often leaves out what is there; it seldom points where nothing is.
        """
        return self.hits + self.wrong + self.missed + 0.5 * self.ghosts

    @property
    def support(self) -> float:
        return self.hits / max(1.0, self.claims)

    @property
    def is_quiet(self) -> bool:
        """On the samples it is right wherever it speaks."""
        return not self.wrong and not self.ghosts

    @property
    def score(self) -> float:
        agreement = 0.5 if self.agreement is None else self.agreement
        return (
            4 * self.support
            + self.candidate.prior
            + agreement
            + 1.5 * self.coverage
            - 0.6 * self.several
            + 0.3 * self.distinct
        )


def tried(candidate: Candidate, wanted: Sequence[Texts], ground: Ground, *, lists: bool) -> Trial:
    """On the samples; `wanted` are the values of each."""
    given = [ground.texts(sample.page, candidate.selector) for sample in ground.samples]
    pairs = [pair for texts, want in zip(given, wanted, strict=True) for pair in _pairs(texts, want)]
    selector = replace(candidate.selector, pattern=learn_pattern(pairs))
    trial = Trial(candidate, selector, len(ground.samples))
    for place, (sample, want) in enumerate(zip(ground.samples, wanted, strict=True)):
        got = _output(ground, sample.page, selector, lists=lists)
        if len(want) >= _LONG_LIST:
            got = got[: len(want)]  # the model may have been shown only the beginning
        if got == want:
            trial.hit |= {place} if want else set()
        elif not want:
            trial.ghosts += 1
        elif got:
            trial.wrong += 1
        else:
            trial.missed += 1
    return trial


def look_at_others(trial: Trial, ground: Ground, *, lists: bool) -> None:
    """On the unlabelled pages, and what all pages say of it together."""
    trial.outputs = tuple(_output(ground, page, trial.selector, lists=lists) for page in ground.others)
    on_samples = [_output(ground, sample.page, trial.selector, lists=lists) for sample in ground.samples]
    everywhere = [*trial.outputs, *on_samples]
    trial.coverage = sum(map(bool, everywhere)) / len(everywhere)
    spoken = [one for one in everywhere if one]
    trial.distinct = (len(set(spoken)) - 1) / max(1, len(spoken) - 1)
    if not lists and ground.others:
        given = [set(taken(ground.texts(page, trial.selector), trial.selector.pattern)) for page in ground.others]
        trial.several = sum(len(one) > 1 for one in given) / len(given)


def compare(trials: Sequence[Trial]) -> None:
    """Agreement of each trial with the best one of another kind of evidence that explains the samples."""
    for trial in trials:
        rivals = [
            other
            for other in trials
            if other.selector.evidence != trial.selector.evidence
            and other.support >= min(MIN_SUPPORT, trial.support)
            and other.outputs
        ]
        if rivals and trial.outputs:
            trial.agreement = max(agreement_of(trial, other) for other in rivals)


def agreement_of(one: Trial, other: Trial) -> float:
    return fmean(a == b for a, b in zip(one.outputs, other.outputs, strict=True))


def _pairs(texts: Sequence[str], want: Texts) -> list[tuple[str, str]]:
    """(text, value) where a text holds a value; for a single value the first text that is or holds it."""
    if not want or not texts:
        return []
    if len(want) > 1:
        return [pair for pair in zip(texts, want, strict=False) if pair[1] in pair[0]]
    value = want[0]
    holding = [text for text in texts if text == value] or [text for text in texts if value in text]
    return [(holding[0], value)] if holding else []


def _output(ground: Ground, page: PageBlocks, selector: Selector, *, lists: bool) -> Texts:
    texts = taken(ground.texts(page, selector), selector.pattern)
    return tuple(texts) if lists else tuple(texts[:1])
