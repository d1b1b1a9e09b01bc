"""Reads deploy/Dockerfile and the files of requirements that its steps name. Nothing of them is executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from dockerfile_parse import DockerfileParser
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.e2e.crawling import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
Step = tuple[str, str]  # an instruction, and what follows it


def stages() -> Iterator[tuple[str, str, list[Step]]]:
    """Yield name, base and steps of each stage."""
    with DOCKERFILE.open("rb") as file:
        steps = [(step["instruction"], step["value"]) for step in DockerfileParser(fileobj=file).structure]
    steps = [step for step in steps if step[0] != "COMMENT"]
    starts = [place for place, (instruction, _value) in enumerate(steps) if instruction == "FROM"]
    assert starts[0] == 0
    for start, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        base, _as, name = steps[start][1].split()
        yield name, base, steps[start + 1 : end]


def steps_of(stage: str) -> list[Step]:
    """Return all steps that make a stage, those of the stages below it first."""
    found = {name: (base, steps) for name, base, steps in stages()}
    base, steps = found[stage]
    return [*(steps_of(base) if base in found else []), *steps]


def values(stage: str, instruction: str) -> list[str]:
    """Return what follows an instruction, each time that it stands in the steps of a stage."""
    return [value for name, value in steps_of(stage) if name == instruction]


def entrypoint_of(stage: str) -> list[str]:
    return [str(part) for part in json.loads(values(stage, "ENTRYPOINT")[-1])]  # the form without a shell


def healthcheck_of(stage: str) -> list[str]:
    """Return the command by which Docker asks a container of a stage how it is."""
    (value,) = values(stage, "HEALTHCHECK")
    return [str(part) for part in json.loads(value.partition("CMD ")[2])]


def requirements_in(file: Path) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def pinned_versions() -> dict[str, Version]:
    """The versions of all packages in the images, by their canonical names."""
    pins = dict[str, Version]()
    for one in requirements_in(DOCKERFILE.parent / "constraints.txt"):
        (pin,) = one.specifier
        assert pin.operator == "=="
        pins[canonicalize_name(one.name)] = Version(pin.version)
    return pins
