"""Puts the parts of a page that React streams behind it to where the page shows them.

React's server sends what is slow at the end of the body, in hidden containers: `<div hidden id="S:2">`. A script beside
it says which boundary the part belongs to (`$RC("B:2","S:2")`, or `$RR` where styles come with it) or which place in
another part (`$RS("S:3","P:3")`). Both places are empty templates; behind that of a boundary stands what is shown
meanwhile, and around both the comments `$?` and `/$`. So do react-dom 18 and 19 (their Fizz instruction set).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

_PART: Final = re.compile(r"""\bid="?[^\s"'<>]{0,200}?S:[0-9a-f]""")
_CALL: Final = re.compile(r'\$R([CRS])\("([^"\\]{1,200}+)","([^"\\]{1,200}+)"')
_PLACE: Final = re.compile(r'<template id="([^"]{1,200}+)"></template>')  # as lexbor writes it
_NUMBERED: Final = re.compile(r"[BP]:(?=[0-9a-f]++\Z)")
_WAITING: Final = frozenset({"$?", "$~"})
_MAX_STEPS: Final = 50_000  # from sibling to sibling, for all boundaries of a page
_BOUNDARY_STARTS: Final = _WAITING | {"$", "$!", "&"}
_BOUNDARY_ENDS: Final = frozenset({"/$", "/&"})


def may_have_streamed_parts(html: str) -> bool:
    return "<template" in html and _PART.search(html) is not None


def put_together(tree: LexborHTMLParser) -> str:
    """Return the page with each streamed part in its place, and without what was shown there meanwhile; "" for a page
    without such parts. Changes the tree.

    Takes time linear in the page. A part goes to the first place that is named for it. Parts that wait for each other
    are left out: no browser shows them.
    """
    scripts = "\n".join([node.text() for node in tree.css("script")])
    calls: dict[str, str] = {}  # the part of each place
    for kind, first, second in _CALL.findall(scripts):
        place, part = (second, first) if kind == "S" else (first, second)
        calls.setdefault(place, part)
    there = {node.attributes["id"] for node in tree.css("[id]")}
    wanted: dict[str, str] = {}  # the place of each part
    places: list[LexborNode] = []
    for node in tree.css("template[id]"):
        name = node.attributes["id"] or ""
        # Where the page's scripts are lost, mostly B:2 or P:2 stands for S:2.
        part = calls.get(name, "") if calls else _NUMBERED.sub("S:", name)
        if part in there and part != name and part not in wanted:
            wanted[part] = name
            places.append(node)
    if not wanted:
        return ""
    steps = iter(range(_MAX_STEPS))
    for node in reversed(places):  # so that none is used once it is gone
        for meanwhile in _shown_meanwhile(node, steps):
            meanwhile.decompose()
    parts: dict[str, str] = {}  # by their places
    for node in reversed([one for one in tree.css("[id]") if one.attributes["id"] in wanted]):
        parts[wanted[node.attributes["id"] or ""]] = node.inner_html or ""
        node.decompose()
    pieces: list[str] = []
    waiting = [(tree.html or "", 0)]
    while waiting:
        text, position = waiting.pop()
        match = _PLACE.search(text, position)
        if match is None:
            pieces.append(text[position:])
            continue
        pieces.append(text[position : match.start()])
        waiting.append((text, match.end()))
        waiting.append((parts.pop(match[1], ""), 0))
    return "".join(pieces)


def _shown_meanwhile(place: LexborNode, steps: Iterator[int]) -> list[LexborNode]:
    """Return what stands behind the place of a boundary, up to the end of that, if there are steps enough."""
    before, node = place.prev, place.next
    if before is None or not before.is_comment_node or before.comment_content not in _WAITING:
        return []
    found: list[LexborNode] = []
    depth = 0
    for _ in steps:
        if node is None:
            break
        said = node.comment_content if node.is_comment_node else ""
        if said in _BOUNDARY_ENDS and depth == 0:
            return found
        depth += (said in _BOUNDARY_STARTS) - (said in _BOUNDARY_ENDS)
        found.append(node)
        node = node.next
    return []
