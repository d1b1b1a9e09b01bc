"""One pass over a parsed page: its text as blocks, each with what tells main content from boilerplate, and its links.

Selectolax gives nodes in document order; what is open at a node is kept on a stack. Nodes are told apart by `mem_id`:
comparing nodes themselves serialises them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_NODES = 60_000  # of a page; the rest of a larger one is not read
_MAX_DEPTH = 400

SKIPPED = frozenset(
    "script style template svg math head iframe object embed canvas audio video select option datalist "
    "input textarea button progress meter map".split()
)
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p pre section summary table tbody "
    "td tfoot th thead tr ul".split()
)
_CELLS = frozenset(("td", "th"))
_CONTAINERS = frozenset("div section article main body aside nav header footer form ul ol dl table td li".split())
_AREAS = {"nav": "nav", "header": "header", "footer": "footer", "aside": "aside", "form": "form", "main": "main"}
_ROLES = {
    "navigation": "nav",
    "banner": "header",
    "contentinfo": "footer",
    "complementary": "aside",
    "search": "form",
    "main": "main",
    "dialog": "aside",
    "menu": "nav",
    "menubar": "nav",
    "alert": "aside",
}
# Words in class names and ids by which designers name what is not, and what is, the content.
_AWAY = re.compile(
    r"nav|menu|foot|header|masthead|side|widget|banner|cookie|consent|gdpr|promo|advert|(?:^|[-_ ])ads?(?:$|[-_ ])|"
    r"sponsor|share|social|comment|disqus|related|recommend|similar|breadcrumb|crumb|popup|modal|overlay|dialog|newsletter|subscri|"
    r"signup|login|search|toolbar|pagination|pager|copyright|legal|skip|hidden|hide|sr-only|tag|meta|byline|author|"
    r"toc|cart|rating|filter|facet|sort|language|lang-|topbar|bottom|tooltip|dropdown|cta|hero|carousel|slider",
    re.IGNORECASE,
)
_HERE = re.compile(
    r"article|content|entry|post|story|main|body|text|product|descr|detail|recipe|question|answer|message|thread|doc|page",
    re.IGNORECASE,
)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
_EDGE = re.compile(r"\s+([,.;:!?)\]])")


@dataclass(slots=True)
class _Open:
    """An element that is open, with what its descendants inherit."""

    mem_id: int
    tag: str
    skipped: bool
    areas: frozenset[str]
    away: int  # how many open elements have a name of boilerplate
    here: int
    container: int
    list_depth: int
    heading: int
    depth: int
    link_start: int = -1
    href: str = ""
    away_near: bool = False
    here_near: bool = False


@dataclass(slots=True)
class RawBlock:
    """A block of text before it is judged. `container` tells which blocks share their closest container."""

    text: str
    tag: str
    link_chars: int
    areas: frozenset[str]
    away: int
    here: int
    away_near: bool
    here_near: bool
    container: int
    parent_container: int
    list_depth: int
    heading: int
    depth: int
    markdown: str = ""


@dataclass(slots=True)
class Walk:
    blocks: list[RawBlock] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)  # raw href -> anchor text
    tags: dict[str, int] = field(default_factory=dict)  # how often each element stands in the page
    containers: list[int] = field(default_factory=lambda: [0])  # each one's parent


def walk(tree: LexborHTMLParser, link_of: Callable[[str], str | None]) -> Walk:
    """`link_of` makes an href absolute, or None when it leads to no page."""
    root = tree.root
    if root is None:
        return Walk()
    return _Walker(link_of).run(root)


class _Walker:
    def __init__(self, link_of: Callable[[str], str | None]) -> None:
        self._link_of = link_of
        self._walk = Walk()
        self._stack = [_Open(-1, "", False, frozenset(), 0, 0, 0, 0, 0, 0)]
        self._parts: list[str] = []
        self._link_chars = 0
        self._owner = self._stack[0]
        self._is_pre = False

    def run(self, root: LexborNode) -> Walk:
        stack, tags = self._stack, self._walk.tags
        for count, node in enumerate(root.traverse(include_text=True)):
            if count > MAX_NODES:
                break
            parent = node.parent
            parent_id = parent.mem_id if parent is not None else -1
            while len(stack) > 1 and stack[-1].mem_id != parent_id:
                self._close(stack.pop())
            tag = node.tag
            if tag == "-text":
                if not stack[-1].skipped:
                    self._add_text(node.text_content or "")
            elif tag and tag[0] not in "-!":
                tags[tag] = tags.get(tag, 0) + 1
                self._open(node, tag)
        while len(stack) > 1:
            self._close(stack.pop())
        self._flush()
        return self._walk

    def _open(self, node: LexborNode, tag: str) -> None:
        above = self._stack[-1]
        opened = _Open(
            node.mem_id,
            tag,
            above.skipped or tag in SKIPPED or above.depth >= _MAX_DEPTH,
            above.areas,
            above.away,
            above.here,
            above.container,
            above.list_depth,
            above.heading,
            above.depth + 1,
            away_near=above.away_near,
            here_near=above.here_near,
        )
        self._stack.append(opened)
        if opened.skipped:
            return
        if tag in _BLOCKS:
            self._open_block(node, opened, above)
        elif tag == "a":
            self._open_link(node, opened)
        elif tag == "br":
            self._parts.append("\n" if self._is_pre else " ")
        elif tag == "code" and not self._is_pre:
            self._parts.append("`")
        elif tag == "area":
            self._note_link(node.attributes, "")

    def _open_block(self, node: LexborNode, opened: _Open, above: _Open) -> None:
        tag = opened.tag
        if tag in _CELLS and above.tag == "tr":
            if self._parts:
                self._parts.append(" | ")
        else:
            self._flush()
        attributes = node.attributes
        if attributes:
            self._inherit(attributes, opened)
        area = _AREAS.get(tag)
        if area:
            opened.areas |= {area}
        elif tag == "article":
            opened.here += 1
        if tag in _CONTAINERS:
            opened.container = len(self._walk.containers)
            self._walk.containers.append(above.container)
            if tag in ("ul", "ol"):
                opened.list_depth += 1
        elif tag[0] == "h" and len(tag) == 2 and tag[1] in "123456":
            opened.heading = int(tag[1])
        self._owner = opened
        self._is_pre = tag == "pre" or (self._is_pre and tag == "div")

    def _inherit(self, attributes: dict[str, str | None], opened: _Open) -> None:
        role = attributes.get("role")
        if role in _ROLES:
            opened.areas |= {_ROLES[role]}
        if opened.tag in ("body", "html"):
            return  # they name the page, and are hidden only until its scripts have run
        style = attributes.get("style")
        if "hidden" in attributes or attributes.get("aria-hidden") == "true" or (style and _HIDDEN_STYLE.search(style)):
            opened.skipped = True
        names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
        if len(names) > 1:
            opened.away_near, opened.here_near = _hints(names)
            opened.away += opened.away_near
            opened.here += opened.here_near

    def _open_link(self, node: LexborNode, opened: _Open) -> None:
        attributes = node.attributes
        opened.link_start = len(self._parts)
        opened.href = self._note_link(attributes, "") or ""

    def _note_link(self, attributes: dict[str, str | None], text: str) -> str | None:
        href = attributes.get("href")
        if not href or "nofollow" in (attributes.get("rel") or "").lower():
            return None
        url = self._link_of(href)
        if url is not None:
            self._walk.links.setdefault(url, text)
        return url

    def _close(self, closed: _Open) -> None:
        if closed.skipped:
            return
        if closed.link_start >= 0:
            self._close_link(closed)
        elif closed.tag == "code" and not self._is_pre:
            self._parts.append("`")
        elif closed.tag in _BLOCKS and not (closed.tag in _CELLS and self._stack[-1].tag == "tr"):
            self._flush()
            self._owner = self._stack[-1]
            if closed.tag == "pre":
                self._is_pre = False

    def _close_link(self, closed: _Open) -> None:
        start = min(closed.link_start, len(self._parts))
        text = _SPACE.sub(" ", "".join(self._parts[start:])).strip()
        if not text:
            return
        self._link_chars += len(text)
        if closed.href:
            if not self._walk.links.get(closed.href):
                self._walk.links[closed.href] = text[:200]
            self._parts[start:] = [f" [{text}]({closed.href}) "]

    def _add_text(self, text: str) -> None:
        if not text:
            return
        if not self._parts and not self._is_pre:
            if text.isspace():
                return
            self._owner = self._block_owner()
        self._parts.append(text)

    def _block_owner(self) -> _Open:
        for opened in reversed(self._stack):
            if opened.tag in _BLOCKS:
                return opened
        return self._stack[0]

    def _flush(self) -> None:
        if not self._parts:
            return
        joined = "".join(self._parts)
        self._parts.clear()
        link_chars, self._link_chars = self._link_chars, 0
        markdown = joined.strip("\n") if self._is_pre else _EDGE.sub(r"\1", _SPACE.sub(" ", joined)).strip()
        if not markdown.strip(" |`"):
            return
        owner = self._owner
        self._walk.blocks.append(
            RawBlock(
                plain(markdown) if link_chars else markdown,
                "pre" if self._is_pre else owner.tag,
                link_chars,
                owner.areas,
                owner.away,
                owner.here,
                owner.away_near,
                owner.here_near,
                owner.container,
                self._walk.containers[owner.container],
                owner.list_depth,
                owner.heading,
                owner.depth,
                markdown,
            )
        )


@lru_cache(maxsize=20_000)
def _hints(names: str) -> tuple[bool, bool]:
    """Of an element's classes and id: do they name boilerplate, do they name content? A site repeats few of them."""
    return bool(_AWAY.search(names)), bool(_HERE.search(names))


_LINK = re.compile(r"\[([^\]]*)\]\((?:[^()\s]|\([^()\s]*\))*\)")


def plain(markdown: str) -> str:
    """The text without the links' targets."""
    return _LINK.sub(r"\1", markdown)
