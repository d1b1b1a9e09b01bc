import asyncio
import sys
import threading
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from llmcrawler import errors
from llmcrawler.engine.downloader import PageHandlers, _load_browser
from llmcrawler.engine.request_context import RENDER


class Browser:
    async def download_request(self, request):
        return Response(request.url)


async def test_the_browser_is_imported_in_a_thread_with_the_first_page_that_wants_it(monkeypatch):
    imported: list[Any] = []

    browser: Any = Browser()

    class Pages(PageHandlers):
        def __init__(self):
            self._handlers, self.no_browser = {}, None

        def extra_handler(self, name, load):
            assert imported
            return self._handlers.setdefault(name, browser)

    def noted(name):
        imported.append((name, threading.current_thread()))

    monkeypatch.setattr("importlib.import_module", noted)
    pages = Pages()
    for _ in range(2):
        await asyncio.wait_for(pages.download_request_async(Request("http://a.test/", meta={RENDER: True})), 60)
    assert [name for name, _ in imported] == ["llmcrawler.engine.browser.handler"]
    assert imported[0][1] is not threading.main_thread()


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    monkeypatch.delitem(sys.modules, "llmcrawler.engine.browser.handler", raising=False)
    monkeypatch.setattr(errors, "version", lambda _name: "1.0")
    with pytest.raises(errors.BrowserMissing, match=r'playwright.*: pip install "llmcrawler\[browser\]"$'):
        _load_browser()


def test_in_a_checkout_the_packages_of_an_extra_are_named(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(errors, "version", missing)
    assert errors.install_command("browser") == "pip install scrapy-playwright"
    assert errors.install_command("redis") == "pip install redis"
