"""Tells which proxies work, by trying all of them at once."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.politeness.proxies.proxy import Proxy
from llmcrawler.core.politeness.proxies.services import load_http_client


@dataclass(frozen=True, slots=True)
class ProxyCheck:
    """The outcome of tries. `error` is empty for a proxy that works; `seconds` is what the last try took."""

    proxy: Proxy
    seconds: float
    error: str = ""

    @property
    def works(self) -> bool:
        return not self.error


async def check_proxies(
    proxies: Iterable[Proxy], url: str, *, timeout_seconds: float = 10.0, attempts: int = 2, concurrency: int = 50
) -> list[ProxyCheck]:
    """Fetch `url` through each proxy; one works that brings an answer under 400. In the order given."""
    httpx = await load_http_client()
    # Reading the certificates takes 10 ms, which a list of a thousand proxies would pay for each of them.
    context = await asyncio.to_thread(httpx.create_ssl_context)
    room = asyncio.Semaphore(concurrency)

    async def check(proxy: Proxy) -> ProxyCheck:
        async with room:
            for _ in range(attempts):
                started = time.monotonic()
                error = await _fetch(httpx, context, proxy, url, timeout_seconds)
                seconds = time.monotonic() - started
                if not error:
                    break
        return ProxyCheck(proxy, seconds, proxy.hide(error))

    return list(await asyncio.gather(*map(check, proxies)))


async def _fetch(httpx: Any, context: ssl.SSLContext, proxy: Proxy, url: str, timeout_seconds: float) -> str:
    auth = (proxy.username, proxy.password) if proxy.username else None
    through = httpx.Proxy(proxy.address, auth=auth)
    try:
        # The client's timeout is for each read: a server that trickles would never reach it.
        async with (
            asyncio.timeout(timeout_seconds),
            httpx.AsyncClient(proxy=through, verify=context, trust_env=False, timeout=None) as client,
            client.stream("GET", url) as answer,
        ):
            return "" if answer.status_code < 400 else f"status {answer.status_code}"
    except TimeoutError:
        return f"no answer within {timeout_seconds:g} s"
    except (httpx.HTTPError, OSError) as error:
        return f"{type(error).__name__}: {error}"
