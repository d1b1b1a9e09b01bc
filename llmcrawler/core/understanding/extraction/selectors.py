"""Parses selectors into steps, the part of CSS and XPath that records need, and runs them in time linear in the page.

All that is learned is in this part, and all that a person corrects: what `path_of` cannot read is no selector.

libxml2 needs time quadratic in the page for some of them: it looks for the next sibling from each of thousands of
siblings anew, compares each node that it found with all others, and reads the text of an element again for each element
around it. Here one step looks at an element or a text a fixed number of times, whatever the page looks like.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final, Literal, get_args

from lxml import etree

from llmcrawler.core.understanding.extraction.tree import Work, text_of

# Of one page, before all is forgotten: an ordinary one has two thousand elements.
_MAX_NODES: Final = 20_000
_MAX_TEXT_CHARS: Final = 300
# So much of an element's text is remembered: most labels are shorter.
_LABEL_CHARS: Final = 20
# XPath's white space. Python's has more of it, such as the no-break space.
_SPACE: Final = " \t\r\n"
_SPACES: Final = re.compile(r"[ \t\r\n]+")

Language = Literal["css", "xpath", "json-ld", "json"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)


@dataclass(frozen=True, slots=True)
class Selector:
    """A way to a value on the pages of a template, and the part of the text there that is the value.

    `query` selects elements (css, xpath), text nodes (xpath), or a value of the page's data. In JSON-LD
    `Product.offers.price` is the path behind the type of an object; in the JSON of other scripts (json)
    `__STATE__.product.price` is the path behind the variable, the id of the element without digits, or "script". Of
    an element the `attribute` is taken, else its text, white space folded. `pattern` is a regular expression whose
    only group is the value; where it does not match there is none. `evidence` is the kind of evidence that it rests
    on: property, id, label, class, path, structured-data. `coverage` is the share of the template's pages on which
    it gives a value; `samples` counts those shown to the model on which it gives what was pointed at. `agreement`
    is the share of the samples on which it gives just that, and nothing where nothing was pointed at, taken
    together with the other pages where a selector of another kind can be compared with it."""

    query: str
    language: Language
    attribute: str | None = None
    pattern: str | None = None
    evidence: str = "path"
    coverage: float = 0.0
    agreement: float | None = None
    samples: int | None = None

    @property
    def is_of_data(self) -> bool:
        return self.language in ("json-ld", "json")


# By a step the nodes that it leads to, and what is known of the steps behind it.
_Known = dict["PathStep", tuple[Sequence[Any], "_Known"]]


class SelectorMemory:
    """What is known of a page, whose tree does not change; what it has forgotten is looked for anew."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self.held = 0  # nodes and texts
        self.starts: dict[int, dict[etree._Element, str]] = {}  # of texts, by their length
        self._texts: dict[etree._Element, str] = {}
        self._taken: dict[str, _Known] = {}

    def taken_from(self, top: etree._Element, start: str) -> _Known:
        """Return what is known of the steps from a start: of the page's root only."""
        if top is self.root and self.held > _MAX_NODES:
            self.held = 0
            for known in (self._taken, self._texts, self.starts):
                known.clear()
        return self._taken.setdefault(start, {}) if top is self.root else {}

    def text_of(self, element: etree._Element, work: Work) -> str:
        text = self._texts.get(element)
        if text is None:
            text = text_of(element, work)
            if len(text) <= _MAX_TEXT_CHARS and self.held < _MAX_NODES:
                self._texts[element] = text
                self.held += 1
        return text


Axis = Literal["descendant", "child", "following-sibling"]
TEXT: Final = "text()"
ANY: Final = "*"


