"""Writes the sources of a made-up documentation with each construct in the hundreds, for several generators.

A page is a list of blocks; a dialect writes them as MkDocs, Sphinx, Docusaurus or plain GitHub Markdown wants it.
Text within blocks is Markdown with `code`, [links](page.md), **strong** and *emphasis*, and $formulas$.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

_WORDS = """
adapter archive balance batch border bridge buffer cabinet canvas carrier channel circuit cluster column compass copper
counter crystal current cursor decoder delivery device digest drawer driver engine facade factor filter folder forest
freight garden gateway glacier granite handler harbour hinge horizon index island journal kernel ladder lantern layer
ledger limit lumber magnet margin matrix meadow metal mirror module motor needle network nozzle object orchard outlet
packet panel parcel pattern pebble pillar pipeline planet pocket portal powder prism queue quarry rafter record region
relay reservoir ribbon river roller router saddle sample scanner schema sector sensor shelter shuttle signal socket
spindle station storage stream switch table tensor terminal thread timber token tower tractor tunnel turbine valley
valve vector vessel voltage wagon warehouse weather window winter yarn zenith
""".split()
_VERBS = (
    "accepts checks closes collects converts counts drops keeps loads measures moves opens reads rejects sends".split()
)
_CODE = {
    "python": 'import {a}\n\n\ndef {b}(value: int) -> str:\n    """Return the {c}."""\n'
    "    if value < {n} and value > 0:\n"
    '        return f"{{value}} | {d}"\n\n    return {a}.{c}(value) ** 2\n',
    "javascript": 'const {a} = require("{b}");\n\n{a}.on("{c}", (event) => {{\n'
    "  if (event.count <= {n} && !event.done) {{\n"
    "    return `${{event.{d}}} of {n}`;\n  }}\n}});\n",
    "typescript": "interface {A} {{\n  {b}: string;\n  {c}?: Array<{A}>;\n}}\n\n"
    "export const {d} = (one: {A}): number => one.{b}.length % {n};\n",
    "bash": "{a} --{b}={n} *.{c} | sort -u > {d}.txt\n",
    "json": '{{\n  "{a}": {{"{b}": {n}, "{c}": [true, null]}},\n  "{d}": "a < b & c"\n}}\n',
    "yaml": '{a}:\n  - {b}: {n}\n    {c}: "# no comment"\n\n  - {d}: yes\n',
    "html": '<div class="{a}">\n  <p id="{b}">{c} &amp; {d}</p>\n</div>\n',
    "css": '.{a} > #{b}::before {{\n  content: "{c}";\n  margin: {n}px auto;\n}}\n',
    "sql": "SELECT {a}, COUNT(*) AS {b}\nFROM {c}\nWHERE {d} >= {n}\nGROUP BY 1;\n",
    "c": "#include <{a}.h>\n\nint {b}(int *{c}) {{\n\treturn *{c} << {n}; /* {d} */\n}}\n",
    "rust": "fn {a}<T: Into<u32>>({b}: T) -> Option<u32> {{\n"
    "    // {c}\n    Some({b}.into() + {n}).filter(|{d}| *{d} > 0)\n}}\n",
    "go": 'package {a}\n\nfunc {b}({c} chan<- int) error {{\n\t{c} <- {n}\n\treturn fmt.Errorf("%d {d}", {n})\n}}\n',
    "": "{a}/\n|-- {b}\n|   `-- {c}.txt\n`-- {d} ({n})\n",
}
_FORMULAS = (
    r"{x}_{n} = \frac{{{y}^2 + {n}}}{{2{z}}}",
    r"\sum_{{i=1}}^{{{n}}} {x}_i \le {y}",
    r"\int_0^{{{n}}} e^{{-{x}^2}} \, d{x} = {y}",
    r"\mathbf{{{x}}}^{{T}}{y} \neq {n}",
    r"\sqrt{{{x}^2 + {y}^{{{n}}}}} < \left( {z} \right)",
    r"{x} \in \{{{y}, {z}, {n}\}}",
    r"P({x} \mid {y}) = {n}{z}",
    r"\lim_{{{x} \to {n}}} f({x}) = \infty",
)
_BLOCK_FORMULAS = (
    *_FORMULAS,
    "\\begin{{aligned}}\n{x} &= {y} + {n} \\\\\n{z} &= {x}^2\n\\end{{aligned}}",
    "A = \\begin{{pmatrix}} {x} & {n} \\\\ {y} & {z} \\end{{pmatrix}}",
)


@dataclass(frozen=True)
class Block:
    """`kind` says which of the others mean something."""

    kind: str
    text: str = ""
    name: str = ""  # a language, the kind of an admonition
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[tuple[str, tuple[Block, ...]], ...] = ()  # tabs, definitions, items: text and what belongs to it
    has_numbers: bool = False


@dataclass
class Maker:
    """Makes the pages, the same ones each time."""

    pages: int = 30
    random: random.Random = field(default_factory=lambda: random.Random(18))

    def words(self, least: int, most: int) -> str:
        return " ".join(self.random.choices(_WORDS, k=self.random.randint(least, most)))

    def sentence(self) -> str:
        chosen = self.random
        start = f"The {self.words(1, 3)} {chosen.choice(_VERBS)} the {self.words(2, 5)} when its {self.words(1, 2)} is"
        return f"{start} {chosen.choice(['full', 'empty', 'late', 'open', 'old'])} and the {self.words(2, 4)} remains."

    def rich(self) -> str:
        """A sentence with a mark or two in it."""
        chosen, word = self.random, self.words(1, 1)
        mark = chosen.choice(
            (
                f"See `{word}.{self.words(1, 1)}` and `--{word}`.",
                f"It is **{self.words(1, 2)}**, not *{self.words(1, 1)}*.",
                f"More in [{self.words(2, 3)}](page-{chosen.randrange(self.pages):02}.md).",
                f"Compare [the {word} manual](https://example.org/{word}/?a=1).",
                f"There ${self.formula()}$ holds.",
                f"Call `{word}({chosen.randrange(99)})` with [`{word}`](page-{chosen.randrange(self.pages):02}.md).",
            )
        )
        return f"{self.sentence()} {mark}"

    def paragraph(self) -> Block:
        return Block("paragraph", " ".join(self.rich() for _ in range(self.random.randint(1, 4))))

    def formula(self, block: bool = False) -> str:
        x, y, z = self.random.sample("abcdefghknpqrtuvwxyz", 3)
        shape = self.random.choice(_BLOCK_FORMULAS if block else _FORMULAS)
        return shape.format(x=x, y=y, z=z, n=self.random.randint(2, 99))

    def code(self, language: str) -> Block:
        a, b, c, d = self.random.sample(_WORDS, 4)
        text = _CODE[language].format(a=a, b=b, c=c, d=d, A=a.capitalize(), n=self.random.randint(2, 99))
        return Block("code", text.rstrip("\n"), language, has_numbers=self.random.random() < 0.3)

    def items(self, depth: int = 0) -> tuple[tuple[str, tuple[Block, ...]], ...]:
        items = []
        for _ in range(self.random.randint(2, 6)):
            text = self.random.choice((self.words(1, 3), self.sentence(), self.rich()))
            nested: tuple[Block, ...] = ()
            if depth < 2 and self.random.random() < 0.25:
                nested = (Block(self.random.choice(("list", "numbers")), parts=self.items(depth + 1)),)
            items.append((text, nested))
        return tuple(items)

    def table(self) -> Block:
        chosen = self.random
        head: tuple[str, ...]
        rows: list[tuple[str, ...]]
        shape = chosen.choice(("options", "numbers", "matrix", "sizes", "one row", "long", "words", "formulas"))
        if shape == "options":
            head = ("Option", "Type", "Default", "Description")
            rows = [
                (f"`{self.words(1, 1)}_{n}`", chosen.choice(("`int`", "`str`", "`bool`")), f"`{n}`", self.rich())
                for n in range(chosen.randint(2, 8))
            ]
        elif shape in {"numbers", "long"}:
            head = ("Name", "Count", "Share")
            size = chosen.randint(20, 60) if shape == "long" else chosen.randint(3, 9)
            rows = [(self.words(1, 2), str(chosen.randrange(9999)), f"{chosen.random():.2f}%") for _ in range(size)]
        elif shape == "matrix":
            head = ("Feature", *(self.words(1, 1).capitalize() for _ in range(chosen.randint(3, 6))))
            rows = [
                (self.words(1, 2), *(chosen.choice(("yes", "no", "✓", "")) for _ in head[1:]))
                for _ in range(chosen.randint(3, 7))
            ]
        elif shape == "sizes":
            head = ("Place", "Doors", "Date")
            rows = [
                (str(chosen.randrange(9)), str(chosen.randrange(9)), f"2024-0{chosen.randint(1, 9)}-11")
                for _ in range(4)
            ]
        elif shape == "one row":
            head = (self.words(1, 2).capitalize(), self.words(1, 1).capitalize())
            rows = [(self.words(1, 3), str(chosen.randrange(999)))]
        elif shape == "formulas":
            head = ("Symbol", "Meaning")
            rows = [(f"${self.formula()}$", self.words(2, 6)) for _ in range(chosen.randint(2, 5))]
        else:
            head = ("Term", "Explanation")
            rows = [
                (f"**{self.words(1, 1)}**", f"{self.sentence()} {self.rich()}") for _ in range(chosen.randint(2, 5))
            ]
        return Block("table", rows=(head, *rows))

    def releases(self, number: int) -> Block:
        """A table as many pages have it: the same header and some of the same rows."""
        rows = [
            (f"{n}.x", f"20{10 + n}-04-0{n}", "supported" if n > 6 else "end of life", f"{n}.{n}")
            for n in range(9, 1, -1)
        ]
        first = number % 5
        return Block("table", rows=(("Release", "Date", "Status", "Latest"), *rows[first : first + 3 + number % 3]))

    def page(self, number: int) -> list[Block]:
        chosen = self.random
        title = f"{self.words(1, 2).capitalize()} {number:02}"
        blocks = [Block("heading", title, level=1), self.paragraph()]
        makers = [self.table] * 7 + [self.formula_block] * 4 + [self.list_block] * 5 + [self.admonition] * 3
        makers += [self.tabs, self.tabs, self.details, self.definitions, self.tasks, self.image, self.quote]
        makers += [partial(self.code, language) for language in _CODE]
        chosen.shuffle(makers)
        for position, make in enumerate(makers):
            if position % 4 == 0:
                level = 2 if position % 8 == 0 else 3
                name = f"{self.words(1, 4).capitalize()} {number}.{position}"
                blocks.append(Block("heading", chosen.choice((name, f"{name} `{self.words(1, 1)}`")), level=level))
            if chosen.random() < 0.7:
                blocks.append(self.paragraph())
            blocks.append(make())
        blocks += [Block("heading", "Releases", level=2), self.releases(number), self.paragraph()]
        return [*blocks, Block("footnote", self.sentence(), name=str(number + 1))]

    def formula_block(self) -> Block:
        return Block("formula", self.formula(block=True))

    def list_block(self) -> Block:
        return Block(self.random.choice(("list", "numbers")), parts=self.items())

    def admonition(self) -> Block:
        inside = (
            self.paragraph(),
            self.random.choice((self.paragraph, self.list_block, lambda: self.code("python")))(),
        )
        return Block(
            "admonition",
            self.words(2, 3).capitalize(),
            self.random.choice(("note", "warning", "tip")),
            parts=(("", inside),),
        )

    def tabs(self) -> Block:
        chosen = self.random
        parts: tuple[tuple[str, tuple[Block, ...]], ...]
        if chosen.random() < 0.5:
            languages = ("python", "javascript", "bash")
            parts = tuple((name.capitalize(), (self.code(name),)) for name in languages)
        else:
            parts = tuple((self.words(1, 2).capitalize(), (self.paragraph(), self.table())) for _ in range(2))
        return Block("tabs", parts=parts)

    def details(self) -> Block:
        return Block("details", self.words(2, 4).capitalize(), parts=(("", (self.paragraph(), self.code("json"))),))

    def definitions(self) -> Block:
        parts: list[tuple[str, tuple[Block, ...]]]
        parts = [(self.words(1, 2), (Block("paragraph", self.rich()),)) for _ in range(self.random.randint(2, 5))]
        return Block("definitions", parts=tuple(parts))

    def tasks(self) -> Block:
        parts = [(f"[{self.random.choice('x ')}] {self.words(2, 5)}", ()) for _ in range(self.random.randint(3, 6))]
        return Block("tasks", parts=tuple(parts))

    def image(self) -> Block:
        return Block("image", f"Diagram of the {self.words(2, 3)}", name="diagram.png")

    def quote(self) -> Block:
        return Block("quote", self.rich())

    def site(self) -> dict[str, list[Block]]:
        """Name -> blocks; the first is the front page, which links to the others."""
        pages = {f"page-{number:02}": self.page(number) for number in range(self.pages)}
        links = tuple((f"[{blocks[0].text}]({name}.md)", ()) for name, blocks in pages.items())
        front = [Block("heading", "A made-up manual", level=1), self.paragraph(), Block("list", parts=links)]
        return {"index": front, **pages}


# -- Dialects ----------------------------------------------------------------------------------------------------------


def _indented(text: str, by: str) -> str:
    return "\n".join(by + line if line else line for line in text.split("\n"))


class MarkdownDialect:
    """GitHub's Markdown; the others say what they have more of."""

    suffix = ".md"
    indent = "    "  # of what stands in an item
    has_definitions = False
    has_footnotes = True

    def page(self, blocks: Sequence[Block]) -> str:
        return self.blocks(blocks) + "\n"

    def blocks(self, blocks: Sequence[Block]) -> str:
        return "\n\n".join(filter(None, (self.block(one) for one in blocks)))

    def block(self, block: Block) -> str:  # noqa: C901, PLR0911 - a kind of block a branch
        kind = block.kind
        if kind == "heading":
            return "#" * block.level + f" {block.text}"
        if kind == "paragraph":
            return block.text
        if kind == "code":
            return self.code(block)
        if kind == "formula":
            return f"$$\n{block.text}\n$$"
        if kind == "table":
            head, *rows = (" | ".join(self.cell(cell) for cell in row) for row in block.rows)
            return "\n".join([f"| {head} |", "|" + " --- |" * len(block.rows[0]), *(f"| {row} |" for row in rows)])
        if kind in {"list", "numbers", "tasks"}:
            return self.items(block)
        if kind == "image":
            return f"![{block.text}]({block.name})"
        if kind == "quote":
            return f"> {block.text}"
        if kind == "definitions":
            return self.definitions(block)
        if kind == "footnote":
            return f"A last word.[^{block.name}]\n\n[^{block.name}]: {block.text}" if self.has_footnotes else ""
        return self.container(block)

    def cell(self, text: str) -> str:
        return text.replace("|", r"\|")

    def code(self, block: Block) -> str:
        return f"```{block.name}\n{block.text}\n```"

    def items(self, block: Block) -> str:
        lines = []
        for number, (text, nested) in enumerate(block.parts, 1):
            mark = f"{number}. " if block.kind == "numbers" else "- "
            lines.append(mark + text)
            lines += [_indented(self.block(one), self.indent) for one in nested]
        return "\n".join(lines)

    def definitions(self, block: Block) -> str:
        return (
            "\n\n".join(f"{term}\n:   {self.blocks(inside)}" for term, inside in block.parts)
            if self.has_definitions
            else ""
        )

    def container(self, block: Block) -> str:
        """Admonitions, tabs, details."""
        inside = [self.blocks(inside) for _, inside in block.parts]
        if block.kind == "tabs":
            return "\n\n".join(f"**{label}**\n\n{text}" for (label, _), text in zip(block.parts, inside, strict=True))
        if block.kind == "details":
            return f"<details>\n<summary>{block.text}</summary>\n\n{inside[0]}\n\n</details>"
        return f"**{block.text}**\n\n{inside[0]}"


