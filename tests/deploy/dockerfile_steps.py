"""Executes the steps of deploy/Dockerfile without Docker, each stage in a fresh folder that stands for its root.

Real are the files that COPY finds in what .dockerignore leaves, the shell of RUN, Python, and pip, which has to find
what the requirement files ask for. Not real are Debian's packages, users and owners: their commands are noted in
`noted`. And the packages of Python are those of the tests: of those that these lack (boto3) there is a wheel with
nothing in it, and the versions of constraints.txt have a test of their own (test_constraints.py).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import venv
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from docker.utils import exclude_paths
from dockerfile_parse import DockerfileParser
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, environment

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
_NOTED = ("apt-get", "useradd", "chown")
_NOTING = '#!/bin/sh\necho "${0##*/} $*" >> "$NOTED"\n'
_PIP = '#!/bin/sh\nexec python -m pip "$@"\n'
# Paths from the root, in a command or in a value: not those in a relative path, an address or a pattern.
_ABSOLUTE = re.compile(r"(?<![\w./:@$*-])/(?=[a-z])")


@dataclass
class Image:
    """What a stage made. `folder` is its WORKDIR; paths in `environment` and `folder` are those of the image."""

    root: Path
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0"
    entrypoint: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)

    @property
    def noted(self) -> list[list[str]]:
        """The commands that were only noted."""
        file = self.root / "noted"
        return [shlex.split(line) for line in file.read_text().splitlines()] if file.exists() else []

    def here(self, text: str) -> str:
        return _ABSOLUTE.sub(f"{self.root}/", text)

    def path(self, path: str) -> Path:
        return self.root / Path(self.folder, path).relative_to("/")

    def run(self, command: list[str], **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the image's WORKDIR, with its environment and more of it."""
        given = {name: self.here(value) for name, value in {**self.environment, **environ}.items()}
        tools = f"{self.root}/stand-ins{os.pathsep}{self.root}/usr/local/bin{os.pathsep}{os.environ['PATH']}"
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{self.root}/wheels", "PIP_CONFIG_FILE": os.devnull}
        others = {"PIP_ROOT_USER_ACTION": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "NOTED": f"{self.root}/noted"}
        return subprocess.run(
            command,
            cwd=self.path("."),
            env={**environment(), **pip, **others, **given, "PATH": tools},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    def files(self) -> set[str]:
        """All files but those in /tmp and in the volumes, which alone can be written to where the root is read-only."""
        writable = [self.path(place) for place in ("/tmp", *self.volumes)]
        found = (path for path in self.root.rglob("*") if not any(path.is_relative_to(one) for one in writable))
        return {str(path) for path in found}


class Build:
    """Makes each stage of the Dockerfile once, from what the one before left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stages = {name: (base, steps) for name, base, steps in stages()}
        self._context = _context(folder / "context")
        self._made: dict[str, Image] = {}

    def image(self, stage: str) -> Image:
        if stage not in self._made:
            base, steps = self.stages[stage]
            image = self._copy_of(base, self.folder / stage) if base in self.stages else _fresh(self.folder / stage)
            for instruction, value in steps:
                self._execute(image, instruction, value)
            self._made[stage] = image
        return self._made[stage]

    def _copy_of(self, stage: str, root: Path) -> Image:
        image = self.image(stage)
        shutil.copytree(image.root, root, symlinks=True)
        return Image(root, **{name: value for name, value in vars(image).items() if name != "root"})

    def _execute(self, image: Image, instruction: str, value: str) -> None:
        match instruction:
            case "WORKDIR":
                image.folder = value
                image.path(".").mkdir(parents=True, exist_ok=True)
            case "COPY":
                *sources, target = value.split()
                self._copy(sources, image.path(target), is_folder=target.endswith("/"))
            case "RUN":
                done = image.run(["sh", "-e", "-c", image.here(value)])
                assert done.returncode == 0, f"RUN {value}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            case "ENV":
                image.environment = {**image.environment, **dict([value.split("=", 1)])}
            case "USER":
                image.user = value
            case "ENTRYPOINT":
                image.entrypoint = json.loads(value)  # the form without a shell
            case "VOLUME":
                image.volumes = [*image.volumes, value]
                assert image.path(value).is_dir(), f"{value} has no owner: it is made as root's"
            case "CMD" | "EXPOSE" | "HEALTHCHECK":
                pass
            case _:
                raise AssertionError(f"{instruction} {value}: this test does not know how to execute it")

    def _copy(self, sources: list[str], target: Path, *, is_folder: bool) -> None:
        for source in sources:
            assert (self._context / source).exists(), f"COPY {source}: it is not there, or .dockerignore leaves it out"
            if (self._context / source).is_dir():
                shutil.copytree(self._context / source, target, dirs_exist_ok=True)
            else:
                file = target / Path(source).name if is_folder else target
                file.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self._context / source, file)


def healthcheck_of(stage: str) -> list[str]:
    """Return the command by which Docker asks a container of a stage how it is."""
    (steps,) = (steps for name, _base, steps in stages() if name == stage)
    (value,) = (value for instruction, value in steps if instruction == "HEALTHCHECK")
    return [str(part) for part in json.loads(value.partition("CMD ")[2])]


def stages() -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield name, base and steps of each stage."""
    with DOCKERFILE.open("rb") as file:
        steps = [(step["instruction"], step["value"]) for step in DockerfileParser(fileobj=file).structure]
    steps = [step for step in steps if step[0] != "COMMENT"]
    starts = [place for place, (instruction, _value) in enumerate(steps) if instruction == "FROM"]
    assert starts[0] == 0
    for start, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        base, _as, name = steps[start][1].split()
        yield name, base, steps[start + 1 : end]


def _context(folder: Path) -> Path:
    """Copy what Docker is sent of the checkout. The versions of constraints.txt are not those of the tests."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    for name in exclude_paths(str(ROOT), rules):
        source, target = ROOT / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    (folder / CONSTRAINTS.relative_to(ROOT)).write_text("")
    return folder


def _fresh(root: Path) -> Image:
    """Make what the base image has: a Python with pip, and /tmp."""
    for name in ("tmp", "stand-ins", "wheels"):
        (root / name).mkdir(parents=True)
    venv.create(root / "usr" / "local", symlinks=True, with_pip=False)
    (site,) = (root / "usr" / "local").glob("lib/python*/site-packages")
    (site / "tests.pth").write_text("".join(f"{sysconfig.get_path(name)}\n" for name in ("purelib", "platlib")))
    for name, script in {"pip": _PIP, **dict.fromkeys(_NOTED, _NOTING)}.items():
        (root / "stand-ins" / name).write_text(script)
        (root / "stand-ins" / name).chmod(0o755)
    pins = pinned_versions()
    for file in sorted(DOCKERFILE.parent.glob("requirements*.txt")):
        for requirement in requirements_in(file):
            if not _is_installed(requirement.name):
                _write_empty_wheel(root / "wheels", requirement.name, str(pins[requirement.name]))
    return Image(root)


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _write_empty_wheel(folder: Path, name: str, number: str) -> None:
    about = f"{name}-{number}.dist-info"
    files: Mapping[str, str] = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-{number}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def requirements_in(file: Path) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def pinned_versions() -> dict[str, Version]:
    """The versions of all packages in the images, by their canonical names."""
    pins = dict[str, Version]()
    for one in requirements_in(CONSTRAINTS):
        (pin,) = one.specifier
        assert pin.operator == "=="
        pins[canonicalize_name(one.name)] = Version(pin.version)
    return pins
