"""The console command, run where there is no checkout and no scrapy.cfg, and from a wheel that is installed."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import site as sites
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest

import llmcrawler
from llmcrawler.commands import console
from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e import warm
from tests.e2e.crawling import FAST, ROOT, TIMEOUT_SECONDS, environment
from tests.servers.mock_site import MockSite

SETTINGS = [part for name, value in FAST.items() for part in ("-s", f"{name}={value}")]
# What the script `llmcrawler` does that pip makes.
MODULE = [sys.executable, "-c", "import sys; from llmcrawler.commands.console import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def site() -> Iterator[MockSite]:
    with MockSite().in_thread() as site:
        yield site


def run(
    folder: Path, *arguments: object, program: Sequence[str] = MODULE, **variables: str
) -> subprocess.CompletedProcess[str]:
    given = {**environment(), "PYTHONPATH": str(ROOT) if program is MODULE else "", **variables}
    kept = {name: value for name, value in given.items() if name != "SCRAPY_SETTINGS_MODULE" or name in variables}
    parts = [str(one) for one in arguments]
    if program is MODULE:
        return warm.run(parts, kept, TIMEOUT_SECONDS, folder, program)
    return subprocess.run(
        [*program, *parts],
        cwd=folder,
        env=kept,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def pages(feed: Path) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, feed.read_text().splitlines()) if line["kind"] == "page"]


def test_a_site_is_explored_without_a_project(tmp_path, site):
    feeds = ["-o", "pages.jsonl", "-o", "products.csv:records"]
    explored = run(tmp_path, "explore", site.url(), *feeds, "--max-pages", 5, "--depth=2", *SETTINGS)
    assert explored.returncode == 0, explored.stderr
    assert (tmp_path / "products.csv").read_text().startswith("url,page_type")
    assert len(pages(tmp_path / "pages.jsonl")) == 5
    assert not (tmp_path / ".scrapy").exists()


def test_an_address_alone_is_explored(tmp_path, site):
    explored = run(tmp_path, site.url(), "--max-pages", 3, *SETTINGS)
    assert explored.returncode == 0, explored.stderr
    host, port = site.url().removeprefix("http://").strip("/").split(":")
    feed = f"{host}-{port}.jsonl"
    assert len(pages(tmp_path / feed)) == 3
    assert f"\nFeed: {feed}, " in explored.stderr, "without a terminal the log tells what goes on"
    before = (tmp_path / feed).read_bytes()
    assert run(tmp_path, "--max-pages", 1, site.url(), *SETTINGS).returncode == 0
    assert (tmp_path / feed).read_bytes() == before
    assert len(pages(tmp_path / f"{host}-{port}-2.jsonl")) == 1


@pytest.mark.parametrize(
    ("given", "is_address"),
    [
        ("https://shop.example/lamps?page=2", True),
        ("shop.example", True),
        ("shop.example/lamps", True),
        ("bücher.example?q=1", True),
        ("localhost", True),
        ("intranet:8080/wiki", True),
        ("127.0.0.1:8080", True),
        ("http://[::1]:8080/", True),
        ("explor", False),
        ("statu", False),
        ("sites.csv", False),  # a file that is there
        ("job/", False),
    ],
)
def test_addresses_and_misspelt_commands_are_told_apart(tmp_path, monkeypatch, given, is_address):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites.csv").touch()
    ran = []
    monkeypatch.setattr(console, "_run", lambda name, rest, **_: ran.append((name, rest)))
    if is_address:
        console.main([given, "--depth", "1"])
        assert ran == [("explore", [given, "--depth", "1"])]
    else:
        with pytest.raises(SystemExit, match="2"):
            console.main([given])
        assert not ran


def test_a_stage_of_ones_own_is_found_in_the_current_folder(tmp_path, site):
    (tmp_path / "mystages.py").write_text("async def words(page):\n    return len(page.text.split())\n")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n")
    given = ["--depth=0", "-s", "PAGE_STAGES=mystages.words", "-O", "pages.jsonl", *SETTINGS]
    explored = run(tmp_path, "explore", site.url("/about/"), *given)
    assert explored.returncode == 0, explored.stderr
    (page,) = pages(tmp_path / "pages.jsonl")
    assert page["results"]["words"] > 10


def test_ctrl_c_before_the_crawl_has_begun_is_no_traceback(tmp_path):
    (tmp_path / "slow.py").write_text("import sys, time\nprint('begun', file=sys.stderr, flush=True)\ntime.sleep(60)\n")
    variables = {**environment(), "PYTHONPATH": f"{ROOT}:{tmp_path}", "SCRAPY_SETTINGS_MODULE": "slow"}
    command = [*MODULE, "explore", "http://127.0.0.1:9/"]
    with subprocess.Popen(command, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == -signal.SIGINT
    assert not log


def test_a_job_can_be_looked_at_as_with_scrapy(tmp_path, site):
    job = tmp_path / "job"
    url = site.url("/about/")
    explored = run(tmp_path, "explore", url, "-a", "depth=0", "-s", f"JOBDIR={job}", *SETTINGS)
    assert explored.returncode == 0, explored.stderr
    status = run(tmp_path, "status", "--json", job)
    assert json.loads(status.stdout)["urls"]
    assert run(tmp_path, "report", job, "-o", "report.html").returncode == 0
    assert "about" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert run(tmp_path, "requeue", job, "--dead").stdout == "nothing to bring back\n"
    assert run(tmp_path, "recover", job).stdout.startswith("Lines saved: 1\n")


def test_a_list_is_extracted_and_a_site_mapped(tmp_path, site):
    (tmp_path / "urls.txt").write_text(f"{site.url('/about/')}\n{site.url('/terms/')}\n")
    extracted = run(tmp_path, "extract", "--urls", "urls.txt", "-O", "pages.jsonl", "--fields", "title", *SETTINGS)
    assert (extracted.returncode, len(pages(tmp_path / "pages.jsonl"))) == (0, 2), extracted.stderr
    mapped = run(tmp_path, "map", site.url(), "-O", "urls.jsonl", "--max-urls", 7, "--subdomains", *SETTINGS)
    assert mapped.returncode == 0, mapped.stderr
    assert len((tmp_path / "urls.jsonl").read_text().splitlines()) in (7, 8)


def test_the_settings_of_a_project_around_are_used(tmp_path, site):
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    own = "from llmcrawler.settings import *\nUSER_AGENT = 'shop/1'\nCONTENT_IN_FEED = False\nCOMMANDS_MODULE = ''\n"
    (tmp_path / "shop/settings.py").write_text(own)
    explored = run(tmp_path / "shop", "explore", site.url("/about/"), "--depth", 0, "-O", "-:jsonlines", *SETTINGS)
    assert explored.returncode == 0, explored.stderr
    assert json.loads(explored.stdout.splitlines()[0])["text"] is None


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command runs in this process, which is as it was afterwards."""
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "llmcrawler.settings")
    monkeypatch.syspath_prepend(ROOT)
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)
    gc.enable()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], ["llmcrawler COMMAND --help", "requeue"]),
        (
            ["explore", "--help"],
            ["--max-pages N", "stop after this many pages (500)", "-o FILE", "-s NAME=VALUE", "products.csv:records"],
        ),
        (["--version"], ["llmcrawler 0."]),
        (["status", "--help"], ["llmcrawler status [options] <jobdir>", "--json"]),
    ],
)
@pytest.mark.usefixtures("here")
def test_help_shows_what_there_is(capsys, arguments, said):
    console.main(arguments)
    shown = capsys.readouterr().out
    assert all(one in shown for one in said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explor", "https://a.example"], "no command 'explor': did you mean explore?"),
        (["lamps"], "no command 'lamps': there are explore, extract"),
        (["a.example", "--max-page", "5"], "no option '--max-page': did you mean --max-pages?"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_misspelt_command_or_option_is_named_with_what_was_meant(capsys, arguments, said):
    with pytest.raises(SystemExit, match="2"):
        console.main(arguments)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explore", "https://a.example", "-s", "DOWNLOAD_DELY=1"], "did you mean DOWNLOAD_DELAY?"),
        (["status", "--jsn", "job"], "no option --jsn: did you mean --json?"),
        (["extract"], "no list: give one"),
    ],
)
def test_wrong_usage_is_named_with_what_was_meant(tmp_path, arguments, said):
    refused = run(tmp_path, *arguments)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "=\n  scrapy" not in refused.stderr, "the usage shown is that of llmcrawler"


