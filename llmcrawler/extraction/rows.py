"""Repeated groups of a page (reviews, rows of a table, cards of a listing): the elements that hold one each, and the
fields within.

Two steps: the elements that hold one object each are found from where the values of its fields stand, then each field
is learned within them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lxml import etree

from llmcrawler.extraction.blocks import Spot
from llmcrawler.extraction.candidates import Candidate, candidates_for, candidates_within
from llmcrawler.extraction.ground import Ground
from llmcrawler.extraction.model import Field, FieldRule, Selector
from llmcrawler.extraction.patterns import learn_pattern, taken
from llmcrawler.extraction.queries import nodes_at, texts_within
from llmcrawler.extraction.samples import Sample, Value
from llmcrawler.extraction.work import Work

_MIN_SUPPORT = 0.6
_MAX_ROWS_TRIED = 40
# Of the values of a group so many stand where its rows are.
_HELD_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class LearnedGroup:
    """`rows` is empty where the group was not found; `doubt` says why more samples would help."""

    name: str
    rows: tuple[Selector, ...]
    rules: tuple[FieldRule, ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    """An element that holds one object, and the values of its fields."""

    element: etree._Element
    values: Mapping[str, Value]
    work: Work


def learn_group(name: str, fields: Sequence[Field], ground: Ground) -> LearnedGroup:
    """The rows of a group and the rules of its fields, relative to a row."""
    keys = [field.key for field in fields]
    found = [(sample, _rows(sample, keys)) for sample in ground.samples]
    found = [(sample, rows) for sample, rows in found if rows]
    if not found:
        return LearnedGroup(name, (), (), "nothing on the samples repeats")
    selector = _row_selector(found, ground)
    if selector is None:
        return LearnedGroup(name, (), (), "no selector gives its rows on the samples")
    rows = [row for _, rows in found for row in rows][:_MAX_ROWS_TRIED]
    rules = [rule for field in fields if (rule := _field_rule(field, rows)) is not None]
    doubt = "" if len(rules) == len(fields) else "some of its fields were not found"
    return LearnedGroup(name, (selector,) if rules else (), tuple(rules), doubt)


def _rows(sample: Sample, keys: Sequence[str]) -> list[_Row]:
    """The children of what holds (nearly) all values of a group; each is a row with at most one value of each field.

    Empty where a page has less than two: what holds one object cannot be told from what holds the list.
    """
    standing = [
        (key, value, value.spot.element)
        for key in keys
        for value in sample.values.get(key, ())
        if value.spot.element is not None
    ]
    holder = _holder([element for _, _, element in standing])
    if holder is None:
        return []
    rows: dict[etree._Element, dict[str, Value]] = {}
    for key, value, element in standing:
        child = next((node for node in _line(element) if node.getparent() is holder), None)
        if child is not None:
            rows.setdefault(child, {}).setdefault(key, value)
    if len(rows) < 2 or (len(keys) > 1 and all(len(values) == 1 for values in rows.values())):
        return []
    return [_Row(element, values, sample.page.source.work) for element, values in rows.items()]


def _holder(elements: Sequence[etree._Element]) -> etree._Element | None:
    """The lowest element that holds nearly all of them, in at least two of its children: the rest are slips."""
    held: Counter[etree._Element] = Counter()
    children: dict[etree._Element, set[etree._Element]] = {}
    for element in elements:
        for node in _line(element):
            parent = node.getparent()
            if parent is not None:
                held[parent] += 1
                children.setdefault(parent, set()).add(node)
    enough = _HELD_SHARE * len(elements)
    fitting = [node for node, count in held.items() if count >= enough and len(children[node]) > 1]
    return max(fitting, key=lambda node: sum(1 for _ in node.iterancestors()), default=None)


def _line(element: etree._Element) -> Iterator[etree._Element]:
    yield element
    yield from element.iterancestors()


def _row_selector(found: Sequence[tuple[Sample, list[_Row]]], ground: Ground) -> Selector | None:
    candidates: dict[str, Candidate] = {}
    for _, rows in found:
        for one in candidates_for([Spot(row.element) for row in rows]):
            known = candidates.get(one.selector.query)
            if known is None or known.prior < one.prior:
                candidates[one.selector.query] = one
    scored = [(_row_score(one, found), one) for one in candidates.values()]
    scored = [(score, one) for score, one in scored if score >= _MIN_SUPPORT]
    if not scored:
        return None
    best = max(scored, key=lambda pair: 4 * pair[0] + pair[1].prior)[1].selector
    pages = [*(sample.page for sample in ground.samples), *ground.others]
    coverage = sum(bool(nodes_at(page.root, best, page.source.work)) for page in pages) / len(pages)
    return replace(best, coverage=round(coverage, 3))


def _row_score(candidate: Candidate, found: Sequence[tuple[Sample, list[_Row]]]) -> float:
    """The mean share of what a selector gives that are rows; 0 for a page on which it misses one.

    The model may have pointed at some rows only, so others of the same parent count as rows.
    """
    shares = []
    for sample, rows in found:
        given = nodes_at(sample.page.root, candidate.selector, sample.page.source.work)
        wanted = {row.element for row in rows}
        parent = rows[0].element.getparent()
        if not wanted <= set(given):
            shares.append(0.0)
        else:
            shares.append(sum(node.getparent() is parent for node in given) / len(given))
    return sum(shares) / len(shares)


def _field_rule(field: Field, rows: Sequence[_Row]) -> FieldRule | None:
    """The best selector of a field within the rows."""
    candidates: dict[tuple[str, str | None], Candidate] = {}
    for row in rows:
        value = row.values.get(field.key)
        if value is not None:
            for one in candidates_within(row.element, value.spot):
                candidates.setdefault((one.selector.query, one.selector.attribute), one)
    best: tuple[float, Selector] | None = None
    for one in candidates.values():
        selector, support, coverage = _tried_within(one.selector, field.key, rows)
        score = 4 * support + one.prior
        if support >= _MIN_SUPPORT and (best is None or score > best[0]):
            best = score, replace(selector, coverage=round(coverage, 3))
    return None if best is None else FieldRule(field, (best[1],))


def _tried_within(selector: Selector, key: str, rows: Sequence[_Row]) -> tuple[Selector, float, float]:
    """The selector with its pattern, the share of the rows on which it is right, and of those on which it speaks."""
    given = [texts_within(row.element, selector, row.work)[:1] for row in rows]
    wanted = [row.values[key].text if key in row.values else None for row in rows]
    pairs = [(texts[0], want) for texts, want in zip(given, wanted, strict=True) if texts and want and want in texts[0]]
    pattern = learn_pattern(pairs)
    outputs = [next(iter(taken(texts, pattern)), None) for texts in given]
    hits = sum(want is not None and output == want for output, want in zip(outputs, wanted, strict=True))
    against = sum(want is not None and output != want for output, want in zip(outputs, wanted, strict=True))
    ghosts = sum(want is None and output is not None for output, want in zip(outputs, wanted, strict=True))
    support = hits / max(1.0, hits + against + 0.5 * ghosts)
    return replace(selector, pattern=pattern), support, sum(output is not None for output in outputs) / len(outputs)
