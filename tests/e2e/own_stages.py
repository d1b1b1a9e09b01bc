"""Stages of a user's own, for the setting PAGE_STAGES."""

import asyncio
import os

from llmcrawler.items import Page


async def count_words(page: Page) -> int:
    return len((page.text or "").split())


async def breaks_on_products(page: Page) -> None:
    if page.page_type == "product":
        raise RuntimeError("no products today")


async def breaks_when_told(page: Page) -> str:
    if page.url.endswith(os.environ.get("BREAK_ON", "nothing")):
        raise RuntimeError("as told")
    return "fine"


async def takes_for_ever(page: Page) -> None:
    if page.url.endswith("/terms/"):
        await asyncio.sleep(3600)


def not_async(page: Page) -> None: ...
