"""The commands of deploy/README.md, typed where docker, kubectl and others only note what they are called with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.deploy.dockerfile import stages
from tests.deploy.manifests import DEPLOY, KUBERNETES, composed, container, documents, jobs, of_kind
from tests.e2e.crawling import ROOT
from tests.e2e.documents import blocks_of

pytestmark = pytest.mark.server

BLOCKS = [block.text for block in blocks_of(DEPLOY / "README.md") if block.language == "sh"]
EXPORTS = ("URL", "CRAWL_ID", "TARGET")
_NOTING = f"""#!/bin/sh
printf '%s\\t' {" ".join(f'"{name}=${{{name}-}}"' for name in EXPORTS)} "${{0##*/}}" "$@" >> "$NOTED"
echo >> "$NOTED"
"""


def typed(block: str, folder: Path) -> list[tuple[dict[str, str], list[str]]]:
    """The commands that a block calls, each with the variables that were set."""
    shutil.copytree(DEPLOY, folder / "deploy")
    shutil.copy(ROOT / "requirements.txt", folder)
    for name in ("docker", "kubectl", "uv", "pip", "dagster"):  # none of them is to install or start anything here
        (folder / name).write_text(_NOTING)
        (folder / name).chmod(0o755)
    environ = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "NOTED": str(folder / "noted")}
    subprocess.run(["sh", "-e", "-c", block], cwd=folder, env=environ, check=True)
    rows = [line.rstrip("\t").split("\t") for line in (folder / "noted").read_text("utf-8").splitlines()]
    count = len(EXPORTS)
    return [(dict(one.split("=", 1) for one in row[:count] if not one.endswith("=")), row[count:]) for row in rows]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_commands_name_files_stages_and_services_that_are_there(block, tmp_path):
    for environ, command in typed(block, tmp_path):
        files = [tmp_path / one for flag, one in pairwise(command) if flag == "-f"]
        files += [tmp_path / one for one in command if one.endswith(".txt") and not one.startswith("--")]
        assert [file for file in files if not file.exists()] == []
        if command[:2] == ["docker", "build"]:
            assert (command[command.index("--target") + 1] if "--target" in command else "worker") in {
                stage for stage, _base, _steps in stages()
            }
            assert command[-1] == "."
        if command[:2] == ["docker", "compose"]:
            services = composed(files[0], environ)["services"]
            named = re.findall(r"--scale (\w+)=|--no-deps (\w+) | cp (\w+):", " ".join(command))
            assert {name for match in named for name in match if name} <= set(services)
        if command[:2] == ["kubectl", "patch"]:
            assert command[3] in {one["metadata"]["name"] for one in of_kind(command[2].capitalize())}


def test_workers_get_the_images_that_are_pushed(tmp_path):
    (build,) = (block for block in BLOCKS if "docker push" in block)
    commands = [command for _environ, command in typed(build, tmp_path)]
    built = {command[command.index("-t") + 1] for command in commands if command[1] == "build"}
    assert built == {command[2] for command in commands if command[1] == "push"}
    assert {container(job["template"]["spec"])["image"] for job in jobs()} <= built


def test_the_registry_is_put_into_all_manifests(tmp_path):
    (block,) = (block for block in BLOCKS if "sed -i" in block)
    typed(block, tmp_path)
    for path in sorted(KUBERNETES.glob("*.yaml")):
        assert "registry.example" not in (tmp_path / "deploy" / "kubernetes" / path.name).read_text("utf-8")
        assert documents(tmp_path / "deploy" / "kubernetes" / path.name)


def test_the_page_has_every_file_of_the_folder():
    text = (DEPLOY / "README.md").read_text("utf-8")
    for path in (path for path in DEPLOY.rglob("*") if path.is_file() and path.name != "README.md"):
        assert f"`{path.relative_to(DEPLOY)}`" in text
