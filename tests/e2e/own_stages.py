"""Stages of a user's own, for the setting PAGE_STAGES."""

import asyncio
import os
import sys
from decimal import Decimal

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


async def misbehaves(page: Page) -> None:
    if page.depth == 0:
        sys.exit(3)
    if page.url.endswith("/terms/"):
        raise RuntimeError("half a pair: \ud800")
    page.record = {"price": Decimal("1.50")}


async def ends_the_process(page: Page) -> None:
    if page.url.endswith("/terms/"):
        os._exit(9)


async def takes_for_ever(page: Page) -> None:
    if page.url.endswith("/terms/"):
        await asyncio.sleep(3600)
