"""A real Sentinel on a free port."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.redis_server import RedisServer, redis_server


@contextmanager
def sentinel_of(master: RedisServer, folder: Path) -> Iterator[str]:
    """Start a Sentinel that watches a master as "mymaster"; yields the address of both."""
    port, configuration = _free_port(), folder / "sentinel.conf"
    configuration.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {master.port} 1\n")
    parts = [redis_server(), str(configuration), "--sentinel"]
    process = subprocess.Popen(parts, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _wait_until(lambda: _listens(port))
        yield f"redis+sentinel://127.0.0.1:{port}/mymaster"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "Redis does not come up"
        time.sleep(0.05)
