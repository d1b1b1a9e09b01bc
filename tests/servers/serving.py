"""The start-up of the servers that are run as programs: `python -m tests.servers.many_pages --count 30`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol


class Server(Protocol):
    async def start(self, port: int = 0) -> None: ...

    def url(self, path: str = "/") -> str: ...


def serve(description: str | None, make: Callable[[argparse.Namespace], Server], **defaults: float) -> None:
    """Serve until it is ended. `defaults`: what the command line can say beside --port. Whoever started it waits for
    the line "READY <url>".
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(make(options), options.port))


async def _serve(server: Server, port: int) -> None:
    await server.start(port)
    print(f"READY {server.url()}", flush=True)  # noqa: T201 - the line that the starter waits for
    await asyncio.Event().wait()