class MkDocsDialect(MarkdownDialect):
    has_definitions = True

    def code(self, block: Block) -> str:
        numbers = ' linenums="1"' if block.has_numbers and block.name else ""
        return f"``` {block.name}{numbers}\n{block.text}\n```" if block.name else f"```\n{block.text}\n```"

    def container(self, block: Block) -> str:
        inside = [_indented(self.blocks(inside), "    ") for _, inside in block.parts]
        if block.kind == "tabs":
            return "\n\n".join(f'=== "{label}"\n\n{text}' for (label, _), text in zip(block.parts, inside, strict=True))
        if block.kind == "details":
            return f'??? note "{block.text}"\n\n{inside[0]}'
        return f'!!! {block.name} "{block.text}"\n\n{inside[0]}'


class PlainMkDocsDialect(MkDocsDialect):
    """Python-Markdown alone: no tabs, no details."""

    def container(self, block: Block) -> str:
        return super().container(block) if block.kind == "admonition" else ""

    def items(self, block: Block) -> str:
        return super().items(block) if block.kind != "tasks" else ""

    def code(self, block: Block) -> str:
        return MarkdownDialect.code(self, block)


class DocusaurusDialect(MarkdownDialect):
    suffix = ".mdx"

    def page(self, blocks: Sequence[Block]) -> str:
        imports = "import Tabs from '@theme/Tabs';\nimport TabItem from '@theme/TabItem';\n\n"
        front, _, rest = self.blocks(blocks).partition("\n\n")
        return f"{front}\n\n{imports}{rest}\n"

    def code(self, block: Block) -> str:
        numbers = " showLineNumbers" if block.has_numbers and block.name else ""
        return f"```{block.name}{numbers}\n{block.text}\n```"

    def cell(self, text: str) -> str:
        return re.sub(r"(?<=\$)[^$]*(?=\$)", lambda found: found[0].replace("|", r"\|"), text)

    def container(self, block: Block) -> str:
        inside = [self.blocks(inside) for _, inside in block.parts]
        if block.kind == "tabs":
            parts = zip(block.parts, inside, strict=True)
            items = "\n".join(
                f'<TabItem value="{n}" label="{label}">\n\n{text}\n\n</TabItem>'
                for n, ((label, _), text) in enumerate(parts)
            )
            return f"<Tabs>\n{items}\n</Tabs>"
        if block.kind == "details":
            return f"<details>\n<summary>{block.text}</summary>\n\n{inside[0]}\n\n</details>"
        return f":::{block.name}[{block.text}]\n\n{inside[0]}\n\n:::"


