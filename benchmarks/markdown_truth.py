"""What a document says, construct by construct, read from Markdown or from a Sphinx doctree, and compared with another.

The source of a built page is read here (Markdown of MkDocs' and Docusaurus' dialects with markdown-it, reST as the XML
that Sphinx writes of its doctrees), and so is the Markdown that an extractor made of the page: no reader of HTML of
this project has a part in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from textwrap import dedent
from urllib.parse import unquote, urldefrag, urljoin
from xml.etree import ElementTree as Xml

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

Grid = tuple[tuple[str, ...], ...]

# Names that generators and writers use for one language.
_SAME_LANGUAGE = {
    **dict.fromkeys(("py", "py3", "python3", "pycon", "pycon3", "ipython", "ipython3", "default-python"), "python"),
    **dict.fromkeys(("js", "node", "mjs", "cjs", "jsx"), "javascript"),
    **dict.fromkeys(("ts", "tsx"), "typescript"),
    **dict.fromkeys(("sh", "shell", "console", "shell-session", "sh-session", "zsh", "bat", "source-shell"), "bash"),
    **dict.fromkeys(("yml",), "yaml"),
    **dict.fromkeys(("rs",), "rust"),
    **dict.fromkeys(("rb",), "ruby"),
    **dict.fromkeys(("golang",), "go"),
    **dict.fromkeys(("md",), "markdown"),
    **dict.fromkeys(("rest", "restructuredtext", "rst"), "rst"),
    **dict.fromkeys(("html+jinja", "html+django", "jinja", "jinja2"), "jinja"),
    **dict.fromkeys(("conf", "cfg"), "ini"),
    **dict.fromkeys(("c++", "cxx"), "cpp"),
    **dict.fromkeys(("text", "txt", "none", "default", "plain", "plaintext", "guess", "output", "no-highlight"), ""),
}


@dataclass
class Document:
    """Texts have their white space folded; formulas have none. Links are (text, absolute address)."""

    tables: list[Grid] = field(default_factory=list)
    code: list[tuple[str, str]] = field(default_factory=list)  # text, language
    headings: list[tuple[int, str]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    inline_code: list[str] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)
    tasks: list[tuple[bool, str]] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)  # alternative text, address
    paragraphs: list[tuple[str, str]] = field(default_factory=list)  # what it stands in, text

    def text(self) -> str:
        """All words, for the word F1; their order is of no account."""
        parts = [text for _, text in self.headings] + [text for _, text in self.paragraphs]
        parts += [text for text, _ in self.code] + self.formulas
        parts += [cell for table in self.tables for row in table for cell in row]
        return " ".join(parts)


def folded(text: str) -> str:
    text = unicodedata.normalize("NFC", text).replace("\u200b", "").replace("\u00ad", "")
    return " ".join(text.split())


def code_text(text: str) -> str:
    return dedent("\n".join(line.rstrip() for line in text.expandtabs(4).split("\n"))).strip("\n")


def tex(text: str) -> str:
    """White space apart, one formula may be written with or without what only sets its style."""
    text = "".join(unescape(text).split())
    text = re.sub(r"^\\begin\{split\}(.*)\\end\{split\}$", r"\1", text)  # Sphinx puts it around several lines
    text = re.sub(r"^\{\\(?:display|text)style(.*)\}$", r"\1", text)
    return text.removeprefix(r"\displaystyle")


def language(info: str) -> str:
    name = info.strip().lower().removeprefix("language-").removeprefix("lang-")
    return _SAME_LANGUAGE.get(name, name)


# -- Markdown ----------------------------------------------------------------------------------------------------------

Resolve = Callable[[str], str]
_BRACKETS = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_FENCE = re.compile(
    r"^ {0,3}((`{3,}|~{3,})[^\n]*\n.*?^ {0,3}\2[`~]* *$|(`{3,}|~{3,})[^\n]*\n.*\Z)", re.MULTILINE | re.DOTALL
)


def _dollars(markdown: str) -> str:
    r"""Formulas between \( and \), or \[ and \], are as good as those between dollars. Code is left as it is."""

    def change(text: str) -> str:
        return _BRACKETS.sub(
            lambda found: f"${found[1].strip()}$" if found[1] else f"\n$$\n{found[2].strip()}\n$$\n", text
        )

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


_TITLED = re.compile(r"^(:::|///)\s*\w[\w-]*\s*(?:\||\[|\s)?\s*(.*?)\]?\s*$")


class MarkdownReader:
    """Reads a document; `resolve` makes addresses of what its links say."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._parser.use(dollarmath_plugin, allow_digits=False, double_inline=True)
        self._parser.use(deflist_plugin).use(footnote_plugin)

    def read(self, markdown: str) -> Document:
        self.out = Document()
        self._blocks(self._parser.parse(_dollars(markdown)))
        return self.out

    def _blocks(self, tokens: Sequence[Token]) -> None:  # noqa: C901, PLR0912 - a kind of token a branch
        out, around, item_is_open = self.out, [""], False
        rows: list[tuple[str, ...]] = []
        cells: list[str] = []
        last, level = "", 0
        for token in tokens:
            kind = token.type
            if kind == "table_open":
                rows = []
            elif kind == "tr_open":
                cells = []
            elif kind == "tr_close":
                rows.append(tuple(cells))
            elif kind == "table_close":
                out.tables.append(tuple(rows))
            elif kind in {"dd_open", "dt_open", "blockquote_open", "footnote_open"}:
                around.append({"dd": "definition", "dt": "term", "bl": "quote", "fo": "footnote"}[kind[:2]])
            elif kind in {"dd_close", "dt_close", "blockquote_close", "footnote_close"}:
                around.pop()
            elif kind == "list_item_open":
                item_is_open = True
            elif kind == "fence":
                info = token.info.strip().strip("{}").split()
                name = next((word.lstrip(".") for word in info if "=" not in word), "")
                out.code.append((code_text(token.content), language(re.split(r"[{,]", name)[0])))
            elif kind == "code_block":
                out.code.append((code_text(token.content), ""))
            elif kind in {"math_block", "math_block_label"}:
                out.formulas.append(tex(token.content))
            elif kind == "inline":
                text = self._inline(token.children or [])
                if last in {"th_open", "td_open"}:
                    cells.append(text)
                elif last == "heading_open":
                    out.headings.append((level, text))
                elif item_is_open:
                    item_is_open = False
                    self._item(text)
                elif text:
                    out.paragraphs.append((around[-1], text))
            if kind == "heading_open":
                level = int(token.tag[1])
            last = kind

    def _item(self, text: str) -> None:
        task = re.match(r"\[([ xX])\] ", text)
        if task:
            text = text[4:]
            self.out.tasks.append((task[1] != " ", text))
        if text:
            self.out.items.append(text)
            self.out.paragraphs.append(("item", text))

    def _inline(self, tokens: Sequence[Token]) -> str:  # noqa: C901 - a kind of token a branch
        out, parts = self.out, []
        links: list[tuple[str, int]] = []
        for token in tokens:
            kind = token.type
            if kind == "text":
                parts.append(token.content)
            elif kind in {"softbreak", "hardbreak"}:
                parts.append(" ")
            elif kind == "code_inline":
                parts.append(token.content)
                out.inline_code.append(folded(token.content))
            elif kind.startswith("math_inline"):
                out.formulas.append(tex(token.content))
                parts.append(FORMULA + tex(token.content) + FORMULA)
            elif kind == "image":
                out.images.append((folded(token.content), self._resolve(str(token.attrs["src"]))))
            elif kind == "html_inline" and re.match(r"<br\b", token.content):
                parts.append(" ")
            elif kind == "link_open":
                links.append((str(token.attrs["href"]), len(parts)))
            elif kind == "link_close":
                href, start = links.pop()
                if text := folded("".join(parts[start:])):
                    out.links.append((text, self._resolve(href)))
        return folded("".join(parts))


