import asyncio
import threading
from typing import Any

from scrapy import Request
from scrapy.http import Response

from llmcrawler.engine.handlers import PageHandlers
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
