"""pyproject.toml names the packages; other files repeat some of them, with the same ranges."""

from __future__ import annotations

import importlib
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import llmcrawler.settings
from llmcrawler import errors

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
REQUIRED = [Requirement(line) for line in PROJECT["dependencies"]]


def requirements_of(file: Path) -> list[Requirement]:
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [Requirement(line) for line in lines if line]


def test_a_checkout_has_what_is_required_with_uvloop_and_the_browser() -> None:
    expected = [*REQUIRED, *EXTRAS["uvloop"], *EXTRAS["browser"]]
    assert requirements_of(ROOT / "requirements.txt") == expected


@pytest.mark.parametrize("folder", ["tests", "deploy"])
def test_other_files_have_the_ranges_of_the_extras(folder: str) -> None:
    ranges = {canonicalize_name(one.name): one.specifier for extra in EXTRAS.values() for one in extra}
    named = [one for file in (ROOT / folder).glob("requirements*.txt") for one in requirements_of(file)]
    repeated = [one for one in named if canonicalize_name(one.name) in ranges]
    assert repeated
    assert [one for one in repeated if one.specifier != ranges[canonicalize_name(one.name)]] == []


def test_all_extras_are_in_all() -> None:
    (everything,) = EXTRAS["all"]
    assert everything.name == PROJECT["name"]
    assert everything.extras == set(EXTRAS) - {"all"}


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"all"}))
def test_in_a_checkout_an_extra_is_installed_by_its_packages(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(errors, "version", missing)
    command = errors.install_command(extra)
    assert command.split() == ["pip", "install", *(one.name for one in EXTRAS[extra])]


def test_in_an_installation_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "version", lambda _name: "0.1.0")
    monkeypatch.setitem(sys.modules, "redis", None)
    needs = r'^REDIS_URL needs redis, which is not installed: pip install "llmcrawler\[redis\]"$'
    with pytest.raises(errors.ConfigError, match=needs):
        errors.require("redis", "redis", "REDIS_URL")


def test_a_package_without_its_parents_is_missing_too() -> None:
    with pytest.raises(errors.ConfigError, match="METRICS needs nowhere, which is not installed"):
        errors.require("nowhere.to.be.found", "prometheus", "METRICS")


def test_without_uvloop_a_crawl_has_the_loop_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    assert llmcrawler.settings.ASYNCIO_EVENT_LOOP == "uvloop.Loop"
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert importlib.reload(llmcrawler.settings).ASYNCIO_EVENT_LOOP is None
    monkeypatch.undo()
    importlib.reload(llmcrawler.settings)
