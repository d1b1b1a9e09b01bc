"""Runs selectors on a page (CSS and XPath on elements, dotted paths on JSON), and patterns on the texts they give.

A pattern, learned from (text, value) pairs, takes the value out of a longer text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import Any, Final

from lxml import etree

from llmcrawler.core.content.embedded_text import FRAME_KEYS, MAX_SCRIPTS, state_of
from llmcrawler.core.content.structured_data import Room, json_ld
from llmcrawler.core.content.untrusted_json import MAX_VALUES
from llmcrawler.core.understanding.extraction.selectors import (
    Selector,
    SelectorMemory,
    TextNode,
    evaluate,
    path_of,
)
from llmcrawler.core.understanding.extraction.tree import Work, fold
from llmcrawler.core.understanding.extraction.typed_values import is_cut
from llmcrawler.errors import TooCostly

_NUMBER: Final = r"[-+]?\d(?:[\d.,'٫٬ ]*\d)?"
_MAX_CONTEXT_CHARS: Final = 40
_MAX_DATE_CHARS: Final = 40
_MAX_DATE_PARTS: Final = 6
_MAX_PIECES: Final = 6
_MAX_WORD_CHARS: Final = 200
_STEPS_A_TEXT: Final = 10
# A value is no part of a longer text; some patterns take quadratic time, and a person's may take any.
_MAX_TEXT_CHARS: Final = 4_000
_MAX_SECONDS: Final = 0.02
# Pairs of a long list that make patterns, and pairs that decide which pattern is best.
_MAX_BUILDERS: Final = 40
_MAX_JUDGES: Final = 200

# What telephone numbers look like where no label says so; a day is none.
TELEPHONE: Final = (
    r"(?!\d\d[./-]\d\d[./-])(?=(?:\D{0,3}\d){7,15}\D?$)(?:\+|\(?0)[\d() /.-]+\d|\(?\d{3}\)?[ .-]{1,2}\d{3}[ .-]\d{4}"
)
_SHAPES: Final = (re.compile(rf"^({TELEPHONE})$"), re.compile(r"^([^\s@]+@[^\s@]+)$"))


def shape_pattern(values: Sequence[str]) -> str | None:
    """Return the pattern of telephone numbers, or mail addresses, where all values are such: it tells them from their
    neighbours, whatever the order."""
    return next((one.pattern for one in _SHAPES if all(map(one.match, values))), None)


def learn_pattern(pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return the regular expression (one group) that takes the value out of most texts; None where they are the values.

    Tried in this order, the first of those that fit most pairs wins: the text is the value; what stands before and
    after is constant but for its numbers; a piece between separators; the words next to the value are constant; a
    number behind the same word; the first number; the last one, or what is behind it; a date of the same form. Most
    give nothing on a page where what they stand on is missing, and none a piece of a number or a date."""
    return _best_pattern(tuple(pair for pair in pairs if len(pair[0]) <= _MAX_TEXT_CHARS)[:_MAX_JUDGES])


@lru_cache(maxsize=64)  # most candidates for a field lead to the same few texts
def _best_pattern(pairs: Sequence[tuple[str, str]]) -> str | None:
    within = [(text, value) for text, value in pairs if text != value and value in text]
    if not within:
        return None
    builders = (_constant_around, *_PIECES, _words_beside, _word_and_number, _number, _last_number, _date)
    options = dict.fromkeys(build(text, value) for build in builders for text, value in within[:_MAX_BUILDERS])
    best, most = None, sum(text == value for text, value in pairs)
    for pattern in options:
        with suppress(TooCostly):
            fitting = 0 if pattern is None else sum(take(pattern, text) == value for text, value in pairs)
            if fitting > most:
                best, most = pattern, fitting
    return best


def take(pattern: str, text: str) -> str | None:
    """Return what a pattern takes out of a text; None where it does not match. Raises TooCostly for a slow one."""
    if len(text) > _MAX_TEXT_CHARS:
        return None
    try:
        # It keeps the GIL: while it waits for that, the time of other threads counts as its own.
        match = compile_pattern(pattern).search(text, timeout=_MAX_SECONDS, concurrent=False)
    except TimeoutError:
        raise TooCostly(f"the pattern {pattern!r} takes too long on a text of {len(text)} characters") from None
    if not match or not match[1] or is_cut(text, *match.span(1)):
        return None
    return match[1].strip() or None


