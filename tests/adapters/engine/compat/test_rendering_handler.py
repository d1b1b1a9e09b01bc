"""What is private of scrapy-playwright's download handler."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from playwright._impl.transport import PipeTransport
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # type: ignore[import-untyped]

from llmcrawler.engine.browser.launching import RenderingHandlerBase
from tests.adapters.engine.compat.private_names import check_overridden, check_read
from tests.adapters.stubs import stub


def test_what_is_overridden_is_there_with_the_same_parameters():
    check_overridden(RenderingHandlerBase, ScrapyPlaywrightDownloadHandler, ["_download_request_with_page"])


@pytest.mark.parametrize(
    "name", ["_get_response_and_download", "_download_request", "_launch", "_maybe_launch_browser"]
)
def test_what_is_called_is_there(name):
    assert hasattr(ScrapyPlaywrightDownloadHandler, name)


async def test_playwrights_process_is_started_in_a_session_of_its_own(monkeypatch):
    assert "await asyncio.create_subprocess_exec(" in inspect.getsource(PipeTransport.connect)
    started: list[dict[str, Any]] = []

    async def start(*_arguments, **options):
        started.append(options)

    async def launch():
        await asyncio.create_subprocess_exec("node", "run-driver")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    handler: Any = stub(_launch=launch)
    await RenderingHandlerBase.start_playwright(handler)
    assert started == [{"start_new_session": True}]
    assert asyncio.create_subprocess_exec is start


def test_what_is_read_of_objects_is_in_their_code():
    check_read(ScrapyPlaywrightDownloadHandler, ["_crawler"])
