"""Learns selectors from annotated pages: tries candidates on them and on the other pages, and keeps the best.

A candidate is judged by hits on the annotated pages, output where the field is absent, the kind of evidence, coverage
of the other pages, agreement with a selector of another kind, several values where there should be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Spot
from llmcrawler.core.understanding.extraction.candidate_scores import (
    MIN_SUPPORT,
    CandidateScore,
    Texts,
    agreement_of,
    compare,
    score_annotated,
    score_others,
)
from llmcrawler.core.understanding.extraction.candidates import Candidate, best_of_each, candidates_for, started_with
from llmcrawler.core.understanding.extraction.extractor import Field, FieldRule, Selector
from llmcrawler.core.understanding.extraction.training_set import TrainingSet, Value, as_one
from llmcrawler.core.understanding.extraction.unread_pages import pages_with_more, unread_pages

_FINALISTS = 14
_QUIET_FINALISTS = 6
_TRUSTED_AGREEMENT = 0.9
# A value that stands elsewhere on the page too: not pointed at, but perhaps better marked.
_TWIN_DISCOUNT = 0.25
_MAX_TWINS = 6
_MIN_TWIN_CHARS = 3
_POSITION = re.compile(r":nth-of-type|^/html/|\]\[\d|[a-z]\[\d+\](?!.*normalize-space)")
# Annotated pages, none against it, that confirm a selector of a kind so trusted; _MANY_PAGES confirm one of any kind.
_SURE_PAGES = 3
_SURE_PRIOR = 0.8
_CONVINCING_PRIOR = 0.6
_MANY_PAGES = 5
# Share of pages that differ: a page's own value differs from those of other pages, the text of a menu does not.
_DISTINCT = 0.5
_MAX_COMPLEMENTS = 2
_GIVE_UP_SUPPORT = 0.4
# A fallback may speak where the best selector is silent on so many pages: on more, the field is absent there.
_MAX_FALLBACK_NOISE = 0.05


@dataclass(frozen=True, slots=True)
class LearnedField:
    """The outcome for one field. `rule` is None where no selector explains the annotated pages. `doubt` says why more
    of them would help ("" where they would not); `disputed` are the other pages, by their place, on which good
    candidates differ."""

    field: Field
    rule: FieldRule | None
    doubt: str
    disputed: tuple[int, ...] = ()


def learn_field(field: Field, pages: TrainingSet) -> LearnedField:
    """Learn the rule of one field (without a group) from the pages that have values for it."""
    given = [one.values.get(field.key, ()) for one in pages.annotated]
    expected = given if field.many else [as_one(values) for values in given]
    if not any(expected):
        return LearnedField(field, None, "")  # more pages would hardly have it either
    joined = not field.many and sum(len(one) > 1 for one in expected) * 2 > sum(bool(one) for one in expected)
    lists = field.many or joined
    texts = [tuple(value.text for value in (one if lists else one[:1])) for one in expected]
    scores = [
        score_annotated(candidate, texts, pages, lists=lists)
        for candidate in best_of_each(_candidates(expected, pages, lists=lists))
    ]
    scores = [one for one in scores if one.hit]
    if not scores:
        return LearnedField(field, None, "nothing on the samples leads to it")
    scores.sort(key=lambda one: -(4 * one.support + one.candidate.prior))
    finalists = _varied(scores)
    for one in finalists:
        score_others(one, pages, lists=lists)
    pages.forget()
    compare(finalists)
    finalists = sorted(finalists, key=lambda one: (_is_outdone(one, finalists), -one.score))
    return _judged(field, finalists, texts, pages, joined=joined)


def _is_outdone(one: CandidateScore, others: Sequence[CandidateScore]) -> bool:
    """Tell whether another candidate, of evidence trusted more, is right where this one is, and more often silent where
    it should be: that this one speaks on more pages is then no merit.
    """
    return any(
        other.hit >= one.hit
        and other.wrong <= one.wrong
        and other.wrong + other.ghosts < one.wrong + one.ghosts
        and len(other.hit) > 1
        and other.candidate.prior > one.candidate.prior
        for other in others
    )


def _candidates(expected: Sequence[tuple[Value, ...]], pages: TrainingSet, *, lists: bool) -> Iterator[Candidate]:
    for values, one in zip(expected, pages.annotated, strict=True):
        if not values:
            continue
        for spots in _of_one_kind(values, one.page) if lists else [[values[0].spot]]:
            yield from candidates_for(spots)
        if not lists:
            yield from _label_inside(values[0])
            for twin in _twins(values[0], one.page):
                for candidate in candidates_for([twin.spot]):
                    yield Candidate(candidate.selector, candidate.prior - _TWIN_DISCOUNT)


def _label_inside(value: Value) -> Iterable[Candidate]:
    element = value.spot.element
    if element is None or value.spot.attribute:
        return ()
    whole = " ".join("".join(str(piece) for piece in element.itertext()).split())
    at = whole.find(value.text)
    return started_with(element, whole[:at]) if at > 0 else ()


def _twins(value: Value, page: PageBlocks) -> list[Value]:
    """Return other places of a page with the text of a value."""
    if len(value.text) < _MIN_TWIN_CHARS:
        return []
    same = [block for block in page.blocks if block.text == value.text and page.spots[block.n] != value.spot]
    return [Value(value.text, page.spots[block.n]) for block in same[:_MAX_TWINS]]


def _of_one_kind(values: Sequence[Value], page: PageBlocks) -> Iterator[list[Spot]]:
    """Yield where the items of a list stand, for each kind of element or attribute that has all of them: of pictures
    that are linked, some may be pointed at as pictures and others as links.
    """
    kinds = dict.fromkeys(_kind(value.spot) for value in values)
    if len(kinds) < 2:
        yield [value.spot for value in values]
        return
    spots: dict[tuple[str, tuple[str, str | None]], Spot] = {}
    for block in page.blocks:
        spots.setdefault((block.text, _kind(page.spots[block.n])), page.spots[block.n])
    for kind in kinds:
        found = [spots[value.text, kind] for value in values if (value.text, kind) in spots]
        if len(found) == len(values):
            yield found


def _kind(spot: Spot) -> tuple[str, str | None]:
    return "" if spot.element is None else str(spot.element.tag), spot.attribute


def _varied(scores: Sequence[CandidateScore]) -> list[CandidateScore]:
    """Return the best, the best two of each kind of evidence (agreement counts between kinds only), and those that may
    speak where the best one is silent.
    """
    kept = list(scores[:_FINALISTS])
    for kind in dict.fromkeys(one.selector.evidence for one in scores):
        kept += [one for one in scores if one.selector.evidence == kind][:2]
    quiet = [one for one in scores if one.is_quiet and one.hit - scores[0].hit]
    kept += sorted(quiet, key=lambda one: -len(one.hit - scores[0].hit))[:_QUIET_FINALISTS]
    return list({id(one): one for one in kept}.values())


def _judged(
    field: Field, scores: Sequence[CandidateScore], expected: Sequence[Texts], pages: TrainingSet, *, joined: bool
) -> LearnedField:
    annotated = sum(map(bool, expected))
    best, partners = _team(scores)
    # On a page where a candidate gives something, it can be confirmed or refuted.
    disputed = _disputed(scores) if len(best.hit) > 1 else tuple(at for at, output in enumerate(best.outputs) if output)
    explained = len(_explained(best, partners))
    contradicted = explained < MIN_SUPPORT * best.claims and not _is_plurality(best, scores)
    if not _is_convincing(best) and (contradicted or (explained < 2 and annotated > 1)):
        # Where half of many pages say something else, more of them would not help.
        is_given_up = best.judged >= _MANY_PAGES and best.support < _GIVE_UP_SUPPORT
        return LearnedField(field, None, "" if is_given_up else "the samples contradict each other", disputed)
    selectors = tuple(_finished(one) for one in (best, *partners, *_fallbacks(best, scores, partners)))
    rule = FieldRule(field, selectors, joined)
    is_scalar = not field.many and not joined
    doubt = _doubt(best, explained, is_scalar=is_scalar)
    if not doubt and is_scalar and (unread := unread_pages(rule, pages)):
        doubt, disputed = "some pages write it in another way", unread
    elif not doubt and field.many and all(len(one) < 2 for one in expected) and (longer := pages_with_more(scores)):
        doubt, disputed = "some pages may have several", longer
    return LearnedField(field, rule, doubt, disputed)


def _doubt(best: CandidateScore, explained: int, *, is_scalar: bool) -> str:
    """Return the reason why more annotated pages would help; "" where they would not."""
    has_many = best.judged >= _MANY_PAGES
    if explained < 2:
        return "it is on one sample only"
    if explained < best.claims:
        return "a sample speaks against it"
    if best.judged < _SURE_PAGES or (best.candidate.prior < _SURE_PRIOR and not has_many):
        if best.agreement is not None and best.agreement < _TRUSTED_AGREEMENT:
            return "selectors of other kinds give other values"
        if best.agreement is None and explained < _SURE_PAGES:
            return "nothing else confirms it"
    return "it has several values on some pages" if is_scalar and best.several and not has_many else ""


def _team(scores: Sequence[CandidateScore]) -> tuple[CandidateScore, list[CandidateScore]]:
    """Return the best selector; or one that is never wrong and its complements, where they explain more pages."""
    best = scores[0]
    leaders = [one for one in scores[1:] if one.is_quiet and len(one.hit) > 1]
    teams = [(one, _complements(one, scores)) for one in (best, *leaders)]
    teams = [(one, partners) for one, partners in teams if all(len(other.hit) <= len(one.hit) for other in partners)]
    return max(
        teams or [(best, [])], key=lambda team: (len(_explained(*team)), team[0] is best, -len(team[1]), team[0].score)
    )


def _explained(best: CandidateScore, partners: Sequence[CandidateScore]) -> frozenset[int]:
    return best.hit.union(*(one.hit for one in partners))


def _complements(best: CandidateScore, scores: Sequence[CandidateScore]) -> list[CandidateScore]:
    """Return selectors that are right wherever they speak, and speak on pages on which the best one gives nothing:
    some templates have two layouts.
    """
    found: list[CandidateScore] = []
    hit = best.hit
    while len(found) < _MAX_COMPLEMENTS and best.missed:
        fitting = [one for one in scores if one.is_quiet and len(one.hit - hit) > 1 and _adds_quietly(best, one)]
        if not fitting:
            break
        found.append(max(fitting, key=lambda one: (len(one.hit - hit), one.score)))
        hit |= found[-1].hit
    return found


def _adds_quietly(best: CandidateScore, other: CandidateScore) -> bool:
    pairs = zip(best.outputs, other.outputs, strict=True)
    both = [mine == his for mine, his in pairs if mine and his]
    return not both or fmean(both) >= _TRUSTED_AGREEMENT


def _is_plurality(best: CandidateScore, scores: Sequence[CandidateScore]) -> bool:
    """Tell whether the pages that speak against a selector have nothing in common: then they are slips of the model."""
    trusted = best.candidate.prior >= _SURE_PRIOR and best.distinct > _DISTINCT
    enough = 2 if trusted else _SURE_PAGES
    return len(best.hit) >= enough and all(len(other.hit - best.hit) <= 1 for other in scores)


def _is_convincing(one: CandidateScore) -> bool:
    """Tell whether one page is enough against another one that says something else: the selector is of a trusted kind,
    one of another kind says the same nearly everywhere, and what they say differs from page to page.
    """
    agreed = one.agreement is not None and one.agreement >= _TRUSTED_AGREEMENT
    return agreed and one.candidate.prior >= _CONVINCING_PRIOR and one.distinct > _DISTINCT and one.coverage > 0.3


def _finished(one: CandidateScore) -> Selector:
    agreement = None if one.agreement is None else round(one.agreement, 3)
    return replace(one.selector, coverage=round(one.coverage, 3), agreement=agreement)


def _fallbacks(
    best: CandidateScore, scores: Sequence[CandidateScore], partners: Sequence[CandidateScore]
) -> list[CandidateScore]:
    """Return the best candidate of another kind that is silent where the best one is, and else says the same.

    None that goes by position: where a row is missing, a position finds its neighbour.
    """
    for other in scores[1:] if not partners else ():
        is_other_kind = other.selector.evidence != best.selector.evidence and other.support >= best.support
        if not is_other_kind or _POSITION.search(other.selector.query) or other.several > _MAX_FALLBACK_NOISE:
            continue
        pairs = list(zip(best.outputs, other.outputs, strict=True))
        noise = sum(not mine and bool(his) for mine, his in pairs)
        if noise <= _MAX_FALLBACK_NOISE * len(pairs) and (not pairs or agreement_of(best, other) >= _TRUSTED_AGREEMENT):
            return [other]
    return []


def _disputed(scores: Sequence[CandidateScore]) -> tuple[int, ...]:
    """Return other pages on which good candidates differ, or one says several things; the most disputed first."""
    good = [one for one in scores if one.support >= scores[0].support - 0.01][:6]
    votes = [len({one.outputs[place] for one in good}) for place in range(len(scores[0].outputs))]
    return tuple(sorted((at for at, count in enumerate(votes) if count > 1), key=lambda at: -votes[at]))