def taken(texts: Iterable[str], pattern: str | None, work: Work | None = None) -> list[str]:
    """Return what a pattern takes out of texts; all of them where there is none. Raises TooCostly."""
    if pattern is None:
        return list(texts)
    found = []
    for text in texts:
        if work is not None:
            work.charge(_STEPS_A_TEXT + len(text))
        value = take(pattern, text)
        if value is not None:
            found.append(value)
    return found


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern. Raises ValueError for what is no regular expression with one group."""
    import regex  # type: ignore[import-untyped]  # re, with a limit of time; most crawls begin without

    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"not a regular expression: {pattern!r}: {error}") from error
    if compiled.groups != 1:
        raise ValueError(f"{pattern!r} must have one group")
    return compiled


def _cut(text: str, value: str) -> tuple[str, str]:
    """Return the texts before and after a value, where it stands as a whole word if it does so anywhere."""
    word = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)
    start = word.start() if word else text.index(value)
    return text[:start], text[start + len(value) :]


def _constant_around(text: str, value: str) -> str | None:
    before, after = _cut(text, value)
    if max(len(before), len(after)) > _MAX_CONTEXT_CHARS:
        return None
    return f"^{_fold_digits(before)}{_capture(before, value, after)}{_fold_digits(after)}$"


def _piece(separator: str, text: str, value: str, *, from_end: bool) -> str | None:
    pieces = text.split(separator)
    if value not in pieces or len(pieces) > _MAX_PIECES:
        return None
    mark = re.escape(separator)
    piece = f"(?:(?!{mark}).)+"
    if from_end:
        after = len(pieces) - 1 - pieces[::-1].index(value)
        # Anchored, and greedy up to the piece: looked for from every place, it would take quadratic time.
        return f"^(?:.*{mark})?({piece})" + f"{mark}{piece}" * (len(pieces) - 1 - after) + "$"
    return "^" + f"{piece}{mark}" * pieces.index(value) + f"({piece})"


_PIECES: Final[tuple[Callable[[str, str], str | None], ...]] = tuple(
    partial(_piece, separator, from_end=from_end)
    for separator in (", ", " | ", " · ", " • ", " – ", " — ", " - ", " / ", ": ", "; ", " (", ") ", " » ", " > ")
    for from_end in (False, True)
)


def _words_beside(text: str, value: str) -> str | None:
    before, after = _cut(text, value)
    left, right = re.search(r"\S+\s*$", before[-_MAX_WORD_CHARS:]), re.match(r"\s*\S+", after)
    if not left and not right:
        return None
    around = _capture(before, value, after)
    return f"{_escape(left[0]) if left else '^'}{around}{_escape(right[0]) if right else '$'}"


def _capture(before: str, value: str, after: str) -> str:
    """Return the group of a value that is not to run over the marks next to it: "MIT" of "Licence: MIT. Since 2019"."""
    marks = [mark[0] for mark in (re.search(r"\W*$", before), re.match(r"\W*", after)) if mark and mark[0].strip()]
    kept = "|".join(sorted({re.escape(mark) for mark in marks if mark not in value}))
    return f"((?:(?!{kept}).)+?)" if kept else "(.+?)"


def _word_and_number(text: str, value: str) -> str | None:
    if not re.fullmatch(_NUMBER, value):
        return None
    before, after = _cut(text, value)
    left, right = re.search(r"[^\W\d]+\W*$", before[-_MAX_WORD_CHARS:]), re.match(r"\W*[^\W\d]+", after)
    if left:
        return f"{_escape(left[0])}({_NUMBER})"
    return f"({_NUMBER}){_escape(right[0])}" if right else None


def _number(_text: str, value: str) -> str | None:
    return f"({_NUMBER})" if re.fullmatch(_NUMBER, value) else None


def _last_number(text: str, value: str) -> str | None:
    before, after = _cut(text, value)
    if re.fullmatch(_NUMBER, value):
        return None if re.search(r"\d", after) else rf"^.*(?<![\d.,])({_NUMBER})\D*$"
    return r"^.*\d\s+(\D+)$" if not after and re.search(r"\d\s+$", before) else None


def _date(_text: str, value: str) -> str | None:
    """Return the form of a value with a year and other numbers or words: "12. Mai 2024"."""
    if len(value) > _MAX_DATE_CHARS or not re.search(r"(?<!\d)\d{4}(?!\d)", value):
        return None
    parts = re.findall(r"\d+|[^\W\d_]+|\s+|.", value)
    form = "".join(
        (r"\d{4}" if len(one) == 4 else r"\d{1,2}")
        if one.isdigit()
        else r"[^\W\d_]+"
        if one.isalpha()
        else _escape(one)
        for one in parts
    )
    return rf"(?<!\d)({form})(?!\d)" if 2 <= sum(map(str.isalnum, parts)) <= _MAX_DATE_PARTS else None


def _escape(text: str) -> str:
    return re.escape(text).replace("\\ ", r"\s*" if not text.strip() else r"\s+")


def _fold_digits(text: str) -> str:
    pieces = re.split(r"(\d[\d.,]*)", text)
    return "".join(r"\d[\d.,]*" if at % 2 else _escape(piece) for at, piece in enumerate(pieces))


# A selector that matches more elements is cut off there.
_MAX_NODES: Final = 1_000
_MAX_DEPTH: Final = 6
_MAX_STATE_DEPTH: Final = 12  # props, pageProps, product, ...
_MAX_JSON_VALUES: Final = 300
_DIGITS: Final = re.compile(r"\d+")
_MAX_JSON_PATH_CHARS: Final = 200
# Types that describe the publisher and the page's place in the site, not the thing that the page is about.
_FRAME_TYPES: Final = frozenset({"WebSite", "SearchAction", "SiteNavigationElement", "WPHeader", "WPFooter"})


class PageSource:
    """A page that selectors run on: its tree, which does not change, and, read on demand, the data of its scripts.
    `work` counts what they take, `memory` has what several of them need."""

    def __init__(self, root: etree._Element, work: Work | None = None, memory: SelectorMemory | None = None) -> None:
        self.root = root
        self.work = work or Work()
        self.memory = memory or SelectorMemory(root)

    @cached_property
    def json_ld(self) -> list[dict[str, Any]]:
        """The objects of the page's JSON-LD."""
        scripts = [
            script.text
            for script in self.root.iter("script")
            if script.text and "ld+json" in (script.get("type") or "").lower()
        ]
        self.work.charge_text(sum(map(len, scripts)))
        return json_ld(scripts) if scripts else []

    @cached_property
    def state(self) -> dict[str, Any]:
        """The data that its other scripts hold, as far as it is JSON and not too large: those of each name."""
        found: dict[str, list[Any]] = {}
        for script in islice(self.root.iter("script"), MAX_SCRIPTS):
            kind, name = (script.get("type") or "").strip().lower(), script.get("id") or ""
            if script.text and (kind in ("", "application/json") or name == "__NEXT_DATA__"):
                self.work.charge_text(len(script.text))
                if (read := state_of(script.text, MAX_VALUES)) is not None:
                    # Ids of a kind differ by numbers from page to page.
                    name = read[0] or _DIGITS.sub("", name).replace(".", "_") or "script"
                    found.setdefault(name, []).append(read[1])
        return dict(Room().fitting([found])[0])


