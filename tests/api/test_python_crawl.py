"""What `llmcrawler.explore` makes of a crawl's process: its lines, its log, its end."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import subprocess
import sys
from contextlib import aclosing
from types import SimpleNamespace

import pytest

import llmcrawler
from llmcrawler.api import python_crawl
from llmcrawler.api.python_crawl import WholeLines, progress_output
from llmcrawler.errors import ConfigError, CrawlFailed, JobBusy

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def pretended(monkeypatch):
    monkeypatch.setattr(python_crawl, "_CHILD", "tests.crawl.pretended_crawl")


def explored(path, **options):
    return llmcrawler.explore(f"https://a.test/{path}", **{"progress": False, **options})


def test_page_lines_come_out_and_warnings_are_logged(caplog):
    said: list[str] = []
    crawl = explored("exit/0", progress=said.append)
    assert [page["record"] for page in crawl] == [{"price": "£10.00"}, {"price": None}, None]
    assert (crawl.exit_status, said) == (0, ["2 pages"])
    assert [record.message for record in caplog.records] == ["the model is slow"]
    assert len(list(crawl)) == 3


async def test_it_is_iterated_without_holding_up_the_event_loop():
    crawl, ticks = explored("exit/0"), 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.ensure_future(tick())
    assert repr(crawl) == "<RunningCrawl of https://a.test/exit/0: running>"
    assert [page["record"] async for page in crawl] == [{"price": "£10.00"}, {"price": None}, None]
    assert ticks > 100
    ticking.cancel()
    assert repr(crawl) == "<RunningCrawl of https://a.test/exit/0: ended with exit status 0>"
    with pytest.raises(CrawlFailed):
        async for _page in explored("exit/1"):
            pass
    async with aclosing(aiter(waiting := explored("wait"))) as pages:
        async for _page in pages:
            break
    assert waiting.exit_status is not None


def test_arguments_and_settings_reach_the_crawl():
    crawl = explored(
        "exit/0",
        fields={"price": "number", "tags": "string[]"},
        goal=["product", "article"],
        refresh=True,
        max_pages=None,
        settings={"PROXIES": ["http://a"], "JOBDIR": None, "LLM_CACHE": False},
    )
    given = json.loads(next(iter(crawl))["title"])
    assert given[0] == "explore"
    wanted = {
        *("url=https://a.test/exit/0", "fields=price:number,tags:string[]", "goal=product,article", "refresh=1"),
        *('PROXIES=["http://a"]', "LLM_CACHE=False", "PROGRESS=log"),
    }
    assert wanted <= set(given)
    assert not [one for one in given if one.startswith(("max_pages", "JOBDIR"))]


def test_records_are_a_typed_table_and_pages_one_where_no_fields_were_asked_for():
    products = explored("exit/0", fields="price,made:date").to_pandas()
    assert list(products.columns) == ["url", "page_type", "price", "made"]
    assert (str(products.dtypes["price"]), products["price"].tolist()[0], len(products)) == ("float64", 10.0, 2)
    assert explored("exit/0", fields="price", goal="article").to_pandas().empty
    pages = explored("exit/0").to_pandas()
    assert (len(pages), pages["url"].tolist()[0]) == (3, "https://a.test/exit/0?0")
    assert "kind" not in pages.columns


def test_without_pandas_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    crawl = explored("wait")
    with pytest.raises(ImportError, match="to_pandas needs pandas: pip install pandas"):
        crawl.to_pandas()
    assert crawl.exit_status == 3


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (1, CrawlFailed, "so it is"),
        (2, ConfigError, "^DEPTH='x' is not a number$"),
        (4, CrawlFailed, r"so it is \(https://a.test/exit/4\?2: no such host\)"),
        (7, JobBusy, "so it is"),
    ],
)
def test_an_exit_status_is_an_exception_once_and_the_lines_are_kept(status, error, message):
    crawl = explored(f"exit/{status}")
    with pytest.raises(error, match=message) as raised:
        list(crawl)
    assert getattr(raised.value, "exit_status", status) == status
    assert len(list(crawl)) == 3


def test_a_budget_that_was_reached_is_no_exception(caplog):
    assert len(list(explored("exit/5"))) == 3
    assert "Exit status 5" in caplog.text


def test_an_iteration_that_is_left_ends_the_crawl():
    crawl = explored("wait")
    for page in crawl:
        assert page["url"] == "https://a.test/wait?0"
        break
    assert crawl.exit_status == 3
    assert len(list(crawl)) == 3


def test_ctrl_c_ends_the_crawl():
    def interrupt(_text):
        raise KeyboardInterrupt

    crawl = explored("wait", progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(crawl)
    assert crawl.exit_status == 3


def test_a_crawl_that_nobody_holds_any_more_is_ended_and_leaves_nothing():
    with explored("wait") as crawl:
        process, folder = crawl._process, crawl._folder
        assert folder.is_dir()
    assert process.poll() == 3
    del crawl
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_pagez": 3}, "did you mean max_pages"),
        ({"fields": ["price:money"]}, "is not a type"),
        ({"settings": {"PAGE_STAGES": [len]}}, "settings: PAGE_STAGES has a value that another process cannot get"),
    ],
)
def test_a_wrong_argument_is_raised_before_anything_is_started(options, message):
    with pytest.raises(ConfigError, match=message):
        explored("exit/0", **options)


def test_half_a_line_waits_for_its_end(tmp_path):
    file = tmp_path / "lines"
    lines = WholeLines(file)
    assert list(lines.more()) == []
    file.write_text("one\ntw")
    assert list(lines.more()) == ["one\n"]
    file.write_text("one\ntwo\n")
    assert list(lines.more()) == ["two\n"]
    lines.close()


def test_in_a_notebook_the_progress_is_one_output_that_changes(monkeypatch):
    shown = []

    def display(content, *, raw, display_id):
        assert (raw, display_id) == (True, True)
        shown.append(content)
        return SimpleNamespace(update=lambda content, raw: shown.append((raw, content)))

    notebook = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    show = progress_output(True)
    show("1 page")
    show("2 pages")
    assert shown == [{"text/plain": "1 page"}, (True, {"text/plain": "2 pages"})]


def test_elsewhere_it_is_lines_on_stderr(capsys):
    progress_output(True)("1 page")
    assert capsys.readouterr().err == "1 page\n"


HANGS = """
import re, signal, sys, types
from llmcrawler.commands import python_crawl_process
python_crawl_process._HUNG_SECONDS = 1.0
signal.signal(signal.SIGTERM, lambda *_: None)  # as Scrapy, whose handler waits for the end of the expression
console = types.ModuleType("llmcrawler.commands.console")
console.main = lambda _argv: re.match("(a+)+$", "a" * 100 + "!")
sys.modules["llmcrawler.commands.console"] = console
python_crawl_process.main()
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such signal on this system")
def test_a_crawl_that_an_expression_holds_ends_when_nobody_is_there_to_kill_it():
    done = subprocess.run([sys.executable, "-c", HANGS], input=b"[]\n", check=False, timeout=60)
    assert done.returncode == -signal.SIGALRM
