"""Reads the required packages from requirements.txt; what else there is to say stands in pyproject.toml.

A comment "# extra: NAME ..." begins the packages that `pip install "llmcrawler[NAME]"` adds; [all] adds them all.
"""

from pathlib import Path

from setuptools import setup


def packages_by_extra(file: Path) -> dict[str, list[str]]:
    """Return the packages that a file lists; those that are always needed have the name ""."""
    packages: dict[str, list[str]] = {"": []}
    extra = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        package, _, comment = line.partition("#")
        if not package and comment.startswith(" extra: "):
            extra = comment.split()[1]
        if package.strip():
            packages.setdefault(extra, []).append(package.strip())
    return packages


required = packages_by_extra(Path(__file__).with_name("requirements.txt"))
always = required.pop("")
setup(
    install_requires=always,
    extras_require={**required, "all": [one for packages in required.values() for one in packages]},
)
