"""What is private of scrapy-playwright's download handler."""

from __future__ import annotations

import pytest
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # type: ignore[import-untyped]

from llmcrawler.engine.compat.rendering_handler import RenderingHandlerBase
from tests.adapters.engine.compat.private_names import check_overridden, check_read


def test_what_is_overridden_is_there_with_the_same_parameters():
    check_overridden(RenderingHandlerBase, ScrapyPlaywrightDownloadHandler, ["_download_request_with_page"])


@pytest.mark.parametrize(
    "name", ["_get_response_and_download", "_download_request", "_launch", "_maybe_launch_browser"]
)
def test_what_is_called_is_there(name):
    assert hasattr(ScrapyPlaywrightDownloadHandler, name)


def test_what_is_read_of_objects_is_in_their_code():
    check_read(ScrapyPlaywrightDownloadHandler, ["_crawler"])
