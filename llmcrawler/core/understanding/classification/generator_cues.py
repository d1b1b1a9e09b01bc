"""Tells what kinds of page the software makes that a page names in `meta generator`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Software that makes one kind of page only, as it names itself in `meta generator`.
_GENERATORS: Final = (
    (
        re.compile(r"javadoc|rustdoc|gtk-doc|jsdoc|typedoc|yard|pdoc|epydoc|dokka|scaladoc|phpdocumentor"),
        (("api_reference", 8),),
    ),
    (re.compile(r"doxygen"), (("api_reference", 3),)),  # it makes prose and source listings, too
    (
        re.compile(
            r"sphinx|docutils|mkdocs|docusaurus|docbook|publican|asciidoc|makeinfo|texi2html|gitbook|antora|mdbook"
            r"|vuepress|vitepress|mediawiki|dokuwiki|moinmoin"
        ),
        (("documentation", 4),),
    ),
    (
        re.compile(r"discourse|phpbb|vbulletin|mybb|xenforo|invision|flarum|nodebb|fluxbb|punbb|vanilla"),
        (("forum_thread", 3), ("listing", 1)),
    ),
)


def generator_cues(generator: str) -> Iterator[tuple[str, int]]:
    """Yield page types and points."""
    for pattern, cues in _GENERATORS:
        if pattern.search(generator.lower()):
            yield from cues
