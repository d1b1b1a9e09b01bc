"""The versions in the images are complete, and such as the project allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.dockerfile import DOCKERFILE, pinned_versions, requirements_in, stages
from tests.e2e.crawling import ROOT

README = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
# The command that makes the file says of what, and for which Python.
(_SOURCES, PYTHON) = re.search(r"uv pip compile (.*?) --python-version (\S+)", README.replace("\\\n", "")).groups()
SOURCES = [ROOT / name for name in _SOURCES.split()]
IMAGE = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.0", "sys_platform": "linux", "extra": ""}
IMAGE |= {"platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"}
IMAGE |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}


def needed(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(IMAGE)


def requirements_of_pinned() -> Iterator[tuple[str, Requirement]]:
    """What a package that is installed here in the version of the images asks for; of other versions we cannot tell."""
    for name, version in pinned_versions().items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if found.version == str(version):
            yield from ((name, Requirement(line)) for line in found.requires or ())


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_requirement_has_one_version_that_it_allows(file):
    pins = pinned_versions()
    for requirement in filter(needed, requirements_in(file)):
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_what_the_packages_need_has_a_version_too():
    pins = pinned_versions()
    for name, requirement in requirements_of_pinned():
        if needed(requirement):
            needs = f"{name} needs {requirement}"
            assert canonicalize_name(requirement.name) in pins, needs
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)], prereleases=True), needs


def test_the_versions_are_for_the_python_of_the_images_and_all_their_requirements():
    bases = {base for _name, base, _steps in stages()} - {name for name, _base, _steps in stages()}
    assert [base.partition("-")[0] for base in bases] == [f"python:{PYTHON}"]
    assert set(DOCKERFILE.parent.glob("requirements*.txt")) | {ROOT / "requirements.txt"} == set(SOURCES)