@dataclass(frozen=True, slots=True, eq=False)
class PathStep:
    """The way from an element to others: those on an axis with a tag (or "*", or text nodes) that pass all tests.

    `nth_of_type` counts from 1 among the siblings of the tag, `nth` among those on the axis that pass the tests.
    `equal` and `prefix` are compared with the whole text, white space normalised."""

    axis: Axis
    tag: str
    attributes: tuple[tuple[str, str | None], ...] = ()
    classes: tuple[str, ...] = ()
    nth_of_type: int | None = None
    equal: str | None = None
    prefix: str | None = None
    is_not_blank: bool = False
    nth: int | None = None

    @property
    def text(self) -> str:
        return self.equal or self.prefix or ""

    @property
    def reads_text(self) -> bool:
        return bool(self.text) or self.is_not_blank

    def fits(self, text: str) -> bool:
        """Tell whether a text, or the beginning of a long one, passes the tests: no blank one passes any."""
        return text != "" and self.equal in (None, text) and text.startswith(self.prefix or "")


# Equal ones are the same one: they are looked up by it.
_step: Final = lru_cache(maxsize=4096)(PathStep)


@dataclass(frozen=True, slots=True)
class Path:
    """The steps of a selector. `start`: the document, the element that a selector is run on ("."), or this element and
    all within it (CSS)."""

    start: Literal["document", "element", "within"]
    steps: tuple[PathStep, ...]


@lru_cache(maxsize=4096)
def path_of(query: str, language: Language) -> Path | None:
    """Parse a selector. None for one that is none, for that of data, and outside the part of CSS or XPath that is known
    here."""
    if language in ("json-ld", "json"):
        return None
    return _css(query) if language == "css" else _xpath(query)


_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]*"
_QUOTED: Final = r'(?:"[^"]*"|\'[^\']*\')'
_SIMPLE: Final = re.compile(
    rf"#(?P<id>{_NAME})|\.(?P<class>{_NAME})|:nth-of-type\((?P<nth>[1-9]\d{{0,6}})\)"
    rf"|\[(?P<attribute>{_NAME})(?:=(?P<value>\"[^\"\\\n]*\"|'[^'\\\n]*'|{_NAME}))?\]"
)
_COMPOUND: Final = re.compile(rf"(?P<tag>{_NAME}|\*)?(?P<simple>(?:{_SIMPLE.pattern.replace('?P<', '?P<_')})*)")
_COMBINATOR: Final = re.compile(r"[ \t\r\n\f]*>[ \t\r\n\f]*|[ \t\r\n\f]+")


def _css(query: str) -> Path | None:
    steps: list[PathStep] = []
    at = 0
    axis: Axis = "descendant"
    query = query.strip(" \t\r\n\f")
    while compound := _COMPOUND.match(query, at):
        step = _css_step(axis, compound) if compound[0] else None
        if step is None:
            return None
        steps.append(step)
        at = compound.end()
        if at == len(query):
            return Path("within", tuple(steps))
        combinator = _COMBINATOR.match(query, at)
        if combinator is None:
            return None
        at, axis = combinator.end(), "child" if ">" in combinator[0] else "descendant"
    return None


def _css_step(axis: Axis, compound: re.Match[str]) -> PathStep | None:
    tag = (compound["tag"] or ANY).lower()
    attributes: list[tuple[str, str | None]] = []
    classes: list[str] = []
    nth: int | None = None
    for simple in _SIMPLE.finditer(compound["simple"]):
        if simple["id"]:
            attributes.append(("id", simple["id"]))
        elif simple["class"]:
            classes.append(simple["class"])
        elif simple["attribute"]:
            attributes.append((simple["attribute"].lower(), simple["value"] and simple["value"].strip("\"'")))
        elif nth is not None or tag == ANY or axis != "child":
            return None
        else:
            nth = int(simple["nth"])
    return _step(axis, tag, tuple(attributes), tuple(classes), nth)


_CLASS: Final = r'contains\(concat\(" ", normalize-space\(@class\), " "\), " [^" \t\r\n]+ "\)'
_LITERAL: Final = rf"(?:{_QUOTED}|concat\({_QUOTED}(?:, {_QUOTED})*\))"
_TEST: Final = re.compile(
    rf"\[(?:(?P<nth>[1-9]\d{{0,6}})|@(?P<attribute>{_NAME})(?:\s*=\s*(?P<value>{_QUOTED}))?"
    rf"|(?P<classes>{_CLASS}(?: and {_CLASS})*)"
    rf"|(?P<space>normalize-space\(\))(?:\s*=\s*(?P<equal>{_LITERAL}))?"
    rf"|starts-with\(normalize-space\(\),\s*(?P<prefix>{_LITERAL})\))\]"
)
_STEP: Final = re.compile(
    rf"(?P<slash>//?)(?P<sibling>following-sibling::)?(?P<tag>text\(\)|{_NAME}|\*)"
    rf"(?P<tests>(?:{_TEST.pattern.replace('?P<', '?P<_')})*)"
)
_CLASS_NAME: Final = re.compile(r'" ([^" \t\r\n]+) "\)')
_PIECE: Final = re.compile(_QUOTED)


