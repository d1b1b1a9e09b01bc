"""What the documentation names of the code is there: files, folders, modules, and what is in them."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from llmcrawler.errors import ConfigError

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "llmcrawler"
PAGES = [
    page
    for place in ("docs/*.md", "README.md", "CONTRIBUTING.md", "deploy/**/*")
    for page in sorted(ROOT.glob(place))
    if page.is_file()
]
# These are about the code, so that their short paths are meant too: `crawl/job.py`, `urls/`, a class's name.
ABOUT_THE_CODE = ("architecture.md", "CONTRIBUTING.md")

_PATH = re.compile(r"(?<![\w./-])llmcrawler/[\w./-]*\w/?")
_DOTTED = re.compile(r"(?<![\w./-])llmcrawler(?:\.[A-Za-z_]\w*)+")
_CODE = re.compile(r"`([^`\n]+)`|(?<=[\"\s>])((?:\w+/)+(?:\w+\.py)?)(?=[:\s\"])")
_STAT = re.compile(r"\"llmcrawler/(\w+)")  # stats are named like paths
_SHORT_PATH = re.compile(r"(?:[\w.-]+/)*[\w.-]+(?:\.py|/)")
_CLASS = re.compile(r"(?:[A-Z]+[a-z0-9]+){2,}")

CODE = "\n".join(module.read_text(encoding="utf-8") for module in PACKAGE.rglob("*.py"))
STATS = set(_STAT.findall(CODE))


def short_names(page: Path) -> Iterator[str]:
    for code, bare in _CODE.findall(page.read_text(encoding="utf-8")):
        yield code or bare


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_paths_and_modules_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = [path for path in _PATH.findall(text) if path.split("/")[1] not in STATS]
    assert not [path for path in paths if not (ROOT / path).exists()]
    for name in _DOTTED.findall(text):
        with suppress(ConfigError):  # it is there, and the extra that it needs is not
            pkgutil.resolve_name(name)  # raises where a module, or a name in it, is not there


@pytest.mark.parametrize("name", ABOUT_THE_CODE)
def test_the_pages_about_the_code_name_files_and_classes_that_are_there(name: str) -> None:
    (page,) = (page for page in PAGES if page.name == name)
    named = set(short_names(page))
    paths = {one for one in named if _SHORT_PATH.fullmatch(one)}
    assert len(paths) > 10
    assert not [path for path in paths if not (PACKAGE / path).exists() and not (ROOT / path).exists()]
    classes = {one for one in named if _CLASS.fullmatch(one)}
    assert classes
    assert not classes - set(re.findall(r"^class (\w+)", CODE, re.MULTILINE))


def test_architecture_says_what_every_entry_of_the_package_is_for() -> None:
    (page,) = (page for page in PAGES if page.name == "architecture.md")
    entries = {path.name + "/" * path.is_dir() for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    told = {code for row in rows for code, _bare in _CODE.findall(row.split("|")[1])}
    assert not entries - told
