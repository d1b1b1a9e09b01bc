"""Serves a model on a loopback port with a subprocess, for as long as the crawl runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Iterable
from importlib.resources import as_file, files
from pathlib import Path

from llmcrawler.core.processes.cores import usable_cores
from llmcrawler.errors import LLMUnavailable

logger = logging.getLogger(__name__)

# One page of numbered blocks, and the examples before it; 235 MB of memory for the default model.
CONTEXT_TOKENS = 8192
START_SECONDS = 120.0
STOP_SECONDS = 5.0
_LLAMA_ERROR = re.compile(r"[\d.]+ E (?!Traceback)(.*)")  # a time, a level, the text


class EmbeddedServer:
    """Starts, watches, restarts once, and stops the server process.

    A server that dies during the crawl comes back on the same port with the same key, so a client that lost its
    connection can ask again. One that dies a second time stays away.
    """

    def __init__(
        self,
        model_path: Path,
        *,
        threads: int | None = None,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.model = model_path.stem
        self.api_key = secrets.token_urlsafe(24)
        self.base_url = ""
        self._model_path = model_path
        self._threads = threads or usable_cores()
        self._start_seconds = start_seconds
        self._port = 0
        self._process: Process | None = None
        self._last_lines: deque[str] = deque(maxlen=20)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Return once the model answers at `base_url`. Raises LLMUnavailable with the last words of the server."""
        await self._spawn()
        self._tasks.append(asyncio.create_task(self._restart_once()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._end_process()

    def abandon(self) -> None:
        """End the process at once and start it no more: nobody waits for an answer."""
        for task in self._tasks:
            task.cancel()
        self.kill()

    def kill(self) -> None:
        """End the process at once, where nothing can be awaited any more."""
        if self._process and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _spawn(self) -> None:
        try:
            async with asyncio.timeout(self._start_seconds):
                address = await self._launch()
                await _healthy(address)
        except TimeoutError as error:
            await self._end_process()
            raise self._unavailable(f"did not start within {self._start_seconds:.0f} s") from error
        except OSError as error:
            await self._end_process()
            raise self._unavailable(f"could not be started: {error}") from error
        except BaseException:
            self.kill()
            raise
        self._port = int(address.rpartition(":")[2])
        self.base_url = f"{address}/v1"
        logger.info("Embedded model %s: pid %s, %s threads, %s", self.model, self.pid, self._threads, address)

    async def _launch(self) -> str:
        """Start the process; return its address once it says that the model is loaded."""
        # As a script, not with -m: the child then imports nothing of the project, and finds it from any working
        # directory; as_file, because a Scrapyd egg may be zipped. -P keeps our module names off the child's path.
        with as_file(files(__package__) / "serve.py") as script:
            command = [sys.executable, "-P", str(script)]
            # In a session of its own: Ctrl-C, and the SIGTERM of `timeout`, reach all processes of the crawl's group.
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
            self._process = process
            assert process.stdin
            assert process.stdout
            reader = asyncio.create_task(self._read_log(process))
            self._tasks.append(reader)
            config = {
                "model_path": str(self._model_path),
                "port": self._port,
                "api_key": self.api_key,
                "context_tokens": CONTEXT_TOKENS,
                "threads": self._threads,
            }
            process.stdin.write(json.dumps(config).encode() + b"\n")
            with contextlib.suppress(ConnectionError):  # it died at once: the exit status tells below
                await process.stdin.drain()
            line = await process.stdout.readline()
            if not line:
                status = await process.wait()
                await reader
                raise self._unavailable(f"ended with status {status} before it was ready")
            return str(json.loads(line)["address"])

    async def _read_log(self, process: Process) -> None:
        assert process.stderr
        rest = b""
        while chunk := await process.stderr.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                text = line.decode("utf-8", "replace").rstrip()
                self._last_lines.append(text)
                logger.debug("%s", text)

    async def _restart_once(self) -> None:
        assert self._process
        status = await self._process.wait()
        logger.warning("The embedded model's server ended with status %s; starting it again", status)
        try:
            await self._spawn()
        except LLMUnavailable as error:
            logger.error("%s", error)
        else:
            status = await self._process.wait()
            logger.error("%s", self._unavailable(f"ended twice, the second time with status {status}"))

    async def _end_process(self) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        process.stdin.close()  # the server ends at the end of its stdin
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()

    def _unavailable(self, what: str) -> LLMUnavailable:
        return LLMUnavailable(f"the embedded model's server {what}{_last_words(self._last_lines)}")


def _last_words(lines: Iterable[str]) -> str:
    """Return the first errors of llama.cpp in a log, which name the cause, else the log's last lines.

    llama.cpp writes from a thread of its own, so its mark may stand before a line of Python's traceback.
    """
    said = [line.strip() for line in lines if line.strip()]
    errors = [error[1] for line in said if (error := _LLAMA_ERROR.match(line))]
    return f"; it said: {' | '.join(errors[:4] or said[-3:])}" if said else ""


async def _healthy(address: str) -> None:
    """Return when /health answers 200; a bare request, so that no HTTP client is needed."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    while True:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            status = await reader.readline()
        finally:
            writer.close()
        if b" 200 " in status:
            return
        await asyncio.sleep(0.1)
