"""deploy/constraints.txt: the versions of all packages in the images; and the files that say which are allowed."""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.e2e.crawling import ROOT

CONSTRAINTS = ROOT / "deploy" / "constraints.txt"


def lines_of(file: Path) -> list[str]:
    return [line for line in (line.partition("#")[0].strip() for line in file.read_text().splitlines()) if line]


def requirements_in(file: Path) -> list[Requirement]:
    return [Requirement(line) for line in lines_of(file)]


def pinned_versions() -> dict[str, Version]:
    """By name, in its canonical spelling."""
    pairs = (line.split("==") for line in lines_of(CONSTRAINTS))
    return {canonicalize_name(name): Version(version) for name, version in pairs}
