"""A client of a fake server, in time that passes only when someone sleeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from llmcrawler.core.llm.client import LLMClient
from tests.core.llm.clients import KEY, FakeTime, client_at
from tests.servers.fake_llm import FakeLLM, label_by_url

Connect = Callable[..., AbstractAsyncContextManager[tuple[FakeLLM, LLMClient]]]


@pytest.fixture
def fake_time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def connect(fake_time: FakeTime) -> Connect:
    """Return what starts a server, of which all pages are products, and a client of it with these options."""

    @asynccontextmanager
    async def connect(
        server: FakeLLM | None = None, faults: Sequence[str] = (), model: str = "m", **options: Any
    ) -> AsyncIterator[tuple[FakeLLM, LLMClient]]:
        async with server or FakeLLM(label_by_url([("/p/", "product")])) as running:
            running.faults.extend(faults)
            client = client_at(running.base_url, model, KEY, clock=fake_time.clock(), **options)
            try:
                yield running, client
            finally:
                await client.close()

    return connect
