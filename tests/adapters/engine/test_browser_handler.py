"""The download handler of the browser, without one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError

from llmcrawler.engine.browser.handler import BrowserDownloadHandler, system_browser
from llmcrawler.engine.browser.rendered_page import BrowserHostLimiter
from llmcrawler.errors import ConfigError
from tests.adapters.stubs import stub


class Browser:
    def __init__(self, *, answers: bool) -> None:
        self.answers = answers

    def is_connected(self):
        return True

    async def new_browser_cdp_session(self):
        if not self.answers:
            raise PlaywrightError("Connection closed while reading from the driver")
        return self

    async def detach(self):
        """Of the session, which this one is too."""


@pytest.mark.parametrize("answers", [True, False])
def test_a_browser_that_does_not_answer_is_started_anew_and_one_that_does_is_kept(answers):
    handler: Any = object.__new__(BrowserDownloadHandler)
    handler.browser, handler.context_wrappers, handler._starting = Browser(answers=answers), {"1": None}, "started"
    asyncio.run(handler.forget_if_gone())
    assert hasattr(handler, "browser") is answers
    assert handler._starting == ("started" if answers else None)
    assert bool(handler.context_wrappers) is answers


async def test_playwrights_process_is_started_in_a_session_of_its_own(monkeypatch):
    started: list[dict[str, Any]] = []

    async def start(*_arguments, **options):
        started.append(options)

    async def launch():
        await asyncio.create_subprocess_exec("node", "run-driver")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    handler: Any = stub(_launch=launch)
    await BrowserDownloadHandler._start_playwright(handler)
    assert started == [{"start_new_session": True}]
    assert asyncio.create_subprocess_exec is start


async def test_no_more_go_to_a_host_at_once_than_it_has_room_for():
    gate = BrowserHostLimiter(lambda host: {"busy": -2}.get(host, 2))
    levels = {"a": 0, "busy": 0}
    most = dict(levels)

    async def go(host: str) -> None:
        await gate.enter(host)
        levels[host] += 1
        most[host] = max(most[host], levels[host])
        await asyncio.sleep(0)
        levels[host] -= 1
        gate.leave(host)

    await asyncio.gather(*(go(host) for host in ("a", "busy") for _ in range(10)))
    assert most == {"a": 2, "busy": 1}  # one may always go


def test_the_chosen_browser_goes_before_those_of_the_system():
    there = {"chromium": "/usr/bin/chromium", "/opt/chrome": "/opt/chrome"}
    assert system_browser("", there.get) == "/usr/bin/chromium"
    assert system_browser("/opt/chrome", there.get) == "/opt/chrome"
    assert system_browser("", lambda _name: None) is None
    with pytest.raises(ConfigError, match="PLAYWRIGHT_EXECUTABLE=/no/such"):
        system_browser("/no/such", there.get)


@pytest.mark.server
@pytest.mark.slow
def test_a_crawl_that_renders_nothing_does_not_import_playwright():
    code = "import sys, llmcrawler.spiders.explore; sys.exit(any('playwright' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[3]).returncode == 0
