"""Puts the parts of a page that React streams behind it to where the page shows them.

React's server sends what is slow at the end of the body, in hidden containers: `<div hidden id="S:2">`. A script beside
it says which boundary the part belongs to (`$RC("B:2","S:2")`, or `$RR` where styles come with it) or which place in
another part (`$RS("S:3","P:3")`). Both places are empty templates; behind that of a boundary stands what is shown
meanwhile, and around both the comments `$?` and `/$`. So do react-dom 18 and 19 (their Fizz instruction set).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

_ID: Final = r"""[^\s"'<>]{1,200}+"""
_PLACE: Final = re.compile(rf'<template id="?({_ID})"?></template>')
_CONTAINER: Final = re.compile(
    r'<(?:div|table|svg|math) (?:hidden(?:="")?|aria-hidden="true" style="display:none")'
    rf'(?:><(?P<inside>tbody|tr|colgroup))? id="?(?P<id>{_ID})"?>'
)
_CALL: Final = re.compile(r'\$R([CRS])\("([^"\\]{1,200}+)","([^"\\]{1,200}+)"')
# What is counted to find where containers and boundaries end; of comments and scripts only how they begin.
_MARK: Final = re.compile(r"<(?:!--|(/?)(?:div|table|svg|math)\b|(script|style)\b|template id=)", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"[BP]:(?=[0-9a-f]++\Z)")
_RAW_END: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style")}
_WAITING: Final = frozenset({"$?", "$~"})
_BOUNDARY_STARTS: Final = _WAITING | {"$", "$!", "&"}
_BOUNDARY_ENDS: Final = frozenset({"/$", "/&"})


@dataclass(slots=True)
class _Slot:
    """The template that a part goes to; `end` is that of all that the part takes the place of."""

    id: str
    start: int
    end: int


@dataclass(slots=True)
class _Part:
    """A hidden container from `start` to `end`, and its content."""

    start: int
    content: int
    content_end: int = -1
    end: int = -1


@dataclass(slots=True)
class _Scan:
    """Results of one pass over the page's text."""

    places: dict[str, _Slot] = field(default_factory=dict)
    parts: dict[str, _Part] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)  # the part of each place
    _depth: int = 0
    _open: tuple[str, str, int, int] | None = None  # a part's id and inner element; depth and boundaries before it
    _boundaries: list[tuple[int, _Slot | None]] = field(default_factory=list)  # depth, the place it begins with

    def read(self, html: str) -> None:
        position = 0
        while match := _MARK.search(html, position):
            start, position = match.span()
            if match[2]:
                raw_end = _RAW_END[match[2].lower()].search(html, position)
                if raw_end is None:
                    return
                self._script(html, start, raw_end.start())
                position = raw_end.end()
            elif html.startswith("<!--", start):
                end = html.find("-->", position)
                if end < 0:
                    return
                self._comment(html, position, end)
                position = end + len("-->")
            elif html.startswith("</", start):
                self._depth -= 1
                if self._open is not None and self._open[2] == self._depth:
                    self._close(html, start, html.find(">", start) + 1 or len(html))
            elif html[start + 1] in "tT" and html.startswith("<template", start):
                if place := _PLACE.match(html, start):
                    self._note(place)
            else:
                self._element(html, start)

    def _script(self, html: str, start: int, end: int) -> None:
        for kind, first, second in _CALL.findall(html, start, end):
            place, part = (second, first) if kind == "S" else (first, second)
            self.calls.setdefault(place, part)
            if self._open is not None and self._open[0] == part:
                self._close(html, start, start)  # a tag too many is open in it

    def _comment(self, html: str, start: int, end: int) -> None:
        data = html[start:end] if end - start <= 2 else ""  # as long as the longest of a boundary
        if data in _BOUNDARY_STARTS:
            place = _PLACE.match(html, end + len("-->")) if data in _WAITING else None
            self._boundaries.append((self._depth, self._note(place) if place else None))
        elif data in _BOUNDARY_ENDS and self._boundaries:
            depth, begun = self._boundaries.pop()
            if begun is not None and depth == self._depth:
                begun.end = start - len("<!--")

    def _note(self, match: re.Match[str]) -> _Slot:
        return self.places.setdefault(match[1], _Slot(match[1], *match.span()))

    def _element(self, html: str, start: int) -> None:
        container = _CONTAINER.match(html, start)
        if container is not None and container["id"] not in self.parts:
            if self._open is not None:
                self._close(html, start, start)
            self.parts[container["id"]] = _Part(start, container.end())
            self._open = (container["id"], container["inside"] or "", self._depth, len(self._boundaries))
        self._depth += 1

    def _close(self, html: str, content_end: int, end: int) -> None:
        assert self._open is not None
        name, inside, self._depth, boundaries = self._open
        self._open = None
        del self._boundaries[boundaries:]
        part = self.parts[name]
        tail = f"</{inside}>"
        part.content_end = content_end - len(tail) if inside and html.endswith(tail, 0, content_end) else content_end
        part.end = end


def with_streamed_parts(html: str) -> str:
    """Return the page with each streamed part in its place, and without what was shown there meanwhile.

    Takes time linear in the page: one pass to find places and parts, one to put the text together. A part goes to the
    first place that is named for it. Parts that wait for each other are left out: no browser shows them.
    """
    if "<template" not in html or _CONTAINER.search(html) is None:
        return html
    scan = _Scan()
    scan.read(html)
    moved: dict[str, _Slot] = {}
    for place in scan.places.values():
        # Where the page's scripts are lost, mostly B:2 or P:2 stands for S:2.
        name = scan.calls.get(place.id, "") if scan.calls else _NUMBERED.sub("S:", place.id)
        if name in scan.parts and scan.parts[name].end >= 0:
            moved.setdefault(name, place)
    if not moved:
        return html
    cuts = [(place.start, place.end, name) for name, place in moved.items()]
    cuts += [(scan.parts[name].start, scan.parts[name].end, "") for name in moved]
    return _put_together(html, sorted(cuts), scan.parts)


def _put_together(html: str, cuts: list[tuple[int, int, str]], parts: dict[str, _Part]) -> str:
    """Return the text without the cuts, and where one names a part that part's content, which is cut likewise."""
    pieces: list[str] = []
    waiting = [(0, len(html))]
    while waiting:
        position, end = waiting.pop()
        at = bisect_left(cuts, (position,))
        start, behind, name = cuts[at] if at < len(cuts) else (end, end, "")
        if start >= end:
            pieces.append(html[position:end])
            continue
        pieces.append(html[position:start])
        waiting.append((behind, end))
        if name:
            waiting.append((parts[name].content, parts[name].content_end))
    return "".join(pieces)
