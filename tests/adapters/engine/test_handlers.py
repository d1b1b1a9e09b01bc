import asyncio
import re
import sys
import threading
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import NotSupported
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from llmcrawler import errors
from llmcrawler.engine.downloader import PageHandlers
from llmcrawler.engine.request_context import RENDER
from tests.adapters.stubs import stub


@pytest.fixture
def handlers() -> PageHandlers:
    plain = dict.fromkeys(("data", "file", "ftp", "http", "https", "s3"))
    return PageHandlers(get_crawler(settings_dict={"DOWNLOAD_HANDLERS": plain}))


async def test_the_browser_is_imported_once_and_in_a_thread_with_the_first_page_that_wants_it(monkeypatch, handlers):
    imported: list[Any] = []
    made: list[Any] = []

    class Browser:
        def __init__(self):
            made.append(self)

        async def download_request(self, request):
            return Response(request.url)

    def noted(name):
        imported.append((name, threading.current_thread()))
        return stub(BrowserDownloadHandler=Browser)

    monkeypatch.setattr("importlib.import_module", noted)
    request = Request("http://a.test/", meta={RENDER: True})
    await asyncio.gather(*(handlers.download_request_async(request) for _ in range(2)))
    await handlers.download_request_async(request)
    assert {name for name, _ in imported} == {"llmcrawler.engine.browser.handler"}
    assert len(imported) <= 2
    assert threading.main_thread() not in {thread for _, thread in imported}
    assert len(made) == 1


async def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, handlers):
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    monkeypatch.delitem(sys.modules, "llmcrawler.engine.browser.handler", raising=False)
    monkeypatch.setattr(errors, "version", lambda _name: "1.0")
    with pytest.raises(NotSupported):  # there is no other handler either
        await handlers.download_request_async(Request("http://a.test/", meta={RENDER: True}))
    assert re.search(r'playwright.*: pip install "llmcrawler\[browser\]"$', handlers.no_browser or "")


def test_in_a_checkout_the_packages_of_an_extra_are_named(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(errors, "version", missing)
    assert errors.install_command("browser") == "pip install scrapy-playwright"
    assert errors.install_command("redis") == "pip install redis"
