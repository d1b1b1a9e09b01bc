"""Tells the webhooks of jobs of their end: once it is delivered, or four tries have failed, within 21 minutes.

POST with the job as JSON; `X-Llmcrawler-Signature` is "sha256=" and the HMAC-SHA256 of `X-Llmcrawler-Timestamp`, a dot
and the body, under the webhook's secret, else the server's token. A receiver should refuse old timestamps, and has to
expect a job twice: a server that is killed just then does not know that it was delivered.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from filelock import FileLock, Timeout

from llmcrawler.core.storage.shared_file import replace_file
from llmcrawler.core.urls.private_addresses import NameLookup, is_private_address
from llmcrawler.server.jobs import Jobs, ServerJob, Webhook

RETRY_SECONDS: Final = (60.0, 300.0, 900.0)
_TIMEOUT_SECONDS: Final = 10.0  # for all of one delivery
_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 0.5
_STATE: Final = "webhook.json"

logger = logging.getLogger(__name__)


class Webhooks:
    """Delivers for one folder of jobs; of several servers one does. What was tried is kept beside each job."""

    def __init__(
        self, jobs: Jobs, token: str, names: NameLookup | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._jobs = jobs
        self._token = token
        self._names = names or NameLookup()
        self._clock = clock
        self._lock = FileLock(jobs.folder / ".webhooks")
        self._states: dict[str, dict[str, Any]] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Deliver until this is cancelled."""
        try:
            while True:
                with suppress(Timeout, OSError):
                    if not self._lock.is_locked:
                        self._lock.acquire(timeout=0)
                    self.begin_due()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for task in self._under_way.values():
                task.cancel()
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)
            self._lock.release(force=True)
            self._names.close()

    def begin_due(self) -> list[asyncio.Task[None]]:
        """Start the deliveries that are due, and return all that are under way."""
        for job in self._jobs.all():
            if job.webhook is None or not job.has_ended or job.id in self._under_way:
                continue
            state = self._states.setdefault(job.id, _load_state(job))
            if state["is_over"] or state["next"] > self._clock() or len(self._under_way) >= _AT_ONCE:
                continue
            task = self._under_way[job.id] = asyncio.create_task(self._deliver(job, job.webhook, state))
            task.add_done_callback(lambda _task, number=job.id: self._under_way.pop(number))  # type: ignore[misc]
        return [*self._under_way.values()]

    async def _deliver(self, job: ServerJob, hook: Webhook, state: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                status = await self._post(job, hook)
            told, is_over = f"answered {status}", 200 <= status < 300
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError) as error:
            told, is_over = str(error) or type(error).__name__, False
        tries = state["tries"] + 1
        is_given_up = not is_over and tries > len(RETRY_SECONDS)
        pause = 0.0 if is_over or is_given_up else RETRY_SECONDS[tries - 1]
        state.update(tries=tries, told=told, is_over=is_over or is_given_up, next=self._clock() + pause)
        if not is_over:
            logger.warning("The webhook of job %s: %s%s", job.id, told, "; it is given up" * is_given_up)
        with suppress(OSError):  # it is deleted meanwhile, or the disk is full
            replace_file(job.folder / _STATE, json.dumps(state).encode())

    async def _post(self, job: ServerJob, hook: Webhook) -> int:
        """Send it to an address that was judged, and return the status of the answer; nothing else of it is read."""
        parts = urlsplit(hook.url)
        host = parts.hostname or ""
        addresses = await self._names.addresses(host)
        if not addresses:
            raise ValueError(f"{host}: no address is known")
        if not self._jobs.limits.allow_private and any(map(is_private_address, addresses)):
            raise ValueError(f"{host} has a private address")
        is_tls = parts.scheme == "https"
        reader, writer = await asyncio.open_connection(
            addresses[0],
            parts.port or (443 if is_tls else 80),
            ssl=ssl.create_default_context() if is_tls else None,
            server_hostname=host if is_tls else None,
            limit=2**12,
        )
        try:
            secret = hook.secret or self._token
            writer.write(_request(parts, json.dumps(job.as_dict()).encode(), secret, self._clock()))
            protocol, status, *_ = (await reader.readuntil(b"\r\n")).decode("latin-1").split()
            if not protocol.startswith("HTTP/1.") or not status.isdigit():
                raise ValueError("the answer is no HTTP")
            return int(status)
        finally:
            writer.close()


def _request(parts: SplitResult, body: bytes, secret: str, now: float) -> bytes:
    moment = f"{now:.0f}"
    signature = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Llmcrawler-Timestamp: {moment}",
        f"X-Llmcrawler-Signature: sha256={signature}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _load_state(job: ServerJob) -> dict[str, Any]:
    new = {"tries": 0, "next": 0.0, "is_over": False, "told": ""}
    with suppress(OSError, ValueError):
        kept = json.loads((job.folder / _STATE).read_bytes())
        if isinstance(kept, dict) and all(isinstance(kept.get(name), (int, float)) for name in ("tries", "next")):
            return {**new, **kept}
    return new
