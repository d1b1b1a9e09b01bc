"""Sorts the elements of HTML by what they mean for a page's text."""

from __future__ import annotations

from typing import Final

INLINE: Final = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rp rt ruby s samp
    small span strike strong sub sup time tt u var wbr button
    """.split()
)
# Elements that act, shown or not.
CONTROLS: Final = frozenset(("form", "button"))
# Elements whose text is none of the page's.
SKIPPED: Final = frozenset(
    "select option datalist textarea title object video audio canvas math dialog noscript template".split()
)
# Elements that are skipped even where next to no text is visible.
SKIPPED_ALWAYS: Final = SKIPPED - {"noscript", "template", "dialog"}
HEAD: Final = frozenset(("meta", "link", "base"))
INLINE_MARKS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*", "code": "`"}
# Block elements that mean something in Markdown.
FORMED: Final = frozenset(("ul", "ol", "li", "pre", "blockquote", "table", "tr"))
# Inline elements that leave no mark in Markdown.
BARE: Final = INLINE - {"a", *INLINE_MARKS}
# In a table they are signs that it is the page's layout, and holds no data.
LAYOUT: Final = frozenset("h1 h2 h3 form ul ol article section nav header footer pre blockquote iframe".split())
# Containers are told by their numbers here, which the weights of the main-text model know: the order stays.
TAGS: Final = tuple(
    """
    div p li h1 h2 h3 h4 h5 h6 td th pre blockquote dt dd ul ol dl table tr section article main aside nav header
    footer form figure figcaption body caption summary details fieldset
    """.split()
)
TAG_IDS: Final = {tag: index for index, tag in enumerate(TAGS)}
