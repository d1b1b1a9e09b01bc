"""Learns the repeated groups of a page (reviews, rows of a table, cards of a listing), and the fields within.

Two steps: the elements that hold one object each are found from where the values of its fields stand, then each field
is learned within them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import Spot
from llmcrawler.core.understanding.extraction.candidates import (
    Candidate,
    best_of_each,
    candidates_for,
    candidates_within,
)
from llmcrawler.core.understanding.extraction.extractor import Field, FieldRule, Selector
from llmcrawler.core.understanding.extraction.patterns import learn_pattern, taken
from llmcrawler.core.understanding.extraction.queries import nodes_at, texts_within
from llmcrawler.core.understanding.extraction.training_set import AnnotatedPage, TrainingSet, Value
from llmcrawler.core.understanding.extraction.tree import Work, line_up

_MIN_SUPPORT = 0.6
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
    """An element that holds one object, and the values of its fields."""

    element: etree._Element
    values: Mapping[str, Value]
    work: Work


def learn_group(name: str, fields: Sequence[Field], pages: TrainingSet) -> LearnedGroup:
    """Learn the rows of a group, and the rules of its fields relative to a row."""
    keys = [field.key for field in fields]
    found = [rows for one in pages.annotated if (rows := _rows(one, keys))]
    if not found:
        return LearnedGroup(name, (), (), "nothing on the samples repeats")
    selector = _row_selector(found, pages)
    if selector is None:
        return LearnedGroup(name, (), (), "no selector gives its rows on the samples")
    rows = [row for page_rows in found for row in page_rows][:_MAX_ROWS_TRIED]
    rules = [rule for field in fields if (rule := _field_rule(field, rows)) is not None]
    doubt = "" if len(rules) == len(fields) else "some of its fields were not found"
    return LearnedGroup(name, (selector,) if rules else (), tuple(rules), doubt)


def _rows(page: AnnotatedPage, keys: Sequence[str]) -> list[_Row]:
    """Return the children of what holds (nearly) all values of a group; each is a row with at most one value of each
    field.

    Empty where a page has less than two: what holds one object cannot be told from what holds the list.
    """
    standing = [
        (key, value, value.spot.element)
        for key in keys
        for value in page.values.get(key, ())
        if value.spot.element is not None
    ]
    holder = _holder([element for _, _, element in standing])
    if holder is None:
        return []
    rows: dict[etree._Element, dict[str, Value]] = {}
    for key, value, element in standing:
        child = next((node for node in line_up(element) if node.getparent() is holder), None)
        if child is not None:
            rows.setdefault(child, {}).setdefault(key, value)
    if len(rows) < 2 or (len(keys) > 1 and all(len(values) == 1 for values in rows.values())):
        return []
    return [_Row(element, values, page.page.source.work) for element, values in rows.items()]


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
    """Return the selector whose nodes are rows on most pages."""
    candidates = best_of_each(one for rows in found for one in candidates_for([Spot(row.element) for row in rows]))
    scored = [(score, one) for one in candidates if (score := _row_score(one, found)) >= _MIN_SUPPORT]
    if not scored:
        return None
    best = max(scored, key=lambda pair: 4 * pair[0] + pair[1].prior)[1].selector
    all_pages = [*(one.page for one in pages.annotated), *pages.others]
    coverage = sum(bool(nodes_at(page.root, best, page.source.work)) for page in all_pages) / len(all_pages)
    return replace(best, coverage=round(coverage, 3))


def _row_score(candidate: Candidate, found: Sequence[Sequence[_Row]]) -> float:
    """Return the mean share of what a selector gives that are rows; 0 for a page on which it misses one.

    The model may have pointed at some rows only, so others of the same parent count as rows.
    """
    shares = []
    for rows in found:
        parent = rows[0].element.getparent()
        given = nodes_at(rows[0].element.getroottree().getroot(), candidate.selector, rows[0].work)
        are_all_there = {row.element for row in rows} <= set(given)
        shares.append(sum(node.getparent() is parent for node in given) / len(given) if are_all_there else 0.0)
    return sum(shares) / len(shares)


def _field_rule(field: Field, rows: Sequence[_Row]) -> FieldRule | None:
    """Return the best selector of a field within the rows."""
    candidates: dict[tuple[str, str | None], Candidate] = {}
    for row in rows:
        value = row.values.get(field.key)
        for one in candidates_within(row.element, value.spot) if value is not None else ():
            candidates.setdefault((one.selector.query, one.selector.attribute), one)
    best: tuple[float, Selector] | None = None
    for one in candidates.values():
        selector, support = _tried_within(one.selector, field.key, rows)
        score = 4 * support + one.prior
        if support >= _MIN_SUPPORT and (best is None or score > best[0]):
            best = score, selector
    return None if best is None else FieldRule(field, (best[1],))


def _tried_within(selector: Selector, key: str, rows: Sequence[_Row]) -> tuple[Selector, float]:
    """Return the selector with its pattern and coverage of the rows, and the share of them on which it is right."""
    given = [texts_within(row.element, selector, row.work)[:1] for row in rows]
    expected = [row.values[key].text if key in row.values else None for row in rows]
    pairs = [
        (texts[0], want) for texts, want in zip(given, expected, strict=True) if texts and want and want in texts[0]
    ]
    pattern = learn_pattern(pairs)
    outputs = [next(iter(taken(texts, pattern)), None) for texts in given]
    both = list(zip(outputs, expected, strict=True))
    with_value = sum(want is not None for want in expected)
    hits = sum(want is not None and output == want for output, want in both)
    ghosts = sum(want is None and output is not None for output, want in both)
    coverage = sum(output is not None for output in outputs) / len(outputs)
    support = hits / max(1.0, with_value + 0.5 * ghosts)
    return replace(selector, pattern=pattern, coverage=round(coverage, 3)), support