def is_known(selector: Selector) -> bool:
    """Tell whether this can run a selector: what selectors.py cannot parse is none."""
    return selector.is_of_data or path_of(selector.query, selector.language) is not None


def nodes_at(source: PageSource, selector: Selector, within: etree._Element | None = None) -> list[Any]:
    """Return the elements (or texts, for an XPath that ends in them) that a CSS or XPath selector gives on a page, or
    within one of its elements. Raises TooCostly where they take more work than is left."""
    path = path_of(selector.query, selector.language)
    nodes = evaluate(path, source.work, source.memory, within) if path is not None else ()
    return [str(node) if isinstance(node, TextNode) else node for node in nodes]


def elements_at(source: PageSource, selector: Selector, within: etree._Element | None = None) -> list[etree._Element]:
    """Return the elements that hold the texts that a selector gives; none where these are in data. Raises TooCostly."""
    path = path_of(selector.query, selector.language)
    held: dict[etree._Element, None] = {}
    for node in evaluate(path, source.work, source.memory, within)[:_MAX_NODES] if path is not None else ():
        text = _text(str(node) if isinstance(node, TextNode) else node, selector.attribute, source)
        if text and taken([text], selector.pattern, source.work):
            held[node.parent if isinstance(node, TextNode) else node] = None
    return list(held)