_CONTAINER = re.compile(r'^( *)(?:(!!!|\?\?\?\+?)\s*([\w ,-]*?)\s*(?:"(.*)")?|(===)!?\s*"(.*)")\s*$')


def plain_blocks(source: str) -> str:
    """Take away what is around content in the dialects of MkDocs and Docusaurus: admonitions, tabs, details, front
    matter, imports. Their titles become paragraphs, what they hold is not indented any more.
    """
    source = re.sub(r"\A---\n.*?\n---\n", "", source, flags=re.DOTALL)
    source = re.sub(r"<!--.*?-->", "", source, flags=re.DOTALL)
    lines: list[str] = []
    inside: list[int] = []  # how far the content of each open block is indented
    fence = ""
    for written in source.split("\n"):
        stripped, indent = written.strip(), len(written) - len(written.lstrip())
        while inside and stripped and indent < inside[-1]:
            inside.pop()
        line = written[4 * len(inside) :] if inside else written
        if fence:
            fence = "" if stripped.startswith(fence) and not stripped.strip("`~") else fence
        elif mark := re.match(r"(`{3,}|~{3,})", stripped):
            fence = mark[1]
        elif block := _CONTAINER.match(line):
            title = block[4] if block[4] is not None else block[6]
            if title is None:
                title = block[3].split()[0].capitalize() if block[3].split() else ""
            inside.append(indent + 4)
            lines += ["", block[1] + title, ""]
            continue
        elif stripped.startswith((":::", "///")):
            named = _TITLED.match(stripped)
            lines += ["", (named[2] if named else "") or "", ""]
            continue
        elif re.match(r"</?(?:Tabs|TabItem|details)\b", stripped) or re.match(r"import .* from ", stripped):
            label = re.search(r'label="([^"]*)"', stripped)
            lines += ["", label[1] if label else "", ""]
            continue
        elif stripped.startswith("<summary>"):
            line = re.sub("</?summary>", "", line)
        lines.append(line if fence else re.sub(r"\s*\{[:#.][^{}`]*\}\s*$", "", line))
    return "\n".join(lines)


