"""Parses a page, within bounds of time and memory, into a flat list of tokens; and sorts the elements of HTML.

Walking a lexbor tree from Python costs a call per node and attribute. Serialising it (in C) and cutting the well-formed
result with one regular expression costs about a third of that, and needs no recursion however deep the page is.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from llmcrawler.core.content.streamed_parts import may_have_streamed_parts, put_together
from llmcrawler.errors import ContentError

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
    "select option datalist textarea title object video audio canvas dialog noscript template rp".split()
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
BARE: Final = INLINE - {"a", "math", "q", "rt", *INLINE_MARKS}
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


# (slash, tag, attributes, text behind the tag); all but the text are empty for a comment.
Token = tuple[str, str, str, str]

# All quantifiers but those of `.*?` are possessive, so no input makes this backtrack.
# Lexbor quotes every value and escapes `"`, `<`, `>` in it.
_TOKEN: Final = re.compile(
    r"<(?:(?:(?:script|style|iframe|xmp)(?: [^>]*+)?+>.*?</(?:script|style|iframe|xmp)>)"
    r"|(/?)([a-zA-Z][^\s/>]*+)([^>]*+)>|!--.*?-->|![^>]*+>)([^<]*+)",
    re.DOTALL,
)
_ATTRIBUTE: Final = re.compile(r' ([^\s=>]++)(?:="([^"]*+)")?+')

# Elements without end tag, the obsolete ones of the HTML standard's serialisation among them.
VOID: Final = frozenset(
    "area base br col embed hr img input link meta param source track wbr basefont bgsound frame keygen".split()
)
# Never text, and where their content is raw it may look like tags.
_SKIPPED: Final = ["style", "svg", "script", "iframe", "noembed", "noframes", "xmp", "plaintext"]
_MATHJAX: Final = ", ".join(
    f".{name}" for name in "MathJax MathJax_Display MathJax_Preview MathJax_SVG MathJax_CHTML MJXc-display".split()
)
_REFERENCES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", "\xa0"), ("&quot;", '"'), ("&amp;", "&"))
# Control characters that block_markdown.py marks pieces of Markdown with.
_MARKS: Final = "\x00\x01\x02\x03\x04\x05\x06"
_NO_MARKS: Final = dict.fromkeys(map(ord, _MARKS))
MAX_HTML_CHARS: Final = 6_000_000
# Lexbor needs time quadratic in the depth of open elements: 20,000 take 0.4 s, 200,000 take a minute.
_MAX_UNCLOSED: Final = 5_000
_MAYBE_DEEP_CHARS: Final = 20_000
_OPEN_OR_CLOSE: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)")
_RARELY_CLOSED: Final = frozenset(
    "area base br col embed hr img input link meta param source track wbr path li p td tr th option dt dd".split()
)


def _bounded(html: str) -> str:
    """Return the html up to where more elements are open than any real page nests."""
    if len(html) < _MAYBE_DEEP_CHARS:
        return html
    opened = html.count("<")
    if opened < _MAX_UNCLOSED or opened - 2 * html.count("</") < _MAX_UNCLOSED:
        return html
    depth = 0
    for match in _OPEN_OR_CLOSE.finditer(html):
        if match[1]:
            depth = max(0, depth - 1)
        elif match[2].lower() not in _RARELY_CLOSED:
            depth += 1
            if depth > _MAX_UNCLOSED:
                return html[: match.start()]
    return html


def parse(html: str) -> LexborHTMLParser:
    """Parse with lexbor; lone surrogates, which UTF-8 cannot carry, become question marks. Raises ContentError."""
    tree = _parsed(with_streamed_parts(html))
    if "math/tex" in html:
        _show_tex(tree)
    return tree


def with_streamed_parts(html: str) -> str:
    """Return the part of a page that is read, with each part that React streams in its place."""
    html = html[:MAX_HTML_CHARS]
    return (put_together(_parsed(html)) or html) if may_have_streamed_parts(html) else html


def _parsed(html: str) -> LexborHTMLParser:
    try:
        return LexborHTMLParser(_bounded(html).encode("utf-8", "replace"))
    except SelectolaxError as error:  # it reads whatever comes, as long as there is memory
        raise ContentError(f"the page takes too much memory to parse: {error}") from error


def _show_tex(tree: LexborHTMLParser) -> None:
    """Put the TeX that MathJax reads into the page in place of its script, and hide what MathJax made of it."""
    for node in tree.css(_MATHJAX):
        node.attrs["hidden"] = ""
    for node in tree.css('script[type^="math/tex"]'):
        sign = "$$" if "display" in (node.attributes.get("type") or "") else "$"
        node.replace_with(f"{sign}{' '.join(node.text().split())}{sign}")


def json_ld_scripts(tree: LexborHTMLParser) -> list[str]:
    """Return the texts of the page's JSON-LD scripts; to be called before tokens(), which removes them."""
    return [node.text() for node in tree.css('script[type*="ld+json" i]')]


