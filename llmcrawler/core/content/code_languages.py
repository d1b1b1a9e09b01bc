"""Tells the language of a block of code from the names that highlighters and generators give its elements."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from llmcrawler.core.content.markup import plain

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