def _xpath(query: str) -> Path | None:
    query = query.strip()
    at = 1 if query.startswith(".") else 0
    start: Literal["document", "element"] = "element" if at else "document"
    steps: list[PathStep] = []
    while at < len(query):
        match = _STEP.match(query, at)
        if match is None or (steps and steps[-1].tag == TEXT and not match["sibling"]):
            return None
        step = _xpath_step(match, is_first=not steps and start == "document")
        if step is None:
            return None
        steps.append(step)
        at = match.end()
    return Path(start, tuple(steps)) if steps or at else None


def _xpath_step(match: re.Match[str], *, is_first: bool) -> PathStep | None:
    axis: Axis = "descendant" if match["slash"] == "//" else "child"
    if match["sibling"]:
        if axis == "descendant" or is_first:
            return None
        axis = "following-sibling"
    found: dict[str, Any] = {}
    attributes: list[tuple[str, str | None]] = []
    for test in _TEST.finditer(match["tests"]):
        if "nth" in found:
            return None  # a test after the position counts what is left
        if test["attribute"]:
            attributes.append((test["attribute"], test["value"] and test["value"][1:-1]))
            continue
        name = next((name for name in ("nth", "classes", "prefix", "equal") if test[name]), "is_not_blank")
        if name in found:
            return None
        found[name] = _TEST_VALUES[name](test[name] if name != "is_not_blank" else "")
    if "" in (found.get("equal"), found.get("prefix")):
        return None  # asks for a blank one
    # `//p[2]` counts among the children of each parent, which no learned selector asks for.
    if ("nth" in found and axis == "descendant") or (match["tag"] == TEXT and (attributes or "classes" in found)):
        return None
    return _step(axis, match["tag"], tuple(attributes), **found)


def _text(literal: str) -> str:
    return "".join(piece[1:-1] for piece in _PIECE.findall(literal))


_TEST_VALUES: Final[Mapping[str, Callable[[str], Any]]] = {
    "nth": int,
    "classes": lambda test: tuple(_CLASS_NAME.findall(test)),
    "prefix": _text,
    "equal": _text,
    "is_not_blank": lambda _: True,
}


@dataclass(frozen=True, slots=True)
class TextNode:
    """A text in an element: its first one, or the one behind one of its children (comments are children too)."""

    parent: etree._Element
    behind: etree._Element | None

    @classmethod
    def of(cls, text: Any) -> TextNode:
        """Make it of a text that libxml2 has found."""
        owner = text.getparent()
        return cls(owner.getparent(), owner) if text.is_tail else cls(owner, None)

    def __str__(self) -> str:
        return (self.parent.text if self.behind is None else self.behind.tail) or ""


Node = etree._Element | TextNode


def evaluate(path: Path, work: Work, memory: SelectorMemory, within: etree._Element | None) -> Sequence[Node]:
    """Return the nodes that a selector gives on the page of `memory`, or within one of its elements, each once and in
    document order, as libxml2 gives them. Raises TooCostly where they take more work than is left."""
    top = memory.root if within is None or path.start == "document" else within
    nodes: Sequence[Node] = [top]
    taken = memory.taken_from(top, path.start)
    for at, step in enumerate(path.steps):
        if step not in taken:
            run = _Run(step, top, work, memory)
            taken[step] = run.after(nodes) if at else run.first(path.start), {}
            memory.held += 1 + len(taken[step][0]) if top is memory.root else 0
        nodes, taken = taken[step]
        if not nodes:
            break
    return nodes


