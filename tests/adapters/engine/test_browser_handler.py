"""The download handler of the browser, without one."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError

from llmcrawler.engine.browser.handler import BrowserDownloadHandler
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
