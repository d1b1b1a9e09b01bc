"""From samples to selectors: candidates are tried on the samples and on pages nobody was shown, the best are kept.

What counts (DESIGN, "Records"): hits on the samples, output where the field is absent, the kind of evidence, coverage
of unlabelled pages, agreement with a selector of another kind, several values where there should be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from llmcrawler.extraction.blocks import PageBlocks
from llmcrawler.extraction.candidates import Candidate, candidates_for, started_with
from llmcrawler.extraction.ground import Ground
from llmcrawler.extraction.model import Field, FieldRule, Selector
from llmcrawler.extraction.samples import Sample, Value, as_one
from llmcrawler.extraction.trials import MIN_SUPPORT, Trial, agreement_of, compare, look_at_others, tried

_FINALISTS = 14
_QUIET_FINALISTS = 6
_TRUSTED_AGREEMENT = 0.9
# A value that stands elsewhere on the page too: not pointed at, but perhaps better marked.
_TWIN_DISCOUNT = 0.25
_MAX_TWINS = 6
_MIN_TWIN_CHARS = 3
_POSITION = re.compile(r"^/html/|\]\[\d|[a-z]\[\d+\](?!.*normalize-space)")
# So many samples without a word against it confirm a selector whose kind is trusted; so many, one of any kind.
_SURE_SAMPLES = 3
_SURE_PRIOR = 0.8
_CONVINCING_PRIOR = 0.6
_MANY_SAMPLES = 5
# What a page says of its own differs from what others say; what a menu says does not.
_DISTINCT = 0.5
_MAX_COMPLEMENTS = 2
_HOPELESS_SUPPORT = 0.4
# A fallback may speak where the best selector is silent on so many pages: on more, the field is absent there.
_MAX_FALLBACK_NOISE = 0.05


@dataclass(frozen=True, slots=True)
class Learned:
    """`rule` is None where no selector explains the samples. `doubt` says why more samples would help ("" where none
    would); `disputed` are the unlabelled pages, by their place, on which good candidates differ.
    """

    field: Field
    rule: FieldRule | None
    doubt: str
    disputed: tuple[int, ...] = ()


def learn_field(field: Field, ground: Ground) -> Learned:
    """The rule of one field (without a group), from the samples that have values for it."""
    expected = [_expected(field, sample) for sample in ground.samples]
    if not any(expected):
        return Learned(field, None, "")  # more samples would hardly have it either
    joined = not field.many and sum(len(one) > 1 for one in expected) * 2 > sum(bool(one) for one in expected)
    lists = field.many or joined
    wanted = [tuple(value.text for value in (one if lists else one[:1])) for one in expected]
    trials = [tried(candidate, wanted, ground, lists=lists) for candidate in _candidates(expected, ground, lists=lists)]
    trials = [trial for trial in trials if trial.hits]
    if not trials:
        return Learned(field, None, "nothing on the samples leads to it")
    trials.sort(key=lambda trial: -(4 * trial.support + trial.candidate.prior))
    finalists = _varied(trials)
    for trial in finalists:
        look_at_others(trial, ground, lists=lists)
    ground.forget()
    compare(finalists)
    finalists.sort(key=lambda trial: -trial.score)
    return _judged(field, finalists, sum(bool(one) for one in wanted), joined=joined)


def _expected(field: Field, sample: Sample) -> tuple[Value, ...]:
    values = sample.values.get(field.key, ())
    return values if field.many else as_one(values)


def _candidates(expected: Sequence[tuple[Value, ...]], ground: Ground, *, lists: bool) -> list[Candidate]:
    found: dict[tuple[str, str | None], Candidate] = {}

    def note(candidates: Iterable[Candidate], discount: float = 0.0) -> None:
        for one in candidates:
            key = (one.selector.query, one.selector.attribute)
            if key not in found or found[key].prior < one.prior - discount:
                found[key] = Candidate(one.selector, one.prior - discount)

    for values, sample in zip(expected, ground.samples, strict=True):
        if not values:
            continue
        note(candidates_for([value.spot for value in (values if lists else values[:1])]))
        if not lists:
            note(_label_inside(values[0]))
            for twin in _twins(values[0], sample.page):
                note(candidates_for([twin.spot]), _TWIN_DISCOUNT)
    return list(found.values())


def _label_inside(value: Value) -> Iterable[Candidate]:
    element = value.spot.element
    if element is None or value.spot.attribute:
        return ()
    whole = " ".join("".join(str(piece) for piece in element.itertext()).split())
    at = whole.find(value.text)
    return started_with(element, whole[:at]) if at > 0 else ()


def _twins(value: Value, page: PageBlocks) -> list[Value]:
    if len(value.text) < _MIN_TWIN_CHARS:
        return []
    same = [block for block in page.blocks if block.text == value.text and page.spots[block.n] != value.spot]
    return [Value(value.text, page.spots[block.n]) for block in same[:_MAX_TWINS]]


def _varied(trials: Sequence[Trial]) -> list[Trial]:
    """The best; of each kind of evidence the best two, for agreement is only worth something between kinds; and those
    that may speak where the best one is silent."""
    kept = list(trials[:_FINALISTS])
    for kind in dict.fromkeys(trial.selector.evidence for trial in trials):
        kept += [trial for trial in trials if trial.selector.evidence == kind][:2]
    quiet = [trial for trial in trials if trial.is_quiet and trial.hit - trials[0].hit]
    kept += sorted(quiet, key=lambda trial: -len(trial.hit - trials[0].hit))[:_QUIET_FINALISTS]
    return list({id(trial): trial for trial in kept}.values())


def _judged(field: Field, trials: Sequence[Trial], labelled: int, *, joined: bool) -> Learned:
    best, partners = _team(trials)
    disputed = _disputed(trials) if best.hits > 1 else _spoken(best)
    many_samples = best.judged >= _MANY_SAMPLES
    explained = len(_explained(best, partners))
    contradicted = explained < MIN_SUPPORT * best.claims and not _is_plurality(best, trials)
    if not _is_convincing(best) and (contradicted or (explained < 2 and labelled > 1)):
        # Where half of many samples say something else, more of them would not help.
        hopeless = many_samples and best.support < _HOPELESS_SUPPORT
        return Learned(field, None, "" if hopeless else "the samples contradict each other", disputed)
    selectors = tuple(_finished(one) for one in (best, *partners, *_fallbacks(best, trials, partners)))
    rule = FieldRule(field, selectors, joined)
    return Learned(field, rule, _doubt(best, explained, is_scalar=not field.many and not joined), disputed)


def _doubt(best: Trial, explained: int, *, is_scalar: bool) -> str:
    """Why more samples would help; "" where they would not."""
    many_samples = best.judged >= _MANY_SAMPLES
    if explained < 2:
        return "it is on one sample only"
    if explained < best.claims:
        return "a sample speaks against it"
    if best.judged < _SURE_SAMPLES or (best.candidate.prior < _SURE_PRIOR and not many_samples):
        if best.agreement is not None and best.agreement < _TRUSTED_AGREEMENT:
            return "selectors of other kinds give other values"
        if best.agreement is None and explained < _SURE_SAMPLES:
            return "nothing else confirms it"
    return "it has several values on some pages" if is_scalar and best.several and not many_samples else ""


def _team(trials: Sequence[Trial]) -> tuple[Trial, list[Trial]]:
    """The best selector, or one that is never wrong with those that complete it, where they explain more samples."""
    best = trials[0]
    leaders = [one for one in trials[1:] if one.is_quiet and one.hits > 1]
    teams = [(one, _complements(one, trials)) for one in (best, *leaders)]
    teams = [(one, partners) for one, partners in teams if all(other.hits <= one.hits for other in partners)]
    return max(
        teams or [(best, [])], key=lambda team: (len(_explained(*team)), team[0] is best, -len(team[1]), team[0].score)
    )


def _explained(best: Trial, partners: Sequence[Trial]) -> frozenset[int]:
    return best.hit.union(*(one.hit for one in partners))


def _complements(best: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """Selectors for the samples on which the best one gives nothing: some templates have two layouts. They must be
    right wherever they speak, and speak where the best one does not."""
    found: list[Trial] = []
    hit = best.hit
    while len(found) < _MAX_COMPLEMENTS and best.missed:
        fitting = [one for one in trials if one.is_quiet and len(one.hit - hit) > 1]
        fitting = [one for one in fitting if _adds_quietly(best, one)]
        if not fitting:
            break
        found.append(max(fitting, key=lambda one: (len(one.hit - hit), one.score)))
        hit |= found[-1].hit
    return found


def _adds_quietly(best: Trial, other: Trial) -> bool:
    pairs = zip(best.outputs, other.outputs, strict=True)
    both = [mine == his for mine, his in pairs if mine and his]
    return not both or fmean(both) >= _TRUSTED_AGREEMENT


def _is_plurality(best: Trial, trials: Sequence[Trial]) -> bool:
    """Whether the samples that speak against a selector have nothing in common: then they are slips of the model."""
    trusted = best.candidate.prior >= _SURE_PRIOR and best.distinct > _DISTINCT
    enough = 2 if trusted else _SURE_SAMPLES
    return best.hits >= enough and all(len(other.hit - best.hit) <= 1 for other in trials)


def _is_convincing(trial: Trial) -> bool:
    """Whether one sample is enough against another one that says something else: the selector is of a trusted kind, one
    of another kind says the same nearly everywhere, and what they say differs from page to page."""
    agreed = trial.agreement is not None and trial.agreement >= _TRUSTED_AGREEMENT
    return agreed and trial.candidate.prior >= _CONVINCING_PRIOR and trial.distinct > _DISTINCT and trial.coverage > 0.3


def _finished(trial: Trial) -> Selector:
    agreement = None if trial.agreement is None else round(trial.agreement, 3)
    return replace(trial.selector, coverage=round(trial.coverage, 3), agreement=agreement)


def _fallbacks(best: Trial, trials: Sequence[Trial], partners: Sequence[Trial]) -> list[Trial]:
    """The best candidate of another kind that is silent where the best one is, and says the same where it is not."""
    for other in trials[1:] if not partners else ():
        if other.selector.evidence == best.selector.evidence or other.support < best.support:
            continue
        if ":nth-of-type" in other.selector.query or _POSITION.search(other.selector.query):
            continue  # where a row is missing, a position finds its neighbour
        if other.several > _MAX_FALLBACK_NOISE:
            continue
        pairs = list(zip(best.outputs, other.outputs, strict=True))
        noise = sum(not mine and bool(his) for mine, his in pairs)
        if noise <= _MAX_FALLBACK_NOISE * len(pairs) and (not pairs or agreement_of(best, other) >= _TRUSTED_AGREEMENT):
            return [other]
    return []


def _spoken(trial: Trial) -> tuple[int, ...]:
    """Unlabelled pages on which a candidate gives something: there it can be confirmed or refuted."""
    return tuple(place for place, output in enumerate(trial.outputs) if output)


def _disputed(trials: Sequence[Trial]) -> tuple[int, ...]:
    """Unlabelled pages on which good candidates say different things, or one says several; the most disputed first."""
    good = [trial for trial in trials if trial.support >= trials[0].support - 0.01][:6]
    votes: Mapping[int, int] = {
        place: len({trial.outputs[place] for trial in good}) for place in range(len(trials[0].outputs))
    }
    return tuple(sorted((place for place, count in votes.items() if count > 1), key=lambda place: -votes[place]))
