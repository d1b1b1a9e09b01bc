"""Learns selectors from annotated pages: tries candidates on them and on the other pages, and keeps the best.

A candidate is judged by hits on the annotated pages, output where the field is absent, the kind of evidence, coverage
of the other pages, agreement with a selector of another kind, several values where there should be one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from statistics import fmean
from typing import Final

from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Pointed, Spot
from llmcrawler.core.understanding.extraction.candidates import (
    LABEL,
    Candidate,
    best_of_each,
    candidates_for,
    candidates_within,
    started_with,
)
from llmcrawler.core.understanding.extraction.extractor import FieldRule
from llmcrawler.core.understanding.extraction.field_names import affinity
from llmcrawler.core.understanding.extraction.queries import (
    PageSource,
    elements_at,
    learn_pattern,
    nodes_at,
    shape_pattern,
    taken,
    texts_at,
)
from llmcrawler.core.understanding.extraction.record_schema import Field, FieldType
from llmcrawler.core.understanding.extraction.selectors import TEXT, Selector, path_of
from llmcrawler.core.understanding.extraction.tree import CONTENT_TAGS, fold, line_up, starts_frame, text_of
from llmcrawler.core.understanding.extraction.typed_values import fits

_SEPARATOR: Final = re.compile(r" ?[,;/|·•、،] ?")


@dataclass(frozen=True, slots=True)
class Value:
    """`separator` is what parts the items of a list in one text."""

    text: str
    spot: Spot
    separator: str = ""

    def with_item(self, item: str, whole: str) -> Value | None:
        """Return the list that goes on with an item in the `whole` text; None where no sign parts it from that."""
        between = whole.partition(self.text)[2].partition(item)[0]
        separator = between.strip() if item in whole and _SEPARATOR.fullmatch(between) else ""
        return Value(f"{self.text}{between}{item}", self.spot, separator) if separator else None


def as_one(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return values that are pieces of one text as the element that holds just them, where there is one."""
    elements = [value.spot.element for value in values if value.spot.element is not None]
    if len(values) < 2 or len(elements) < len(values):
        return tuple(values)
    if len({value.text for value in values}) == 1:
        return (values[0],)
    whole = " ".join(value.text for value in values)
    for holder in line_up(elements[0]):
        text = text_of(holder)
        if text.replace(" ", "") == whole.replace(" ", ""):
            return (Value(text, Spot(holder)),)
        if len(text) > 1.2 * len(whole) + 20:
            break
    return tuple(values)