def test_wrong_usage_is_in_the_log_file_too(tmp_path):
    given = ["-s", "LOG_FILE=log.txt", "-s", "LOG_FORMAT=json", "-s", "JOB_DIR=job"]
    assert run(tmp_path, "explore", "https://a.example", *given).returncode == ExitStatus.USAGE
    (line,) = (tmp_path / "log.txt").read_text().splitlines()
    assert "did you mean JOBDIR?" in json.loads(line)["message"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with this project's wheel, and beside it what it requires."""
    pytest.importorskip("setuptools", minversion="77", reason="tests/requirements.txt installs it")
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    kept = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "llmcrawler", source / "llmcrawler", ignore=kept)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--no-deps", "-w", str(folder), str(source)], check=True, capture_output=True
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "venv/lib" / version / "site-packages"
    (packages / "around.pth").write_text("".join(f"{path}\n" for path in sites.getsitepackages()))
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "venv/bin/python"), "install", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--ignore-installed", str(wheel)], check=True, capture_output=True)
    return folder / "venv/bin"


@pytest.mark.nightly
def test_a_wheel_brings_the_command_and_the_spiders(tmp_path, site, installed):
    where = [str(installed / "python"), "-c", "import llmcrawler; print(llmcrawler.__file__)"]
    assert str(installed.parent) in run(tmp_path, program=where).stdout
    explored = run(
        tmp_path,
        *("explore", site.url(), "-o", "pages.jsonl", "--max-pages", 3, *SETTINGS),
        program=[str(installed / "llmcrawler")],
    )
    assert (explored.returncode, len(pages(tmp_path / "pages.jsonl"))) == (0, 3), explored.stderr
    crawled = run(
        tmp_path,
        *("crawl", "explore", "-a", f"url={site.url()}", "-a", "max_pages=2", "-O", "two.jsonl", *SETTINGS),
        program=[str(installed / "python"), "-m", "scrapy"],
        SCRAPY_SETTINGS_MODULE="llmcrawler.settings",
    )
    assert (crawled.returncode, len(pages(tmp_path / "two.jsonl"))) == (0, 2), crawled.stderr