class SphinxDialect:
    suffix = ".rst"

    def page(self, blocks: Sequence[Block]) -> str:
        return self.blocks(blocks) + "\n"

    def blocks(self, blocks: Sequence[Block]) -> str:
        return "\n\n".join(filter(None, (self.block(one) for one in blocks)))

    def block(self, block: Block) -> str:  # noqa: C901, PLR0911, PLR0912 - a kind of block a branch
        kind, text = block.kind, inline_rst(block.text)
        if kind == "heading":
            line = "=-~"[block.level - 1] * (len(text) + 2)
            return f"{line}\n{text}\n{line}" if block.level == 1 else f"{text}\n{line}"
        if kind == "paragraph":
            return text
        if kind == "code":
            if not block.name:
                return "::\n\n" + _indented(block.text, "    ")
            numbers = "   :linenos:\n" if block.has_numbers else ""
            return f".. code-block:: {block.name}\n{numbers}\n{_indented(block.text, '   ')}"
        if kind == "formula":
            return f".. math::\n\n{_indented(block.text, '   ')}"
        if kind == "table":
            return "\n".join(self.table(block))
        if kind in {"list", "numbers", "tasks"}:
            return "\n".join(self.items(block)).rstrip("\n")
        if kind == "image":
            return f".. image:: {block.name}\n   :alt: {block.text}"
        if kind == "quote":
            return f"..\n\n    {text}"
        if kind == "definitions":
            return "\n".join(f"{term}\n{_indented(self.blocks(inside), '   ')}" for term, inside in block.parts)
        if kind == "footnote":
            return f"A last word. [#n{block.name}]_\n\n.. [#n{block.name}] {text}"
        inside = [_indented(self.blocks(inside), "   ") for _, inside in block.parts]
        if kind == "tabs":
            parts = zip(block.parts, inside, strict=True)
            tabs = "\n\n".join(f".. tab-item:: {label}\n\n{part}" for (label, _), part in parts)
            return f".. tab-set::\n\n{_indented(tabs, '   ')}"
        if kind == "details":
            return f".. dropdown:: {text}\n\n{inside[0]}"
        return f".. admonition:: {text}\n   :class: {block.name}\n\n{inside[0]}"

    def table(self, block: Block) -> Iterator[str]:
        """Half of them as grids with a cell that spans two columns or two rows, half as lists of lists."""
        rows = [[inline_rst(cell) for cell in row] for row in block.rows]
        if len(rows[0]) != 3 or len(rows) > 12:
            yield ".. list-table::\n   :header-rows: 1\n"
            for row in rows:
                for at, cell in enumerate(row):
                    yield f"   {'  ' if at else '* '}- {cell}"
            return
        widths = [max(len(row[at]) for row in rows) for at in range(3)]
        line = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        yield line
        for number, row in enumerate(rows):
            cells = [f" {cell.ljust(width)} " for cell, width in zip(row, widths, strict=True)]
            is_last = number == len(rows) - 1
            if is_last:  # its first two cells are one
                yield f"|{(cells[0] + ' ' + ' ' * len(cells[1]))}|{cells[2]}|"
                yield "+" + "-" * (widths[0] + widths[1] + 5) + "+" + "-" * (widths[2] + 2) + "+"
                continue
            yield "|" + "|".join(cells) + "|"
            below = line.replace("-", "=") if number == 0 else line
            if number == len(rows) - 2:
                below = line
            if number == 1 and len(rows) > 4:  # its last cell goes on in the next row
                below = line[: -widths[2] - 4] + "+" + " " * (widths[2] + 2) + "|"
                rows[2][2] = ""
            yield below

    def items(self, block: Block) -> Iterator[str]:
        for text, nested in block.parts:
            mark = "#. " if block.kind == "numbers" else "- "
            yield mark + inline_rst(re.sub(r"^\[[ x]\] ", "", text))
            for one in nested:
                yield "\n" + _indented("\n".join(self.items(one)), " " * len(mark)) + "\n"


_INLINE = re.compile(r"\[`?([^]`]*)`?\]\(([\w-]+)\.md\)|\[([^]]*)\]\((http[^)]*)\)|\$([^$]+)\$|`([^`]+)`")


def inline_rst(text: str) -> str:
    def change(found: re.Match[str]) -> str:
        if found[2]:
            return f":doc:`{found[1]} <{found[2]}>`"
        if found[4]:
            return f"`{found[3]} <{found[4]}>`__"
        return f":math:`{found[5]}`" if found[5] else f"``{found[6]}``"

    return _INLINE.sub(change, text)