@dataclass(frozen=True, slots=True)
class AnnotatedPage:
    """A page and its values by the key of their field, in document order. A field that is not among them is not on the
    page; of one with none the annotator has said nothing of use."""

    page: PageBlocks
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, page: PageBlocks, pointed: Iterable[Pointed]) -> AnnotatedPage:
        """Resolve pointers; those to blocks that the page does not have are left out."""
        values: dict[str, dict[int, Value]] = {}
        for one in pointed:
            of_field = values.setdefault(one.field, {})
            for number in one.blocks:
                if number in page.spots:
                    whole, known = page.blocks[number - 1].text, of_field.get(number)
                    value = Value(fold(one.quote) if one.quote else whole, page.spots[number])
                    of_field[number] = (known and known.with_item(value.text, whole)) or value
        return cls(page, {name: tuple(found[n] for n in sorted(found)) for name, found in values.items()})


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The annotated pages and the others of a template. Remembers what each selector gives on each of them.

    `value_type` is that of the values that are looked for, `taken` are the texts on each annotated page that are values
    of other fields, `labels` those that stand before such values on several pages, `known` what is remembered."""

    annotated: Sequence[AnnotatedPage]
    others: Sequence[PageBlocks]
    value_type: FieldType | None = None
    taken: Sequence[frozenset[str]] = ()
    labels: frozenset[str] = frozenset()
    known: dict[tuple[int, str, str | None], list[str]] = field(default_factory=dict)

    def of_field(self, field: Field) -> TrainingSet:
        """Return the pages as they are for one field: the annotated ones are those of which the annotator has said
        whether they have it. Fields that share a value on some page, as a title and a path to it, are not told apart.
        """
        known = [one for one in self.annotated if one.values.get(field.key) != ()]
        texts = [{key: {value.text for value in values} for key, values in one.values.items()} for one in known]
        shared = {key for one in texts for key in one if one[key] & one.get(field.key, set())}
        taken = [frozenset().union(*(one[key] for key in one.keys() - shared - {field.key})) for one in texts]
        before = Counter(
            label
            for one in known
            for label in {
                _before(v.spot.element) for key, values in one.values.items() if key != field.key for v in values
            }
        )
        labels = frozenset(label for label, count in before.items() if label and count > 1)
        return TrainingSet(known, self.others, field.type, taken, labels, self.known)

    @property
    def all(self) -> list[PageBlocks]:
        return [*(one.page for one in self.annotated), *self.others]

    def texts(self, page: PageBlocks, selector: Selector) -> list[str]:
        key = (id(page), selector.query, selector.attribute)
        if key not in self.known:
            plain = selector if selector.pattern is None else replace(selector, pattern=None)
            self.known[key] = texts_at(page.source, plain)
        return self.known[key]


Texts = tuple[str, ...]
_LONG_LIST = 12
_MIN_SUPPORT = 0.6


@dataclass(slots=True)
class CandidateScore:
    """The figures of a candidate. `judged` counts the annotated pages, `absent` those without a value, the next four
    what it does on them; it may also be silent where it should be. `poached` counts those on which it gives what is
    another field's there. `outputs` are its texts on the other pages; `usual` is the share of the text that it gives
    most often."""

    candidate: Candidate
    selector: Selector
    judged: int = 0
    absent: int = 0
    hit: frozenset[int] = frozenset()
    wrong: int = 0
    missed: int = 0
    ghosts: int = 0
    poached: int = 0
    outputs: tuple[Texts, ...] = ()
    agreement: float | None = None
    coverage: float = 0.0
    several: float = 0.0
    distinct: float = 0.0
    usual: float = 0.0

    @property
    def claims(self) -> int:
        """The number of pages that it is judged by: those with a value, and those where it gives one that is not there.
        A sample that has none speaks against it as one does that has another."""
        return len(self.hit) + self.wrong + self.missed + self.ghosts

    @property
    def support(self) -> float:
        return len(self.hit) / max(1, self.claims)

    @property
    def agreement_with_all(self) -> float:
        """The share of pages on which it gives what the annotator pointed at, nothing where that was nothing; or, on
        others, what its rival gives."""
        right = self.judged - self.wrong - self.missed - self.ghosts
        others = 0 if self.agreement is None else len(self.outputs)
        return (right + (self.agreement or 0.0) * others) / (self.judged + others)

    @property
    def is_quiet(self) -> bool:
        return not self.wrong and not self.ghosts

    @property
    def score(self) -> float:
        agreement = 0.5 if self.agreement is None else self.agreement
        # To speak on more pages than have the field is no merit.
        seen = 1.5 * min(self.coverage, 1 - self.absent / self.judged) - 0.6 * self.several + 0.3 * self.distinct
        return 4 * self.support + self.candidate.prior + agreement + seen


def score_annotated(
    candidate: Candidate, expected: Sequence[Texts], pages: TrainingSet, *, lists: bool
) -> CandidateScore:
    """Try a candidate on the annotated pages; `expected` are the values of each."""
    found = [pages.texts(one.page, candidate.selector) for one in pages.annotated]
    pairs: list[tuple[str, str]] = []  # of a text and the value in it
    for texts, want in zip(found, expected, strict=True):
        if len(want) > 1:
            pairs += [pair for pair in zip(texts, want, strict=False) if pair[1] in pair[0]]
        elif want:
            value = want[0]
            holding = [text for text in texts if text == value] or [text for text in texts if value in text]
            pairs += [(text, value) for text in holding[:1]]
    pattern = learn_pattern(pairs) or shape_pattern([value for want in expected for value in want])
    selector = replace(candidate.selector, pattern=pattern)
    score = CandidateScore(candidate, selector, len(pages.annotated), sum(not want for want in expected))
    for place, (texts, want) in enumerate(zip(found, expected, strict=True)):
        got = _output(texts, selector.pattern, pages.value_type, lists=lists)
        if len(want) >= _LONG_LIST:
            got = got[: len(want)]  # the model may have been shown only the beginning
        if got != want and not pages.taken[place].isdisjoint(got):
            score.poached += 1
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
    listed = [
        _output(pages.texts(page, score.selector), score.selector.pattern, pages.value_type, lists=True)
        for page in pages.all
    ]
    everywhere = listed if lists else [texts[:1] for texts in listed]
    score.outputs = tuple(everywhere[len(pages.annotated) :])
    score.coverage = sum(map(bool, everywhere)) / len(everywhere)
    spoken = Counter(one for one in everywhere if one)
    score.distinct = (len(spoken) - 1) / max(1, spoken.total() - 1)
    score.usual = max(spoken.values()) / spoken.total()
    if not lists:
        score.several = sum(len(set(texts)) > 1 for texts in listed) / len(listed)


def compare(scores: Sequence[CandidateScore]) -> None:
    """Note how far each agrees with the best one of another kind of evidence that explains the annotated pages."""
    for one in scores:
        rivals = [
            other
            for other in scores
            if other.selector.evidence != one.selector.evidence
            and other.support >= min(_MIN_SUPPORT, one.support)
            and other.outputs
        ]
        if rivals and one.outputs:
            one.agreement = max(agreement_of(one, other) for other in rivals)


def agreement_of(one: CandidateScore, other: CandidateScore) -> float:
    return fmean(a == b for a, b in zip(one.outputs, other.outputs, strict=True))


def _output(texts: Sequence[str], pattern: str | None, value_type: FieldType | None, *, lists: bool) -> Texts:
    read: Iterable[str] = taken(texts, pattern)
    if value_type not in (None, "string"):
        read = (text for text in read if fits(text, value_type))  # as an extractor passes over what is no value
    return tuple(read if lists else islice(read, 1))


_FINALISTS = 14
_QUIET_FINALISTS = 6
_TRUSTED_AGREEMENT = 0.9
_TWIN_DISCOUNT = 0.25
_MAX_TWINS = 6
_MIN_TWIN_CHARS = 3
_MANY_SOURCES = 14
# Annotated pages, none against it, that confirm a selector of a kind so trusted; _MANY_PAGES confirm one of any kind.
_SURE_PAGES = 3
_SURE_PRIOR = 0.8
# From such an affinity on, what leads to a field is its name, and one sample is enough.
_NAMED = 0.6
_MANY_PAGES = 5
_BUT_ONE = 0.8
# Share of pages that differ: a page's own value differs from those of other pages, the text of a menu does not.
_DISTINCT = 0.5
_MAX_COMPLEMENTS = 2
_GIVE_UP_SUPPORT = 0.4
# A fallback may speak where the best selector is silent on so many pages: on more, the field is absent there.
_MAX_FALLBACK_NOISE = 0.05
# A text on so many of the pages, of at least so many, is the template's and not a page's.
_CONSTANT = 0.9
_MIN_CONSTANT_PAGES = 5
_CONSTANT_SUPPORT = 0.7
_MAX_ODD_SHAPES = 0.05
# Samples that have a value, and such that have none, before a selector by place is taken for one that knows them apart.
_CONFIRMING = 2
# From such a share of the other pages on, what cannot be read there is a kind of value that no sample has.
_UNREAD = 0.1
_TELLING_TAGS = frozenset("h1 title time address del ins s cite blockquote abbr data meter".split())
_LABEL_TAGS = frozenset("th dt b strong label legend".split())


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
    count, pages = len(pages.annotated), pages.of_field(field)
    given = [one.values.get(field.key, ()) for one in pages.annotated]
    expected = given if field.many else [as_one(values) for values in given]
    if not any(expected):  # more pages would hardly have it either, unless it was only pointed at in a wrong place
        is_slip = 0 < count - len(given) <= len(given)
        return LearnedField(field, None, "what was pointed at is no such value" if is_slip else "")
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
    # The best, the best two of each kind of evidence (agreement counts between kinds only), and those that may speak
    # where the best one is silent.
    kept = scores[:_FINALISTS]
    for kind in dict.fromkeys(one.selector.evidence for one in scores):
        kept += [one for one in scores if one.selector.evidence == kind][:2]
    quiet = [one for one in scores if one.is_quiet and one.hit - scores[0].hit]
    kept += sorted(quiet, key=lambda one: -len(one.hit - scores[0].hit))[:_QUIET_FINALISTS]
    finalists = list({id(one): one for one in kept}.values())
    for one in finalists:
        score_others(one, pages, lists=lists)
    compare(finalists)
    faults = {id(one): _fault(one, pages) for one in finalists}
    if all(faults.values()):
        leader = max(finalists, key=lambda one: one.score)
        if leader.ghosts > max(1, len(leader.hit)):
            return LearnedField(field, None, "")
        spoken = tuple(at for at, output in enumerate(leader.outputs) if output)
        return LearnedField(field, None, faults[id(leader)], spoken if leader.judged < _MANY_PAGES else ())
    finalists = sorted((one for one in finalists if not faults[id(one)]), key=lambda one: -one.score)
    learned = _judged(field, finalists, texts, pages, joined=joined)
    separators = Counter(value.separator for values in given for value in values if value.separator)
    if learned.rule is None or not separators or not field.many:
        return learned
    return replace(learned, rule=replace(learned.rule, separator=separators.most_common(1)[0][0]))


def _fault(one: CandidateScore, pages: TrainingSet) -> str:  # noqa: PLR0911 - a list of rules
    """Say why a candidate may give values on pages that have none; "" where nothing speaks for that."""
    with_value = one.judged - one.absent
    samples, goes_by_place = [pages.annotated[at].page for at in one.hit], _goes_by_place(one)
    if 2 * one.poached > len(one.hit):  # fewer may be slips
        return "what leads to it leads to another field on some samples"
    # Of many samples the annotator may have overlooked it on one, of fewer where a label tells that it is there.
    many = _SURE_PAGES if one.candidate.prior >= _SURE_PRIOR and one.selector.evidence == LABEL else _MANY_PAGES
    if one.ghosts and (one.ghosts > 1 or with_value < many or goes_by_place):
        return "what leads to it leads to something else on samples that have none"
    # What stands there on the samples has such children.
    found = _firsts(one, samples if goes_by_place else ())
    elements = _firsts(one, pages.others if goes_by_place else ())
    shapes, others = ([{child.tag for child in element} for element in some] for some in (found, elements))
    if goes_by_place and one.absent and not _keeps_its_place(one):
        return "only its place leads to it, and some samples have none"
    if sum(shape not in shapes for shape in others) > _MAX_ODD_SHAPES * len(others):
        return "only its place leads to it, and other things stand there on other pages"
    strange = pages.labels - set(map(_before, found))
    if sum(_before(element) in strange for element in elements) > _MAX_ODD_SHAPES * len(elements):
        return "only its place leads to it, and there the label of another field stands on other pages"
    if one.usual >= _CONSTANT and one.coverage * (one.judged + len(one.outputs)) >= _MIN_CONSTANT_PAGES:
        if one.support < _CONSTANT_SUPPORT:
            return "it is the same on nearly all pages"
        standing = _firsts(one, samples)
        if standing and all(map(_is_in_frame, standing)):
            return "it is part of the site's frame"
    if with_value == 1 and 0 < one.absent < _MANY_PAGES and not _names_it(one.selector, pages):
        return "it is on one sample only"
    return ""


def _before(element: etree._Element | None) -> str:
    """Return the text of the element before, where that may be a label."""
    previous = None if element is None else element.getprevious()
    return text_of(previous) if previous is not None and isinstance(previous.tag, str) and len(previous) < 2 else ""


def _goes_by_place(one: CandidateScore) -> bool:
    """Tell whether a selector counts elements, or takes the first of several: where one is missing, it finds its
    neighbour. Not where a pattern asks for words beside the value."""
    if _has_words(one.selector):
        return False
    path = path_of(one.selector.query, one.selector.language)
    if path is None:
        return False
    counts = (
        step.nth_of_type or (step.nth if step.axis == "child" and step.tag != TEXT else step.nth != 1 and step.nth)
        for step in path.steps
    )
    return any(counts) or path.steps[0].axis == "child" or one.several > 0


def _keeps_its_place(one: CandidateScore) -> bool:
    """Tell whether its place was empty where the value is absent: then what is counted, if anything, is around the
    value, and not the value among its neighbours."""
    path = path_of(one.selector.query, one.selector.language)
    if path is None or one.ghosts or path.steps[-1].nth or path.steps[-1].nth_of_type:
        return False
    return one.several > 0 or min(len(one.hit), one.absent) >= _CONFIRMING


def _has_words(selector: Selector) -> bool:
    return re.search(r"[^\W\d_]{3}", selector.pattern or "") is not None


def _names_it(selector: Selector, pages: TrainingSet) -> bool:
    """Tell whether a selector rests on a name of the element itself, or on a label, and not on what is around it. What
    only one page says is no label, unless it is marked as one."""
    path = path_of(selector.query, selector.language)
    if path is None or _has_words(selector):
        return True
    steps = [step for step in path.steps if step.tag != TEXT]
    labels = [step for step in path.steps if step.text]
    if labels:
        step, text = labels[-1], labels[-1].text
        texts = [{block.text for block in page.blocks} for page in pages.all]
        is_link = pages.value_type == "url" and steps[-1:] == [step]
        return is_link or step.tag in _LABEL_TAGS or text.endswith(":") or sum(text in one for one in texts) > 1
    return bool(steps) and bool(steps[-1].attributes or steps[-1].classes or steps[-1].tag in _TELLING_TAGS)


def _firsts(one: CandidateScore, pages: Iterable[PageBlocks]) -> list[etree._Element]:
    """Return the element that holds the first text on each page; none where it is not in an element."""
    found = (elements_at(page.source, one.selector)[:1] for page in pages)
    return [element for some in found for element in some]


def _is_in_frame(element: etree._Element) -> bool:
    return any(map(starts_frame, takewhile(lambda node: node.tag not in CONTENT_TAGS, line_up(element))))


def _candidates(expected: Sequence[tuple[Value, ...]], pages: TrainingSet, *, lists: bool) -> Iterator[Candidate]:
    having = [(values, one) for values, one in zip(expected, pages.annotated, strict=True) if values]
    if len(having) > _MANY_SOURCES:  # a part of them gives the same candidates
        having = having[:: -(-2 * len(having) // _MANY_SOURCES)]
    for values, one in having:
        if lists:
            for spots in _of_one_kind(values, one.page):
                yield from candidates_for(spots)
        else:
            value, spot = values[0], values[0].spot
            yield from candidates_for([spot])
            if spot.element is not None and not spot.attribute:
                whole = " ".join("".join(str(piece) for piece in spot.element.itertext()).split())
                if (at := whole.find(value.text)) > 0:
                    yield from started_with(spot.element, whole[:at])
            # A value that stands elsewhere on the page too: not pointed at, but perhaps better marked.
            same = [block for block in one.page.blocks if block.text == value.text]
            twins = [twin for block in same if (twin := one.page.spots[block.n]) != spot][:_MAX_TWINS]
            for twin in twins if len(value.text) >= _MIN_TWIN_CHARS else ():
                for candidate in candidates_for([twin]):
                    yield Candidate(candidate.selector, candidate.prior - _TWIN_DISCOUNT)


def _of_one_kind(values: Sequence[Value], page: PageBlocks) -> Iterator[list[Spot]]:
    """Yield where the items of a list stand, for each kind of element or attribute that has all of them: of pictures
    that are linked, some may be pointed at as pictures and others as links."""
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


def _judged(
    field: Field, scores: Sequence[CandidateScore], expected: Sequence[Texts], pages: TrainingSet, *, joined: bool
) -> LearnedField:
    best, partners = _team(scores, pages)
    # Other pages that tell candidates apart: those on which good ones differ, or one says several things, the most
    # disputed first. With one hit only, any page on which the best one gives something can confirm or refute it.
    if len(best.hit) > 1:
        good = [one for one in scores if one.support >= scores[0].support - 0.01][:6]
        votes = [len({one.outputs[place] for one in good}) for place in range(len(scores[0].outputs))]
        disputed = tuple(sorted((at for at, count in enumerate(votes) if count > 1), key=lambda at: -votes[at]))
    else:
        disputed = tuple(at for at, output in enumerate(best.outputs) if output)
    explained = len(_explained(best, partners))
    contradicted = explained < _MIN_SUPPORT * best.claims and not _is_plurality(best, scores)
    if contradicted or (explained < 2 and sum(map(bool, expected)) > 1):
        # Where half of many pages say something else, more of them would not help.
        is_given_up = best.judged >= _MANY_PAGES and best.support < _GIVE_UP_SUPPORT
        return LearnedField(field, None, "" if is_given_up else "the samples contradict each other", disputed)
    selectors = []
    for one in (best, *partners, *_fallbacks(best, scores, partners, pages)):
        coverage, agreement = round(one.coverage, 3), round(one.agreement_with_all, 3)
        selectors.append(replace(one.selector, coverage=coverage, agreement=agreement, samples=len(one.hit)))
    rule = FieldRule(field, tuple(selectors), joined)
    is_called = explained == 1 and best.is_quiet and len(disputed) >= _SURE_PAGES and _is_called(field, best.selector)
    doubt = "" if is_called else _doubt(best, explained, is_disputed=bool(disputed))
    if not doubt and (unread := _unread(best, pages)):
        return LearnedField(field, rule, "what leads to it cannot be read on other pages", unread)
    return LearnedField(field, rule, doubt, disputed)


def _unread(best: CandidateScore, pages: TrainingSet) -> tuple[int, ...]:
    """Return the other pages on which a selector finds a text that is no such value, as "9 € (members: 5 €)" where the
    samples have "9 €"; none where these are few, or a sample is like them."""

    def is_unread(page: PageBlocks) -> bool:
        texts = pages.texts(page, best.selector)
        return bool(texts) and not _output(texts, best.selector.pattern, pages.value_type, lists=True)

    found = tuple(place for place, page in enumerate(pages.others) if is_unread(page))
    is_known = any(is_unread(one.page) for one in pages.annotated)
    return () if is_known or len(found) < max(_CONFIRMING, _UNREAD * len(pages.others)) else found


def _doubt(best: CandidateScore, explained: int, *, is_disputed: bool) -> str:
    if explained < 2:
        return "it is on one sample only"
    # One sample of many may be a slip, where no other page tells good selectors apart.
    is_odd = best.judged >= _MANY_PAGES and not is_disputed and not best.missed and best.support >= _BUT_ONE
    return "a sample contradicts it" if explained < best.claims and not is_odd else ""


def _is_called(field: Field, selector: Selector) -> bool:
    """Tell whether what leads to a field has its name: a label, a class, a key in structured data."""
    path = path_of(selector.query, selector.language)
    if path is None:
        names = [selector.query.rpartition(".")[2]]
    else:
        names = [step.text for step in path.steps if step.text][-1:] or [*path.steps[-1].classes]
    return any(affinity(field, name) >= _NAMED for name in names)


def _team(scores: Sequence[CandidateScore], pages: TrainingSet) -> tuple[CandidateScore, list[CandidateScore]]:
    """Return the best selector; or one that is never wrong and its complements, where they explain more pages."""
    best = scores[0]
    leaders = [one for one in scores[1:] if one.is_quiet and len(one.hit) > 1]
    teams = [(one, _complements(one, scores, pages)) for one in (best, *leaders)]
    teams = [(one, partners) for one, partners in teams if all(len(other.hit) <= len(one.hit) for other in partners)]
    return max(
        teams or [(best, [])], key=lambda team: (len(_explained(*team)), team[0] is best, -len(team[1]), team[0].score)
    )


def _explained(best: CandidateScore, partners: Sequence[CandidateScore]) -> frozenset[int]:
    return best.hit.union(*(one.hit for one in partners))


def _complements(best: CandidateScore, scores: Sequence[CandidateScore], pages: TrainingSet) -> list[CandidateScore]:
    """Return selectors that are right wherever they speak, and speak on pages on which the best one gives nothing: some
    templates have two layouts. One sample of the other layout is enough for a selector that speaks on no page with the
    first one."""
    found: list[CandidateScore] = []
    hit = best.hit
    while len(found) < _MAX_COMPLEMENTS and best.missed:
        fitting = []
        for one in scores:
            if one.is_quiet and one.hit - hit:
                pairs = zip(best.outputs, one.outputs, strict=True)
                both = [mine == other for mine, other in pairs if mine and other]
                is_apart = not both and not one.hit & hit and _names_it(one.selector, pages)
                if is_apart if len(one.hit - hit) == 1 else not both or fmean(both) >= _TRUSTED_AGREEMENT:
                    fitting.append(one)
        if not fitting:
            break
        found.append(max(fitting, key=lambda one: (len(one.hit - hit), one.score)))
        hit |= found[-1].hit
    return found


def _is_plurality(best: CandidateScore, scores: Sequence[CandidateScore]) -> bool:
    """Tell whether the pages that speak against a selector have nothing in common: then they are slips of the model."""
    trusted = best.candidate.prior >= _SURE_PRIOR and best.distinct > _DISTINCT
    enough = 2 if trusted else _SURE_PAGES
    return len(best.hit) >= enough and all(len(other.hit - best.hit) <= 1 for other in scores)


def _fallbacks(
    best: CandidateScore, scores: Sequence[CandidateScore], partners: Sequence[CandidateScore], pages: TrainingSet
) -> list[CandidateScore]:
    """Return the best candidate of another kind that is silent where the best one is, and else says the same. None that
    goes by position: where a row is missing, a position finds its neighbour; nor, where no other page tells what it
    says, one that names nothing."""
    for other in scores[1:] if not partners else ():
        is_other_kind = other.selector.evidence != best.selector.evidence and other.support >= best.support
        if not is_other_kind or _goes_by_place(other):
            continue
        pairs = list(zip(best.outputs, other.outputs, strict=True))
        noise = sum(not mine and bool(his) for mine, his in pairs)
        if noise <= (0 if best.absent else _MAX_FALLBACK_NOISE * len(pairs)) and (
            agreement_of(best, other) >= _TRUSTED_AGREEMENT if pairs else _names_it(other.selector, pages)
        ):
            return [other]
    return []


_MAX_ROWS_TRIED = 40
# Share of a group's values that must stand where its rows are.
_HELD_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class LearnedGroup:
    """The outcome for one group. `rows` is empty where the group was not found; `doubt` says why more annotated pages
    would help."""

    name: str
    rows: tuple[Selector, ...]
    rules: tuple[FieldRule, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    element: etree._Element
    values: Mapping[str, Value]
    source: PageSource


def learn_group(name: str, fields: Sequence[Field], pages: TrainingSet) -> LearnedGroup:
    keys = [field.key for field in fields]
    found = [rows for one in pages.annotated if (rows := _rows(one, keys))]
    if not found:
        return LearnedGroup(name, (), (), "nothing on the samples repeats")
    selector = _row_selector(found, pages)
    if selector is None:
        return LearnedGroup(name, (), (), "no selector finds its rows on the samples")
    rows = [row for page_rows in found for row in page_rows][:_MAX_ROWS_TRIED]
    rules = [rule for field in fields if (rule := _field_rule(field, rows)) is not None]
    doubt = "" if len(rules) == len(fields) else "some of its fields were not found"
    return LearnedGroup(name, (selector,) if rules else (), tuple(rules), doubt)


def _rows(page: AnnotatedPage, keys: Sequence[str]) -> list[_Row]:
    """Return the children of what holds (nearly) all values of a group; each is a row with at most one value of each
    field. Empty where a page has less than two: what holds one object cannot be told from what holds the list."""
    standing = [
        (key, value, value.spot.element)
        for key in keys
        for value in page.values.get(key, ())
        if value.spot.element is not None
    ]
    holder = _holder([element for _, _, element in standing])
    if holder is None:
        return []
    rows: dict[etree._Element, dict[str, list[Value]]] = {}
    for key, value, element in standing:
        child = next((node for node in line_up(element) if node.getparent() is holder), None)
        if child is not None:
            rows.setdefault(child, {}).setdefault(key, []).append(value)
    if len(rows) < 2 or (len(keys) > 1 and all(len(values) == 1 for values in rows.values())):
        return []
    return [
        _Row(element, {key: as_one(pieces)[0] for key, pieces in values.items()}, page.page.source)
        for element, values in rows.items()
    ]


def _holder(elements: Sequence[etree._Element]) -> etree._Element | None:
    """Return the lowest element that holds nearly all of them, in at least two of its children: the rest are slips."""
    held: Counter[etree._Element] = Counter()
    children: dict[etree._Element, set[etree._Element]] = {}
    for element in elements:
        for node in line_up(element):
            parent = node.getparent()
            if parent is not None:
                held[parent] += 1
                children.setdefault(parent, set()).add(node)
    enough = _HELD_SHARE * len(elements)
    fitting = [node for node, count in held.items() if count >= enough and len(children[node]) > 1]
    return max(fitting, key=lambda node: sum(1 for _ in node.iterancestors()), default=None)


def _row_selector(found: Sequence[Sequence[_Row]], pages: TrainingSet) -> Selector | None:
    """Return the selector whose nodes are rows on most pages. The model may have pointed at some rows only, so others
    of the same parent count as rows; a selector must not miss one that was pointed at."""
    scored = []
    for one in best_of_each(one for rows in found for one in candidates_for([Spot(row.element) for row in rows])):
        shares = []
        for rows in found:
            parent = rows[0].element.getparent()
            given = nodes_at(rows[0].source, one.selector)
            are_all_there = {row.element for row in rows} <= set(given)
            shares.append(sum(node.getparent() is parent for node in given) / len(given) if are_all_there else 0.0)
        if (score := sum(shares) / len(shares)) >= _MIN_SUPPORT:
            scored.append((score, one))
    if not scored:
        return None
    best = max(scored, key=lambda pair: 4 * pair[0] + pair[1].prior)[1].selector
    coverage = sum(bool(nodes_at(page.source, best)) for page in pages.all) / len(pages.all)
    return replace(best, coverage=round(coverage, 3))


def _field_rule(field: Field, rows: Sequence[_Row]) -> FieldRule | None:
    candidates: dict[tuple[str, str | None], Candidate] = {}
    for row in rows:
        value = row.values.get(field.key)
        for one in candidates_within(row.element, value.spot) if value is not None else ():
            candidates.setdefault((one.selector.query, one.selector.attribute), one)
    expected = [row.values[field.key].text if field.key in row.values else None for row in rows]
    with_value = sum(want is not None for want in expected)
    holders = {row.element.getparent() for row in rows if field.key in row.values}
    best: tuple[float, Selector] | None = None
    for one in candidates.values():
        given = [texts_at(row.source, one.selector, row.element)[:1] for row in rows]
        both = zip(given, expected, strict=True)
        pattern = learn_pattern([(texts[0], want) for texts, want in both if texts and want and want in texts[0]])
        outputs = [next(iter(taken(texts, pattern)), None) for texts in given]
        hits = sum(want is not None and output == want for output, want in zip(outputs, expected, strict=True))
        spoken = sum(output is not None for output in outputs)
        spare = zip(rows, outputs, expected, strict=True)
        ghosts = [row.element for row, output, want in spare if want is None and output is not None]
        # Of a page where no row has it the annotator has said so once.
        silent = {holder for node in ghosts if (holder := node.getparent()) not in holders}
        ghosts = [node for node in ghosts if node.getparent() in holders]
        support = hits / max(1, with_value + len(ghosts) + len(silent))
        score = 4 * support + one.prior
        if support >= _MIN_SUPPORT and (best is None or score > best[0]):
            best = score, replace(one.selector, pattern=pattern, coverage=round(spoken / len(outputs), 3))
    return None if best is None else FieldRule(field, (best[1],))
