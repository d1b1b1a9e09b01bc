"""Evaluates a selector's steps on a page, in time linear in the page.

libxml2 needs time quadratic in the page for some of them: it looks for the next sibling from each of thousands of
siblings anew, compares each node that it found with all others, and reads the text of an element again for each element
around it. Here one step looks at an element or a text a fixed number of times, whatever the page looks like.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from lxml import etree

from llmcrawler.core.understanding.extraction.paths import ANY, TEXT, Path, PathStep
from llmcrawler.core.understanding.extraction.selector_memory import SelectorMemory
from llmcrawler.core.understanding.extraction.tree import Work

# XPath's white space. Python's has more of it, such as the no-break space.
_SPACE: Final = " \t\r\n"
_SPACES: Final = re.compile(r"[ \t\r\n]+")


@dataclass(frozen=True, slots=True)
class TextNode:
    """A text in an element: its first one, or the one behind one of its children (comments are children too)."""

    parent: etree._Element
    behind: etree._Element | None

    def __str__(self) -> str:
        return (self.parent.text if self.behind is None else self.behind.tail) or ""


Node = etree._Element | TextNode


def evaluate(path: Path, element: etree._Element, work: Work, memory: SelectorMemory | None = None) -> Sequence[Node]:
    """Return the nodes that a selector gives, each once and in document order, as libxml2 gives them.

    `memory` is that of the page whose root the element is. Raises TooCostly where they take more work than is left.
    """
    top = element if path.start != "document" else element.getroottree().getroot()
    nodes: Sequence[Node] = [top]
    taken = None if memory is None else memory.begun(path.start, top)
    for at, step in enumerate(path.steps):
        known = None if taken is None else taken.then.get(step)
        if known is not None:
            nodes, taken = known.nodes, known
        else:
            run = _Run(step, top, work)
            nodes = run.first(path.start) if at == 0 else run.after(nodes)
            taken = None if memory is None or taken is None else memory.note(taken, step, nodes)
        if not nodes:
            break
    return nodes


def outermost(elements: Sequence[etree._Element], work: Work) -> list[etree._Element]:
    """Return those of some elements, given in document order, that are within none of the others."""
    if len(elements) < 2:
        return list(elements)
    some, within = set(elements), set()
    tags = {element.tag for element in elements}
    kept = []
    for element in elements:
        if element not in within:
            kept.append(element)
            inner = [node for node in element.iterdescendants(*tags) if node in some]
            work.charge(1 + len(inner))
            within.update(inner)
    return kept


class _Run:
    """Runs one step of a selector on the elements within `top`."""

    def __init__(self, step: PathStep, top: etree._Element, work: Work) -> None:
        self._step = step
        self._top = top
        self._work = work

    def first(self, start: str) -> list[Node]:
        """Return the nodes that the step gives from where the selector starts."""
        if self._step.axis == "descendant":
            return self._descendants([self._top], with_self=start != "element")
        if start == "element":
            return self.after([self._top])
        return self._chosen([iter([self._top] if self._step.tag in (ANY, self._top.tag) else [])])

    def after(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes that the step gives from those that the step before gave."""
        if self._step.axis == "following-sibling":
            return self._siblings(nodes)
        elements = [node for node in nodes if isinstance(node, etree._Element)]
        if self._step.axis == "descendant":
            return self._descendants(elements, with_self=False)
        found = self._chosen(map(self._children, elements))
        is_nested = len(found) > 1 and len(outermost(elements, self._work)) < len(elements)
        return self._in_order(found) if is_nested else found

    # -- axes --

    def _children(self, element: etree._Element) -> Iterator[Node]:
        step = self._step
        if step.tag == TEXT:
            return _texts_in(element, self._work)
        children = element.iterchildren(step.tag)
        return children if step.nth_of_type is None else islice(children, step.nth_of_type - 1, step.nth_of_type)

    def _descendants(self, elements: Sequence[etree._Element], *, with_self: bool) -> list[Node]:
        tag, tops = self._step.tag, outermost(elements, self._work)
        if tag == TEXT:
            found = self._chosen(_texts_within(top, self._work) for top in tops)
            return self._in_order(found) if len(found) > 1 else found
        return self._chosen(top.iter(tag) if with_self else top.iterdescendants(tag) for top in tops)

    def _siblings(self, nodes: Sequence[Node]) -> list[Node]:
        by_parent: dict[etree._Element, list[Node]] = {}
        for node in nodes:
            parent = node.parent if isinstance(node, TextNode) else node.getparent()
            if parent is not None:
                by_parent.setdefault(parent, []).append(node)
        if self._step.nth is None or all(len(starts) == 1 for starts in by_parent.values()):
            # What follows any of several siblings follows the first of them.
            found = self._chosen(map(self._behind, by_parent, (starts[0] for starts in by_parent.values())))
        else:
            found = self._behind_each(by_parent, self._step.nth)
        return self._in_order(found) if len(found) > 1 and len(by_parent) > 1 else found

    def _behind(self, parent: etree._Element, node: Node) -> Iterator[Node]:
        """Return the siblings behind a node."""
        tag = self._step.tag
        child = node.behind if isinstance(node, TextNode) else node
        if tag != TEXT:
            return parent.iterchildren(tag) if child is None else child.itersiblings(tag)
        self._work.charge(len(parent) // 2)
        tails = iter(parent) if child is None else child.itersiblings()
        texts = (TextNode(parent, one) for one in tails if one.tail)
        return texts if isinstance(node, TextNode) or not node.tail else chain([TextNode(parent, node)], texts)

    def _behind_each(self, by_parent: Mapping[etree._Element, Sequence[Node]], nth: int) -> list[Node]:
        """Return the n-th sibling behind each of several nodes, in one walk over the children of each parent."""
        lines = [list(self._behind(parent, TextNode(parent, None))) for parent in by_parent]
        if self._step.tag != TEXT:
            lines = [list(parent.iterchildren(self._step.tag)) for parent in by_parent]
        found: dict[Node, None] = {}
        for (parent, starts), passing in zip(by_parent.items(), self._passing(lines), strict=True):
            places = {child: place for place, child in enumerate(parent)}
            at = [places[child] for node in passing if (child := _child(node)) is not None]
            for start in starts:
                child = _child(start)
                place = -1 if child is None else places[child]
                # A text stands behind its child: it is behind this very element, too, but not behind itself.
                is_own = self._step.tag == TEXT and not isinstance(start, TextNode)
                index = bisect_left(at, place if is_own else place + 1) + nth - 1
                if index < len(passing):
                    found[passing[index]] = None
        self._work.charge(sum(map(len, by_parent)))
        return list(found)

    # -- tests --

    def _chosen(self, groups: Iterable[Iterator[Node]]) -> list[Node]:
        """Return the nodes of each group that pass the tests, or the n-th of them."""
        step, found = self._step, list[Node]()
        if step.nth is not None and not (step.reads_text or step.attributes or step.classes):
            for group in groups:
                found += islice(group, step.nth - 1, step.nth)
                self._work.charge(step.nth)
            return found
        for passing in self._passing(map(list, groups)):
            found += passing if step.nth is None else passing[step.nth - 1 : step.nth]
        return found

    def _passing(self, groups: Iterable[list[Node]]) -> list[list[Node]]:
        kept = [self._marked(group) for group in groups]
        if not self._step.reads_text:
            return kept
        # The last ones first: so the texts of inner elements are known when those around them are read.
        texts = _Texts(self._step, self._work)
        return [[node for node in group[::-1] if texts.fit(node)][::-1] for group in kept[::-1]][::-1]

    def _marked(self, nodes: list[Node]) -> list[Node]:
        """Return the nodes that have the attributes and classes."""
        self._work.charge(1 + len(nodes))
        for name, value in self._step.attributes:
            nodes = [node for node in nodes if (has := node.get(name)) is not None and value in (None, has)]  # type: ignore[union-attr]
        for name in self._step.classes:
            nodes = [
                node
                for node in nodes
                if name in (has := node.get("class") or "") and name in _SPACES.split(has)  # type: ignore[union-attr]
            ]
        return nodes

    def _in_order(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes in document order."""
        self._work.charge(len(nodes))
        if not isinstance(nodes[0], TextNode):
            some = set(nodes)
            ordered: list[Node] = [node for node in self._top.iter(self._step.tag) if node in some]
            self._work.charge(len(ordered))
            return ordered
        first = {node.parent: node for node in nodes if isinstance(node, TextNode) and node.behind is None}
        later = {node.behind: node for node in nodes if isinstance(node, TextNode) and node.behind is not None}
        ordered = []
        for event, node in etree.iterwalk(self._top, events=("start", "end", "comment", "pi")):
            found = (first if event == "start" else later).get(node)
            if found is not None:
                ordered.append(found)
        return ordered


class _Texts:
    """The texts of elements as far as one step's tests need them."""

    def __init__(self, step: PathStep, work: Work) -> None:
        self._step = step
        self._work = work
        # One more character than is asked for tells a longer text from an equal one; two may be blanks at the ends.
        self._chars = max(len(step.equal or ""), len(step.prefix or "")) + 3
        self._known: dict[etree._Element, str] = {}

    def fit(self, node: Node) -> bool:
        """Tell whether a node passes the tests of its text."""
        if isinstance(node, TextNode):
            text = self._joined("", str(node))
        else:
            text = self._known[node] = self._start_of(node)
        step, is_whole = self._step, len(text) < self._chars
        text = text.strip(" ")
        if step.equal is not None and not (is_whole and text == step.equal):
            return False
        return (not step.is_not_blank or bool(text)) and (step.prefix is None or text.startswith(step.prefix))

    def _start_of(self, element: etree._Element) -> str:
        """Return the start of all text in an element, runs of white space as one blank."""
        text = self._joined("", element.text)
        around: list[tuple[etree._Element, Iterator[etree._Element]]] = [(element, iter(element))]
        visited = 1
        while around and len(text) < self._chars:
            node, children = around[-1]
            child = next(children, None)
            if child is None:
                around.pop()
                text = self._joined(text, node.tail) if around else text
                continue
            visited += 1
            if child in self._known:
                text = self._joined(text, self._known[child])
            elif isinstance(child.tag, str):
                text = self._joined(text, child.text)
                if len(child):
                    around.append((child, iter(child)))
                    continue
            text = self._joined(text, child.tail)
        self._work.charge(visited)
        return text

    def _joined(self, text: str, more: str | None) -> str:
        if not more or len(text) >= self._chars:
            return text
        self._work.charge_text(len(more))
        return _SPACES.sub(" ", text + more)[: self._chars]


def _child(node: Node) -> etree._Element | None:
    return node.behind if isinstance(node, TextNode) else node


def _texts_in(element: etree._Element, work: Work) -> Iterator[TextNode]:
    work.charge(2 + len(element) // 2)
    if element.text:
        yield TextNode(element, None)
    for child in element:
        if child.tail:
            yield TextNode(element, child)


def _texts_within(element: etree._Element, work: Work) -> Iterator[TextNode]:
    """Yield all texts within an element, not in document order."""
    for node in element.iter("*"):
        yield from _texts_in(node, work)
