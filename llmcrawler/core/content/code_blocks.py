"""Reads blocks of code as their page shows them: line by line, without numbers and buttons, with their language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from llmcrawler.core.content.markup import VOID, Token, plain

# Names that say that no language is known.
_NONE: Final = frozenset("none nohighlight no-highlight default auto undefined unknown null nocode plain-text".split())
_PLAIN: Final = {
    "python3": "python", "ipython3": "python", "ipython": "python", "py3": "python", "golang": "go", "c++": "cpp",
    "c#": "csharp", "cs": "csharp", "plaintext": "text", "plain": "text", "txt": "text", "shell-session": "console",
    "shellsession": "console", "text-html-basic": "html", "text-xml": "xml", "batchfile": "batch",
    "objective-c": "objc", "javascripts": "javascript", "yml": "yaml", "python2": "python",
}  # fmt: skip
# What may stand as a class of its own, or behind a word that has other meanings too.
_KNOWN: Final = frozenset(
    """
    abap actionscript ada apache apl applescript arduino asm assembly autohotkey awk bash basic bat batch bibtex c
    c++ clojure cmake cobol coffeescript console cpp crystal cs csharp css csv cuda cython d dart delphi diff
    django docker dockerfile dos elixir elisp elm erb erlang fish forth fortran fsharp gherkin git glsl go golang
    gradle graphql groovy haml handlebars haskell hcl html http ini ipython3 ipython java javascript jinja jinja2 jq
    js json json5 jsonc jsx julia kotlin latex less lisp lua makefile markdown matlab md mermaid mdx nasm nginx
    nim nix objc objectivec ocaml octave pascal perl php pl powershell prolog properties protobuf ps1 puppet py
    pycon python python2 python3 pytb qml r racket rb rego rest robot rst ruby rust sas sass scala scheme scss sh
    shell smalltalk solidity sql sqlite stylus svelte svg swift systemverilog tcl terraform tex text toml ts tsv
    tsx turtle txt typescript vb vba vbnet verilog vhdl vim vue wasm xml xquery yaml yml zig zsh
    """.split()
)
_NAMES: Final = re.compile(
    r" (class|data-lang|data-language|data-canonical-lang|data-code-lang|data-enlighter-language|lang|language"
    r'|data-syntaxhighlighter-params)="([^"]*+)"'
)
# Behind these stands a language, whatever it is called ...
_SURE: Final = re.compile(
    r"(?:^|[\s;])(?:language|lang|highlight-source|hljs-language|mw-highlight-lang|brush:\s*|brush)[-:]?"
    r"(?<=[-: ])([a-zA-Z][\w+#.-]*+)"
)
# ... and behind these one if it is known by name.
_MAYBE: Final = re.compile(r"(?:^|\s)(?:highlight|source|src|code|syntax|lexer|crayon|sourceCode)-([\w+#.-]+)")
# A class that is only the language's name stands beside one of these.
_HIGHLIGHTED: Final = re.compile(
    r"(?:^|\s)(?:hljs|highlight|sourceCode|chroma|code|prettyprint|syntaxhighlighter|example-good|rust-example-rendered"
    r"|programlisting|shiki|listing)(?:\s|$)"
)
_MAX_CHARS: Final = 1000
_MAX_NAME_CHARS: Final = 30


def language_in(sources: Iterable[tuple[str, str]]) -> str:
    """Return the language that tag and attributes of the first element that names one say, "" where none does."""
    for tag, source in sources:
        for name, value in _NAMES.findall(source[:_MAX_CHARS]) if source else ():
            found = _in_classes(tag, plain(value)) if name == "class" else _in_attribute(name, plain(value))
            if found is not None:
                return found
    return ""


def _in_attribute(name: str, value: str) -> str | None:
    if name == "data-syntaxhighlighter-params":
        found = _SURE.search(value)
        return plain_name(found[1]) if found else None
    value = value.strip().lower()
    if name == "lang" and value not in _KNOWN:
        return None  # mostly the language of its words
    return plain_name(value) if value and " " not in value else None


def _in_classes(tag: str, classes: str) -> str | None:
    if found := _SURE.search(classes):
        return plain_name(found[1])
    for found in _MAYBE.finditer(classes):
        if found[1].lower() in _KNOWN or found[1] in _NONE or found[1] in _PLAIN:
            return plain_name(found[1])
    if tag in {"pre", "code"} or _HIGHLIGHTED.search(classes):
        names = [name for name in classes.split() if name.lower() in _KNOWN - {"text", "code", "rest", "basic", "d"}]
        if names and (tag == "code" or len(classes.split()) == len(names) or _HIGHLIGHTED.search(classes)):
            return plain_name(names[0])
    return None


def plain_name(name: str) -> str:
    """Return a language's name as most write it, "" for one that says that there is none."""
    name = name.lower().rstrip(".;,")[:_MAX_NAME_CHARS]
    return "" if name in _NONE else _PLAIN.get(name, name)


