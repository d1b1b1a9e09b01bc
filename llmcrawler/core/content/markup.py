"""A parsed page as a flat list of tokens.

Walking a lexbor tree from Python costs a call per node and attribute. Serialising it (in C) and cutting the well-formed
result with one regular expression costs about a third of that, and needs no recursion however deep the page is.
"""

from __future__ import annotations

import re
from typing import Final

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from llmcrawler.core.content.marks import MARKS
from llmcrawler.core.content.streamed_parts import with_streamed_parts
from llmcrawler.errors import ContentError

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
_NO_MARKS: Final = dict.fromkeys(map(ord, MARKS))
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
    html = _bounded(with_streamed_parts(html[:MAX_HTML_CHARS]))
    try:
        tree = LexborHTMLParser(html.encode("utf-8", "replace"))
    except SelectolaxError as error:  # it reads whatever comes, as long as there is memory
        raise ContentError(f"the page takes too much memory to parse: {error}") from error
    if "math/tex" in html:
        _show_tex(tree)
    return tree


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
    """Turn a page into tokens, without control characters (MARKS). Removes scripts, styles and frames from the tree."""
    tree.strip_tags(_SKIPPED)
    html = tree.html or ""
    if any(mark in html for mark in MARKS):
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
