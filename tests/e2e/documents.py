"""The blocks of code in docs/: files that a reader makes, and commands that a reader types. And where its links lead.

A fence says what its block is: "sh" is run as it stands, "sh not-run" cannot be here; with a name after the language
("json product.json") it is that file, or a block that a test asks for by its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.crawling import ROOT

DOCS = ROOT / "docs"
NOT_RUN = "not-run"
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    name: str
    text: str

    @property
    def is_file(self) -> bool:
        return "." in self.name

    @property
    def is_run(self) -> bool:
        return self.language == "sh" and not self.name


def blocks_of(page: Path) -> list[Block]:
    return [Block(language, name, text) for language, name, text in _FENCE.findall(page.read_text(encoding="utf-8"))]


def block(page: str, name: str) -> str:
    (text,) = (one.text for one in blocks_of(DOCS / page) if one.name == name)
    return text


def relative_links_of(page: Path) -> list[tuple[str, str]]:
    """Path, empty for the page itself, and heading, empty for none."""
    return _LINK.findall(page.read_text(encoding="utf-8"))


def anchors_of(page: Path) -> set[str]:
    """Headings as GitHub names them in addresses."""
    prose = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(prose)}