@pytest.mark.nightly
def test_a_wheel_is_typed_and_says_where_its_source_is(installed):
    (metadata,) = installed.parent.glob("lib/*/site-packages/llmcrawler-*.dist-info/METADATA")
    message = message_from_string(metadata.read_text(encoding="utf-8"))
    assert message["Version"] == llmcrawler.__version__
    assert {line.partition(",")[0] for line in message.get_all("Project-URL")} >= {"Source", "Issues", "Changelog"}
    package = metadata.parent.with_name("llmcrawler")
    data = {str(file.relative_to(ROOT)) for file in (ROOT / "llmcrawler").rglob("*") if is_data(file)}
    assert "llmcrawler/py.typed" in data
    assert data == {str(file.relative_to(package.parent)) for file in package.rglob("*") if is_data(file)}


def is_data(file: Path) -> bool:
    return file.is_file() and file.suffix not in (".py", ".pyc")


# Run by a Python that has none of the extras: whatever imports them fails there.
_WITHOUT_EXTRAS = """
import importlib, pkgutil, sys
urls = sys.argv[1:]
optional = ("playwright", "scrapy_playwright", "redis", "ray", "uvloop", "pyarrow", "pandas")
optional += ("prometheus_client", "opentelemetry", "langchain_core", "llama_index", "mcp", "starlette", "uvicorn")
for name in optional:
    sys.modules[name] = None
import llmcrawler
from llmcrawler.errors import ConfigError
for module in pkgutil.walk_packages(llmcrawler.__path__, "llmcrawler."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        missing = error.name.partition(".")[0]
        if missing not in ("playwright", "scrapy_playwright", "redis", "mcp", "starlette", "uvicorn"):
            raise
        # These are loaded by a crawl that renders pages, or that has a Redis, and by a server.
        print("without", missing, module.name)
    except ConfigError as error:
        if "is not installed: pip install" not in str(error):
            raise
        print(error)
from llmcrawler.commands.console import main
main(["explore", urls[0], "-o", "pages.jsonl", "--max-pages", "3", *urls[1:]])
"""


@pytest.mark.nightly
def test_without_the_extras_all_else_can_be_imported_and_a_crawl_has_the_loop_of_asyncio(tmp_path, site):
    program = [sys.executable, "-c", _WITHOUT_EXTRAS]
    explored = run(tmp_path, site.url(), *SETTINGS, program=program, PYTHONPATH=str(ROOT))
    assert (explored.returncode, len(pages(tmp_path / "pages.jsonl"))) == (0, 3), explored.stderr
    assert "uvloop" not in explored.stderr
    needed = "llmcrawler.api.langchain_loader needs langchain_core, which is not installed: pip install langchain-core"
    assert needed in explored.stdout


@pytest.mark.nightly
def test_redis_is_asked_for_where_it_is_missing(tmp_path, site):
    program = [sys.executable, "-c", _WITHOUT_EXTRAS]
    given = ("-s", "REDIS_URL=redis://localhost:1/0", "-s", "CRAWL_ID=shop")
    refused = run(tmp_path, site.url(), *given, *SETTINGS, program=program, PYTHONPATH=str(ROOT))
    assert refused.returncode == ExitStatus.USAGE
    assert "REDIS_URL needs redis, which is not installed: pip install redis" in refused.stderr
    assert "Traceback" not in refused.stderr
