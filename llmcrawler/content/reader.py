"""Reads pages without holding up the event loop: an ordinary page here, a very large one in another process."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait

from llmcrawler.content.page import read_page
from llmcrawler.errors import ContentError
from llmcrawler.items import PageContent

_MAX_SECONDS = 30.0


class PageReader:
    """`inline_chars`: the longest page that is read in this process, where it holds up everything else meanwhile."""

    def __init__(self, inline_chars: int) -> None:
        self._inline_chars = inline_chars
        self._pool: ProcessPoolExecutor | None = None
        self._turn = asyncio.Lock()

    async def read(self, html: str, url: str) -> PageContent:
        if len(html) <= self._inline_chars:
            return read_page(html, url)
        async with self._turn:  # so that the time a page waits for the worker is not held against it
            return await self._read_apart(html, url)

    async def _read_apart(self, html: str, url: str) -> PageContent:
        if self._pool is None:
            # Spawned, not forked: a fork would copy the reactor's threads' locks in whatever state they are.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_end_with_parent)
        pool = self._pool
        try:
            async with asyncio.timeout(_MAX_SECONDS):
                return await asyncio.get_running_loop().run_in_executor(pool, read_page, html, url)
        except TimeoutError:
            self.close()
            raise ContentError(f"reading this page of {len(html)} characters took over {_MAX_SECONDS:g} s") from None
        except BrokenProcessPool as error:
            if self._pool is pool:
                self._pool = None  # the next large page gets a fresh one
            raise ContentError(f"the process that read this page of {len(html)} characters died") from error

    def close(self) -> None:
        if self._pool is not None:
            for process in list((self._pool._processes or {}).values()):
                process.kill()  # it may be in a loop of the parser's; nothing else would end it
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _end_with_parent() -> None:
    """A pool's worker outlives a killed parent, as it holds both ends of its queue; a thread waits for the parent."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