def texts_at(source: PageSource, selector: Selector, within: etree._Element | None = None) -> list[str]:
    """Return the texts that a selector gives on a page, or a CSS or XPath selector within one of its elements, white
    space folded, none of them empty. Raises TooCostly."""
    if selector.language == "json-ld" and within is None:
        texts = json_texts(source.json_ld, selector.query)
    elif selector.language == "json" and within is None:
        texts = _texts_behind([source.state], selector.query.split("."))
    else:
        texts = [_text(node, selector.attribute, source) for node in nodes_at(source, selector, within)[:_MAX_NODES]]
    return taken([text for text in texts if text], selector.pattern, source.work)


def _text(node: Any, attribute: str | None, source: PageSource) -> str:
    if not isinstance(node, etree._Element):
        text = str(node)
    elif attribute is None:
        return source.memory.text_of(node, source.work)
    else:
        text = node.get(attribute) or ""
    source.work.charge_text(len(text))
    return fold(text)


def json_leaves(objects: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of each scalar in JSON-LD, white space folded; the items of a list share its path."""
    given = 0
    for one in objects:
        kind = _type_name(one)
        for path, value in _walk(one, kind, _MAX_DEPTH) if kind not in _FRAME_TYPES else ():
            if len(path) > _MAX_JSON_PATH_CHARS:
                continue
            given += 1
            if given > _MAX_JSON_VALUES:
                return
            yield path, value


def state_leaves(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of each scalar in the data of a page's other scripts that is not the site's, as `json_leaves`
    does."""
    for path, value in _walk(state, "", _MAX_STATE_DEPTH):
        if len(path) <= _MAX_JSON_PATH_CHARS and not FRAME_KEYS.search(path):
            yield path.removeprefix("."), value


def json_texts(objects: Sequence[dict[str, Any]], path: str) -> list[str]:
    """Return the texts at a path as `json_leaves` gives it, in document order."""
    kind, *keys = path.split(".")
    return _texts_behind([one for one in objects if _type_name(one) == kind], keys)


def _texts_behind(found: list[Any], keys: Sequence[str]) -> list[str]:
    for key in keys:
        found = [inner for value in found if isinstance(value, dict) for inner in _items(value.get(key))]
    return [text for text in map(_json_text, found) if text]


def _type_name(value: dict[str, Any]) -> str:
    """Return the (first) schema.org type of an object, without its vocabulary; "Thing" where it says none."""
    kind = value.get("@type")
    if isinstance(kind, list):
        kind = next((one for one in kind if isinstance(one, str)), None)
    name = kind.rstrip("/").rsplit("/", 1)[-1].rsplit("#", 1)[-1] if isinstance(kind, str) else ""
    return name.replace(".", "_") or "Thing"


def _walk(value: Any, path: str, levels: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        if levels > 0:
            for key, inner in value.items():
                if not key.startswith("@") and "." not in key:
                    yield from _walk(inner, f"{path}.{key}", levels - 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, path, levels - isinstance(inner, list))
    elif text := _json_text(value):
        yield path, text


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [inner for item in value for inner in _items(item)]
    return [] if value is None else [value]


def _json_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return fold(str(value)) if isinstance(value, str | int | float) else ""
