"""A real browser that looks at a page on this disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from playwright.sync_api import Page, sync_playwright

from llmcrawler.engine.browser.handler import INSTALL, system_browser

BROWSER = system_browser("", shutil.which)
Test = TypeVar("Test", bound=Callable[..., object])


def needs_browser(test: Test) -> Test:
    """Mark a test that looks at pages with a real browser: it runs by night, and is skipped where there is none."""
    skipped: Test = pytest.mark.skipif(BROWSER is None, reason=f"no browser: {INSTALL}")(test)
    marked: Test = pytest.mark.browser(pytest.mark.nightly(skipped))
    return marked


@contextmanager
def looking_at(path: Path) -> Iterator[tuple[Page, list[str]]]:
    """The page, and a list of what it should not do: errors, words in the console, requests."""
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: complaints.append(f"request: {request.url}"))
        page.goto(path.as_uri())
        complaints.remove(f"request: {path.as_uri()}")
        yield page, complaints
        browser.close()