def read_markdown(markdown: str, resolve: Resolve) -> Document:
    return MarkdownReader(resolve).read(markdown)


# -- Sphinx ------------------------------------------------------------------------------------------------------------

_ADMONITIONS = set("attention caution danger error hint important note tip warning admonition seealso".split())
_NOT_SHOWN = set("comment substitution_definition target system_message index raw problematic".split())


class DoctreeReader:
    """Reads a document as Sphinx' XML builder writes it."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def read(self, source: str) -> Document:
        self.out = Document()
        self._walk(Xml.fromstring(source), 0, "")
        return self.out

    def _walk(self, node: Xml.Element, depth: int, around: str) -> None:  # noqa: C901, PLR0912
        out, tag = self.out, node.tag
        if tag in _NOT_SHOWN or "toctree" in node.get("classes", "") or tag in {"compact_paragraph", "desc_signature"}:
            return
        if tag in {"literal_block", "doctest_block"}:
            out.code.append((code_text(all_text(node)), language(node.get("language", ""))))
        elif tag == "math_block":
            out.formulas.append(tex(all_text(node)))
        elif tag == "table":
            self._table(node, depth)
        elif tag == "title" and depth:
            out.headings.append((depth, self._inline(node)))
        elif tag == "term":
            out.paragraphs.append(("term", self._inline(node)))
        elif tag in {"paragraph", "rubric", "caption", "title", "line", "field_name", "attribution"}:
            if text := self._inline(node):
                out.paragraphs.append((around, text))
        elif tag == "image":
            out.images.append((folded(node.get("alt", "")), self._resolve(node.get("uri", ""))))
        elif tag == "list_item":
            first = next(iter(node), None)
            for child in node:
                if child is first and child.tag == "paragraph":
                    if text := self._inline(child):
                        out.items.append(text)
                        out.paragraphs.append(("item", text))
                else:
                    self._walk(child, 0, "item")
        else:
            around = {"footnote": "footnote", "definition": "definition", "block_quote": "quote"}.get(tag, around)
            around = "admonition" if tag in _ADMONITIONS else around
            deeper = depth + 1 if tag == "section" else depth if tag == "document" else 0
            for child in node:
                if child.tag != "label":
                    self._walk(child, deeper, around)

    def _table(self, node: Xml.Element, depth: int) -> None:
        """A spanned place of the grid holds None, which stands for nothing or for the text of its cell once more."""
        for title in node.findall("title"):
            self.out.paragraphs.append(("caption", self._inline(title)))
        rows: list[tuple[str, ...]] = []
        taken: dict[tuple[int, int], str] = {}
        for number, row in enumerate(node.iter("row")):
            cells: list[str] = []
            for entry in row.findall("entry"):
                while (number, len(cells)) in taken:
                    cells.append(taken[number, len(cells)])
                text = self._cell(entry)
                width, height = int(entry.get("morecols", 0)) + 1, int(entry.get("morerows", 0)) + 1
                at = len(cells)
                for down in range(height):
                    for right in range(width):
                        taken[number + down, at + right] = SPANNED + text
                cells += [text, *[SPANNED + text] * (width - 1)]
            while (number, len(cells)) in taken:
                cells.append(taken[number, len(cells)])
            rows.append(tuple(cells))
        self.out.tables.append(tuple(rows))

    def _cell(self, entry: Xml.Element) -> str:
        parts = []
        for part in entry.iter():
            if part.tag in {"paragraph", "literal_block", "math_block", "line", "rubric", "term"}:
                if part.tag == "literal_block":
                    self.out.code.append((code_text(all_text(part)), language(part.get("language", ""))))
                    parts.append(folded(all_text(part)))
                else:
                    parts.append(self._inline(part))
        return folded(" ".join(parts))

    def _inline(self, node: Xml.Element) -> str:
        return folded("".join(self._inline_parts(node)))

    def _inline_parts(self, node: Xml.Element) -> Iterator[str]:
        out = self.out
        yield node.text or ""
        for child in node:
            if child.tag == "math":
                out.formulas.append(tex(all_text(child)))
                yield FORMULA + tex(all_text(child)) + FORMULA
            elif child.tag == "literal":
                out.inline_code.append(folded(all_text(child)))
                yield all_text(child)
            elif child.tag == "image":
                out.images.append((folded(child.get("alt", "")), self._resolve(child.get("uri", ""))))
            elif child.tag == "reference":
                text = folded("".join(self._inline_parts(child)))
                href = child.get("refuri") or ("#" + child.get("refid", "") if child.get("refid") else "")
                if text and href:
                    out.links.append((text, self._resolve(href)))
                yield text
            elif child.tag not in _NOT_SHOWN and child.tag != "footnote_reference":
                yield from self._inline_parts(child)
            yield child.tail or ""


FORMULA = "\x01"  # around a formula in a text
SPANNED = "\x00"  # before the text of a cell, at the other places of the grid that it covers


def all_text(node: Xml.Element) -> str:
    return "".join(node.itertext())


def read_doctree(source: str, resolve: Resolve) -> Document:
    return DoctreeReader(resolve).read(source)


def resolver(page_url: str, moved: Callable[[str], str] = lambda href: href) -> Resolve:
    """`moved` turns the path of a source file, as a link names it, into that of its page."""

    def resolve(href: str) -> str:
        url, fragment = urldefrag(unquote(urljoin(page_url, moved(href))))
        url = url.removesuffix("index.html").removesuffix(".html").rstrip("/")
        return f"{url}#{fragment}" if fragment else url

    return resolve


# -- Comparing ---------------------------------------------------------------------------------------------------------


@dataclass
class Score:
    """Counts over pages; `claimed` is how many things of this kind the output has, true or not."""

    wanted: int = 0
    found: int = 0
    claimed: int = 0

    @property
    def recall(self) -> float:
        return self.found / self.wanted if self.wanted else 0.0

    @property
    def precision(self) -> float:
        return self.found / self.claimed if self.claimed else 0.0


SCORES = ("tables", "code", "languages", "headings", "links", "items", "inline code", "formulas", "tasks", "images")


class Scores:
    """Adds up pages of one extractor; `misses` names what was not found, for a person to look at."""

    def __init__(self) -> None:
        self.by_name: dict[str, Score] = {name: Score() for name in SCORES}
        self.partial_tables = self.untrue_tables = 0
        self.paragraphs: dict[str, Score] = {}
        self.words = [0, 0, 0]  # of both, of the truth, of the output
        self.misses: list[tuple[str, str, object]] = []

    def add(self, page: str, truth: Document, output: Document, shown: Shown) -> None:
        """What the built page does not show as what it is in the source was never to be found."""
        there = shown
        tables = [grid for grid in truth.tables if there.has(*(cell for row in grid for cell in row), within="table")]
        self._tables(page, tables, output)
        self._code(page, [code for code in truth.code if there.is_listing(code[0])], output.code)
        headings = [one for one in truth.headings if there.has(one[1], within="heading")]
        self._multiset("headings", page, headings, [(level, text.rstrip(" ¶#")) for level, text in output.headings])
        links = [one for one in truth.links if there.has(one[0]) and not _is_bare(one)]
        self._multiset("links", page, links, [one for one in output.links if not _is_bare(one)])
        self._multiset("items", page, [one for one in truth.items if there.has(one, within="li")], output.items)
        self._multiset("inline code", page, [one for one in truth.inline_code if there.has(one)], output.inline_code)
        self._multiset("formulas", page, truth.formulas, output.formulas)
        self._multiset("tasks", page, [one for one in truth.tasks if there.has(one[1])], output.tasks)
        alternatives = [alt for alt, _ in truth.images if alt]
        self._multiset("images", page, alternatives, [alt for alt, _ in output.images])
        written = Shown({"": "".join(output.text().split())})
        for around, text in truth.paragraphs:
            if there.has(text):
                score = self.paragraphs.setdefault(around or "plain", Score())
                score.wanted += 1
                score.found += written.has(text)
                if not written.has(text):
                    self.misses.append((f"paragraph {around or 'plain'}", page, text))
        wanted, got = Counter(re.findall(r"\w+", truth.text())), Counter(re.findall(r"\w+", output.text()))
        self.words = [
            a + b for a, b in zip(self.words, [(wanted & got).total(), wanted.total(), got.total()], strict=True)
        ]

    @property
    def word_f1(self) -> float:
        both, wanted, got = self.words
        return 2 * both / (wanted + got) if both else 0.0

    def _multiset(self, name: str, page: str, wanted: Sequence[object], got: Sequence[object]) -> None:
        both = Counter(wanted) & Counter(got)
        score = self.by_name[name]
        score.wanted += len(wanted)
        score.found += both.total()
        score.claimed += len(got)
        self.misses += [(name, page, one) for one in (Counter(wanted) - both).elements()]

    def _code(self, page: str, wanted: Sequence[tuple[str, str]], got: Sequence[tuple[str, str]]) -> None:
        self._multiset("code", page, [text for text, _ in wanted], [text for text, _ in got])
        named = Counter(one for one in wanted if one[1])
        right = named & Counter(got)
        score = self.by_name["languages"]
        score.wanted += named.total()
        score.found += right.total()
        score.claimed += sum(1 for _, name in got if name)
        self.misses += [("languages", page, one) for one in (named - right).elements()]

    def _tables(self, page: str, wanted: Sequence[Grid], output: Document) -> None:
        """A table is whole with every row and cell in order; partial where the output has some of its body."""
        left = list(output.tables)
        score = self.by_name["tables"]
        score.wanted += len(wanted)
        score.claimed += len(left)
        broken = []
        for grid in wanted:
            whole = next((one for one in left if _is_same(grid, one)), None)
            if whole is None:
                broken.append(grid)
            else:
                left.remove(whole)
                score.found += 1
        rows = {_row(row) for one in left for row in one}
        for grid in broken:
            some = any(_row(row) in rows for row in grid if any(row))
            self.partial_tables += some
            self.misses.append(("tables partial" if some else "tables missing", page, grid))
        self.untrue_tables += len(left)


class Shown:
    """The text of a page without white space, and that of its tables, headings and items, by their names."""

    def __init__(self, texts: dict[str, str], listings: Iterable[str] = ()) -> None:
        self._texts = texts
        self._listings = set(listings)

    def has(self, *parts: str, within: str = "") -> bool:
        text = self._texts[within]
        return all(piece in text for part in parts for piece in _pieces(part))

    def is_listing(self, text: str) -> bool:
        return "".join(text.split()) in self._listings


def _pieces(text: str) -> list[str]:
    """What is between the formulas of a text, which look like anything on a page; of a spanned place nothing."""
    return [] if text.startswith(SPANNED) else ["".join(part.split()) for part in text.split(FORMULA)[::2]]


def _is_bare(link: tuple[str, str]) -> bool:
    """An address that stands for itself: some generators make a link of it."""
    return re.match(r"(https?://|www\.|mailto:)", link[0]) is not None or "@" in link[0]


def _row(row: Iterable[str]) -> str:
    return "|".join(_cell(cell) for cell in row if cell and not cell.startswith(SPANNED))


def _cell(text: str) -> str:
    return folded(re.sub(r"(^| )(?:[-*•] |\d+\. )", r"\1", text.replace(SPANNED, "")))


def _is_same(truth: Grid, output: Grid) -> bool:
    """Whether a grid says the same: empty rows are none, and a spanned place may be empty or say its text again."""
    wanted = [row for row in truth if any(cell.replace(SPANNED, "") for cell in row)]
    got = [row for row in output if any(row)]
    if len(wanted) != len(got):
        return False
    return all(_same_row(a, b) for a, b in zip(wanted, got, strict=True))


def _same_row(truth: Sequence[str], output: Sequence[str]) -> bool:
    width = max(len(truth), len(output))
    for cell, shown in zip(
        [*truth, *[""] * (width - len(truth))], [*output, *[""] * (width - len(output))], strict=True
    ):
        spanned = cell.startswith(SPANNED)
        if not (spanned and not shown) and _cell(cell) != _cell(shown):
            return False
    return True