# Elements that begin a line of their own within a block of code.
_LINES: Final = frozenset("div li p tr ol ul table pre blockquote dd dt h1 h2 h3 h4 h5 h6".split())
_LINE_SPAN: Final = re.compile(r' class="(?:[^"]* )?(?:token-|code-|view-|highlight-)?line[ "]')
# White space behind their tags is that of the page's source.
_BETWEEN_CELLS: Final = frozenset("table thead tbody tfoot tr colgroup".split())
_CONTROLS: Final = frozenset("button clipboard-copy select textarea svg template".split())
# Names of the numbers of lines of code, and of its buttons.
NUMBERED: Final = re.compile(
    r' class="(?:[^"]* )?(?:linenos?|linenodiv|lineno|ln|lnt|gutter|line-?numbers?(?:-rows|-wrapper)?|rouge-gutter'
    r"|blob-num|hljs-ln-n(?:umbers)?|ln-num|line-num|react-syntax-highlighter-line-number|CodeMirror-linenumber"
    r'|viewcode-back|copy(?:-button|btn|-btn|-code)?)[ "]'
    r'| aria-hidden="true"| hidden(?:=""|="hidden"|="true"|(?= |$))| style="[^"]*display: ?none'
)
_MAY_BE_NUMBERED: Final = frozenset("span td th div a i em pre p label".split())
# Names of a table that is a block of code with numbered lines, and of cells that stand in no other table.
CODE_TABLE: Final = re.compile(
    r' class="(?:[^"]* )?(?:highlight(?:table)?|codehilitetable|rouge-table|lntable|hljs-ln|js-file-line-container'
    r'|processedcode|code|code-table|crayon-table)[ "]'
)
CODE_CELL: Final = re.compile(r' class="(?:[^"]* )?(?:code|blob-code|rouge-code|lntd|hljs-ln-code|crayon-code)[ "]')
_TICKS: Final = re.compile("`{3,}")
_NO_BREAK: Final = {0xA0: " ", 0x200B: None, 0xFEFF: None}
_ABOVE: Final = 3  # so many elements above may name the language
_LOOKED_BACK: Final = 40  # tokens


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Text of a block of code without the line ends around it, its language ("" if unknown), and the links in it:
    attributes and text of each.
    """

    text: str
    language: str
    links: list[tuple[str, str]]

    def markdown(self) -> str:
        """Return it fenced."""
        fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(self.text)), default=0))
        return f"{fence}{self.language}\n{self.text}\n{fence}"


def read_code(page: list[Token], position: int) -> CodeBlock:  # noqa: C901, PLR0912 - one flat loop
    """Read the element that begins at a token and holds nothing but code."""
    lines = _Lines()
    links: list[tuple[str, str]] = []
    link: tuple[str, int] | None = None
    open_lines: list[int] = []  # how deep each open line stands
    depth = skipped = 0
    for index in range(position, len(page)):
        slash, tag, source, text = page[index]
        if slash:
            if skipped == depth:
                skipped = 0
            elif not skipped:
                if open_lines and open_lines[-1] == depth:
                    open_lines.pop()
                    lines.end()
                if tag == "a" and link is not None:
                    links.append((link[0], " ".join("".join(lines.pieces[link[1] :]).split())))
                    link = None
            depth -= 1
            if depth == 0:
                break
        elif tag == "br":
            if not skipped:
                lines.add("\n")
        elif tag and tag not in VOID:
            depth += 1
            if not skipped:
                if tag in _CONTROLS or (
                    source and tag in _MAY_BE_NUMBERED and index > position and NUMBERED.search(source)
                ):
                    skipped = depth
                elif tag in _LINES or (tag == "span" and source and _LINE_SPAN.search(source)):
                    open_lines.append(depth)
                    lines.begin()
                elif tag == "a":
                    link = (source, len(lines.pieces))
        if text and not skipped:
            is_between_cells = tag in _BETWEEN_CELLS or (slash and tag in {"td", "th"})
            if not (is_between_cells and text.isspace()):
                lines.add(plain(text))
    return CodeBlock(lines.text(), language_in(_sources(page, position)), links)


class _Lines:
    """Text in pieces; an element that is a line ends the one before it, with or without a line end in the text."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._is_ended = False  # a line, and its end is not among the pieces yet

    def add(self, text: str) -> None:
        if self._is_ended and not text.startswith("\n"):
            self.pieces.append("\n")
        self._is_ended = False
        self.pieces.append(text)

    def begin(self) -> None:
        if self._is_ended or (self.pieces and not self.pieces[-1].endswith("\n")):
            self.pieces.append("\n")
        self._is_ended = False

    def end(self) -> None:
        self._is_ended = self._is_ended or not self.pieces or not self.pieces[-1].endswith("\n")

    def text(self) -> str:
        return "".join(self.pieces).translate(_NO_BREAK).strip("\n").rstrip()


def _sources(page: list[Token], position: int) -> Iterator[tuple[str, str]]:
    """Yield tag and attributes of the elements that may name a block's language, the one that says it best first."""
    for slash, tag, source, _ in page[position + 1 : position + 4]:
        if tag == "code" and not slash:
            yield tag, source
        if tag in {"code", "pre"}:
            break
    yield page[position][1], page[position][2]
    inside = above = 0
    for slash, tag, source, _ in reversed(page[max(0, position - _LOOKED_BACK) : position]):
        if slash:
            inside += 1
        elif tag and tag not in VOID:
            if inside:
                inside -= 1
                continue
            yield tag, source
            above += 1
            if above == _ABOVE:
                return
