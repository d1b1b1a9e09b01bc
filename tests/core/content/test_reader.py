import asyncio
import time
from typing import Any

import pytest

from llmcrawler.core.content import PageReader, read_page

HTML = "<html><title>Long</title><body><p>" + "word " * 500 + "</p></body></html>"


@pytest.mark.server
async def test_a_long_page_is_read_in_another_process_with_the_same_result():
    reader = PageReader(inline_chars=100)
    try:
        apart = await reader.read(HTML, "https://x.example/")
    finally:
        reader.close()
    assert apart == read_page(HTML, "https://x.example/")


def work_for_a_while(html):
    time.sleep(0.01)  # at least
    return html


async def test_after_a_page_that_took_some_milliseconds_here_all_else_goes_on():
    reader = PageReader(inline_chars=100_000)
    seen: list[Any] = []
    for number in range(3):
        asyncio.get_running_loop().call_soon(seen.append, number)
        await reader.apply(work_for_a_while, HTML, url="https://x.example/")
        assert seen == list(range(number + 1))
