"""The asset of Dagster: its command is one of ours, and it tells how the crawl ended."""

from __future__ import annotations

import ast
import runpy
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llmcrawler.commands import console
from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.crawling import FAST, ROOT
from tests.servers.mock_site import MockSite

FILE = ROOT / "deploy/dagster_assets.py"


def test_it_is_python_and_its_options_are_there():
    tree = ast.parse(FILE.read_text(encoding="utf-8"), FILE.name)
    compile(tree, FILE.name, "exec")
    given = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    parser = console._parser("explore", console._settings())
    options = {one for one in given if one.startswith("-")}
    assert {"--refresh", "-O", "-s"} <= options
    assert options - {"--json", "-c"} <= set(parser._option_string_actions)


@pytest.fixture
def asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    dagster = pytest.importorskip("dagster")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("CRAWL_FOLDER", str(tmp_path / "crawls"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return runpy.run_path(str(FILE)) | {"materialize": dagster.materialize, "Failure": dagster.Failure}


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
def test_a_crawl_becomes_an_asset(asset, monkeypatch):
    monkeypatch.setenv("CRAWL_OPTIONS", shlex.join(["--max-pages=3", *(f"-s{name}={FAST[name]}" for name in FAST)]))
    with MockSite().in_thread() as site:
        monkeypatch.setenv("CRAWL_URL", site.url())
        (made,) = asset["materialize"]([asset["site_pages"]]).get_asset_materialization_events()
    told = made.materialization.metadata
    assert (told["exit_status"].value, told["pages"].value) == (0, 3)
    assert Path(told["feed"].value).read_text().count('"kind": "page"') == 3


@pytest.mark.filterwarnings("default")
def test_each_exit_status_is_a_success_or_a_failure_that_is_retried_or_not(asset, monkeypatch):
    assert {*asset["WHOLE"], *asset["GOES_ON"], *asset["FOR_PEOPLE"]} == set(map(int, ExitStatus))
    monkeypatch.setenv("CRAWL_URL", "https://shop.example")
    context = SimpleNamespace(log=SimpleNamespace(info=lambda *_: None))
    make = asset["site_pages"].op.compute_fn.decorated_fn
    for status, is_retried in ((1, False), (2, False), (3, True), (4, True), (6, False), (7, True), (-9, True)):
        monkeypatch.setitem(make.__globals__, "run", lambda _command, status=status: status)
        with pytest.raises(asset["Failure"], match=f"exit status {status}") as failure:
            make(context)
        assert failure.value.allow_retries is is_retried
