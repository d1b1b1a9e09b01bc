"""Sorts the elements of HTML by what they mean for a page's text."""

from __future__ import annotations

from typing import Final

INLINE: Final = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rp rt ruby s samp
    small span strike strong sub sup time tt u var wbr button math mjx-container mjx-assistive-mml mjx-math
    math-renderer
    """.split()
)
# Elements that act, shown or not.
CONTROLS: Final = frozenset(("form", "button"))
# Elements whose text is none of the page's.
SKIPPED: Final = frozenset(
    "select option datalist textarea title object video audio canvas dialog noscript template".split()
)
# Elements that are skipped even where next to no text is visible.
SKIPPED_ALWAYS: Final = SKIPPED - {"noscript", "template", "dialog"}
HEAD: Final = frozenset(("meta", "link", "base"))
INLINE_MARKS: Final = {
    "b": "**", "strong": "**", "i": "*", "em": "*", "code": "`", "kbd": "`", "samp": "`", "tt": "`",
    "del": "~~", "s": "~~", "strike": "~~", "sup": "^",
}  # fmt: skip
# Block elements that mean something in Markdown.
FORMED: Final = frozenset(("ul", "ol", "li", "dl", "dt", "dd", "blockquote", "table", "thead", "tr"))
# Inline elements that leave no mark in Markdown.
BARE: Final = INLINE - {"a", "math", *INLINE_MARKS}
# Block elements that begin a line in a cell of a table.
CELL_LINES: Final = frozenset("p li pre blockquote dt dd tr h1 h2 h3 h4 h5 h6".split())
# Containers are told by their numbers here, which the weights of the main-text model know: the order stays.
TAGS: Final = tuple(
    """
    div p li h1 h2 h3 h4 h5 h6 td th pre blockquote dt dd ul ol dl table tr section article main aside nav header
    footer form figure figcaption body caption summary details fieldset
    """.split()
)
TAG_IDS: Final = {tag: index for index, tag in enumerate(TAGS)}
# Headings are the numbers from one of these to the other.
H1: Final = TAG_IDS["h1"]
H6: Final = TAG_IDS["h6"]
