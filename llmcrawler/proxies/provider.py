"""What a source of proxies is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from llmcrawler.proxies.proxy import Proxy


class ProxyProvider(Protocol):
    """`load` is asked once, when the first request wants a proxy. It raises NoProxy when there are none to be had."""

    async def load(self) -> Sequence[Proxy]: ...