# Characters that lxml hands to no XPath: what stands before the first one is looked for.
_NOT_IN_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TEXTS: Final[Mapping[Axis, Callable[..., Any]]] = {
    axis: etree.XPath(f"{axis}::text()[starts-with(normalize-space(), $start)]") for axis in ("descendant", "child")
}


@lru_cache(maxsize=4096)
def _attributes(axis: str, tag: str, name: str) -> Callable[[etree._Element], Any]:
    return etree.XPath(f"{axis}::{tag}/@{name}")


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

    def __init__(self, step: PathStep, top: etree._Element, work: Work, memory: SelectorMemory) -> None:
        self._step = step
        self._top = top
        self._work = work
        self._memory = memory

    def first(self, start: str) -> list[Node]:
        if self._step.axis == "descendant":
            return self._descendants([self._top], with_self=start != "element")
        if start == "element":
            return self.after([self._top])
        return self._chosen([iter([self._top] if self._step.tag in (ANY, self._top.tag) else [])])

    def after(self, nodes: Sequence[Node]) -> list[Node]:
        if self._step.axis == "following-sibling":
            return self._siblings(nodes)
        elements = [node for node in nodes if isinstance(node, etree._Element)]
        if self._step.axis == "descendant":
            return self._descendants(elements, with_self=False)
        tag, nth = self._step.tag, self._step.nth_of_type
        if tag == TEXT:
            found = self._chosen(map(self._texts_in, elements))
        else:
            first, last = (None, None) if nth is None else (nth - 1, nth)
            found = self._chosen(islice(element.iterchildren(tag), first, last) for element in elements)
        is_nested = len(found) > 1 and len(outermost(elements, self._work)) < len(elements)
        return self._in_order(found) if is_nested else found

    # -- axes --

    def _descendants(self, elements: Sequence[etree._Element], *, with_self: bool) -> list[Node]:
        tag, tops = self._step.tag, outermost(elements, self._work)
        if tag == TEXT:
            return self._chosen(map(self._texts_in, tops))
        if self._step.attributes:  # few elements have them, and libxml2 is quick to find those
            holding = _attributes("descendant-or-self" if with_self else "descendant", tag, self._step.attributes[0][0])
            return self._chosen((one.getparent() for one in holding(top)) for top in tops)
        return self._chosen(top.iter(tag) if with_self else top.iterdescendants(tag) for top in tops)

    def _texts_in(self, element: etree._Element) -> Iterator[TextNode]:
        start = _NOT_IN_XML.split(self._step.text, maxsplit=1)[0]
        return map(TextNode.of, _TEXTS[self._step.axis](element, start=start))

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
        texts = _Texts(self._step, self._work, self._memory)
        # The last ones first: so the texts of inner elements are known when those around them are read.
        return [[node for node in group[::-1] if texts.fit(node)][::-1] for group in kept[::-1]][::-1]

    def _marked(self, nodes: list[Node]) -> list[Node]:
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

    def __init__(self, step: PathStep, work: Work, memory: SelectorMemory) -> None:
        self._step = step
        self._work = work
        self._memory = memory
        # One more character than is asked for tells a longer text from an equal one; two may be blanks at the ends.
        self._chars = max(_LABEL_CHARS, len(step.text)) + 3
        self._known = memory.starts.setdefault(self._chars, {})

    def fit(self, node: Node) -> bool:
        if isinstance(node, TextNode):
            return self._step.fits(self._joined("", str(node)).strip(" "))
        if node not in self._known:
            self._known[node] = self._start_of(node)
            self._memory.held += 1
        return self._step.fits(self._known[node].strip(" "))

    def _start_of(self, element: etree._Element) -> str:
        text = self._joined("", element.text)
        around = [(element, iter(element))] if len(element) else []
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
        if not more.strip(_SPACE):  # most texts of a tree are its indentation
            return text if text[-1:] == " " else f"{text} "
        self._work.charge_text(len(more))
        return _SPACES.sub(" ", text + more)[: self._chars]


def _child(node: Node) -> etree._Element | None:
    return node.behind if isinstance(node, TextNode) else node