def tokens(tree: LexborHTMLParser) -> list[Token]:
    """Turn a page into tokens, without these control characters. Removes scripts, styles and frames from the tree."""
    tree.strip_tags(_SKIPPED)
    html = tree.html or ""
    if any(mark in html for mark in _MARKS):
        html = html.translate(_NO_MARKS)
    return _TOKEN.findall(html)


def attributes(source: str) -> dict[str, str]:
    """Parse the attribute string of a token; the first of several attributes of one name counts."""
    found: dict[str, str] = {}
    for name, value in _ATTRIBUTE.findall(source):
        found.setdefault(name, plain(value))
    return found


def plain(text: str) -> str:
    """Resolve the character references of lexbor's serialiser; `html.unescape` takes a microsecond for each."""
    if "&" not in text:
        return text
    for reference, character in _REFERENCES:
        text = text.replace(reference, character)
    return text


_MAX_TAGS: Final = 2_000
_MAX_STARTED: Final = 1_100  # of 1,060 real pages with so few tags one has more, but all 2,000 may be
_MAX_REPEATED: Final = 12_000  # elements that formatting left open may add
_FEW_TAGS: Final = 200  # so few cannot add as many
_TWINS: Final = 3  # so many elements of one name and the same attributes are made anew (HTML standard, 13.2.4.3)

_ATTRIBUTES: Final = r"""(?:[^<>"'=]*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|(?=[^\s"'<>])))*+[^<>"'=]*+>"""
# The start of a formatting element that is not just text and its end: whole, where its attributes are as usual. An `a`
# closes the one before it.
_LEFT_OPEN: Final = re.compile(
    r"<(?=[bcefistuBCEFISTU])(?i:b|big|code|em|font|i|s|small|strike|strong|tt|u)(?=[\s/>])"
    rf"(?!{_ATTRIBUTES}[^<]*+</)(?:{_ATTRIBUTES})?"
)
# A tag as HTML's standard reads it, with more attributes than any page needs: parsers take time quadratic in their
# number. What is long is cut into several of them here, so that this takes time linear in the page.
_BLANK: Final = r"[\t\n\f\r ]"
_VALUE: Final = r"""(?:"[^"]*+"|'[^']*+'|[^\t\n\f\r >"'][^\t\n\f\r >]{0,500}+)"""
_COSTLY_ATTRIBUTE: Final = (
    rf"[\t\n\f\r /]*+[^\t\n\f\r />][^\t\n\f\r />=]{{0,100}}+(?:{_BLANK}*+={_BLANK}*+{_VALUE}?+)?+"
)
_HUGE_TAG: Final = re.compile(rf"<[A-Za-z][^\t\n\f\r />]{{0,100}}+(?:{_COSTLY_ATTRIBUTE}){{128}}")


def is_cheap(html: str) -> bool:
    """Tell from a page's text, before any parse, whether reading it takes some 30 ms and 20 MB at most, and may be done
    where all else waits meanwhile. Takes a few microseconds for each kilobyte.

    Reading takes up to 20 microseconds for each element that is begun. But some pages are small and cost much: an
    element for emphasis that is left open is made anew in each paragraph that follows, so that a thousand of them
    before a thousand paragraphs are a million elements; and each attribute of an element is compared with all those
    before it. The bounds hold whatever else the page is: what only looks like a tag counts as one.
    """
    tags = html.count("<")
    if tags > _MAX_TAGS or (tags > _MAX_STARTED and tags - html.count("</") > _MAX_STARTED):
        return False
    if _HUGE_TAG.search(html) is not None:
        return False
    return tags <= _FEW_TAGS or tags * _left_open(html) <= _MAX_REPEATED


def _left_open(html: str) -> int:
    """Return an upper bound of the formatting elements that are open at once anywhere in the page."""
    found = Counter(_LEFT_OPEN.findall(html))
    return sum(min(count, _TWINS) if tag.endswith(">") else count for tag, count in found.items())
