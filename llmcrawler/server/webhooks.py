"""Tells the webhooks of jobs of their end: once it is delivered, or four tries have failed, within 21 minutes.

POST with the job as JSON; `X-Llmcrawler-Signature` is "sha256=" and the HMAC-SHA256 of `X-Llmcrawler-Timestamp`, a dot
and the body, under the webhook's secret, else the server's token. A receiver should refuse old timestamps, and has to
expect a job twice: a server that is killed just then does not know that it was delivered.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import httpx2
from filelock import FileLock, Timeout
from pydantic import Field

from llmcrawler.core.storage.shared_file import replace_file
from llmcrawler.core.urls.private_addresses import is_private_address
from llmcrawler.errors import JobRefused
from llmcrawler.server.jobs import Jobs, Moment, ServerJob, Webhook, read_as

RETRY_SECONDS: Final = (60.0, 300.0, 900.0)
_TIMEOUT_SECONDS: Final = 10.0  # for all of one delivery
_AT_ONCE: Final = 8
_LOOK_SECONDS: Final = 0.5
_STATE: Final = "webhook.json"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _State:
    """How often a job's webhook was tried, when the next try is due, and what was told the last time."""

    tries: Annotated[int, Field(ge=0)] = 0
    next: Moment = 0.0
    is_over: bool = False
    told: str = ""


class Webhooks:
    """Delivers for one folder of jobs; of several servers one does. What was tried is kept beside each job."""

    def __init__(self, jobs: Jobs, token: str, *, clock: Callable[[], float] = time.time) -> None:
        self._jobs = jobs
        self._token = token
        self._clock = clock
        self._lock = FileLock(jobs.folder / ".webhooks")
        self._states: dict[str, _State] = {}
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

    def begin_due(self) -> list[asyncio.Task[None]]:
        """Start the deliveries that are due, and return all that are under way."""
        for job in self._jobs.all():
            if job.webhook is None or not job.has_ended or job.id in self._under_way:
                continue
            state = self._states.setdefault(job.id, _load_state(job))
            left_seconds = state.next - self._clock()  # more than the longest pause: the clock was put back
            if state.is_over or 0 < left_seconds <= RETRY_SECONDS[-1] or len(self._under_way) >= _AT_ONCE:
                continue
            task = self._under_way[job.id] = asyncio.create_task(self._deliver(job, job.webhook, state))
            task.add_done_callback(lambda _task, number=job.id: self._under_way.pop(number))  # type: ignore[misc]
        return [*self._under_way.values()]

    async def _deliver(self, job: ServerJob, hook: Webhook, before: _State) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                status = await self._post(job, hook)
            told, is_over = f"answered {status}", 200 <= status < 300
        except (OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            told, is_over = str(error) or type(error).__name__, False
        tries = before.tries + 1
        is_given_up = not is_over and tries > len(RETRY_SECONDS)
        pause = 0.0 if is_over or is_given_up else RETRY_SECONDS[tries - 1]
        state = self._states[job.id] = _State(tries, self._clock() + pause, is_over or is_given_up, told)
        if not is_over:
            logger.warning("The webhook of job %s: %s%s", job.id, told, "; it is given up" * is_given_up)
        with suppress(OSError):  # it is deleted meanwhile, or the disk is full
            replace_file(job.folder / _STATE, json.dumps(asdict(state)).encode())

    async def _post(self, job: ServerJob, hook: Webhook) -> int:
        """Send it to an address that was judged, and return the status of the answer; nothing else of it is read."""
        url = httpx2.URL(hook.url)
        addresses = await self._jobs.names.addresses(url.host)
        if not addresses:
            raise ValueError(f"{url.host}: no address is known")
        if not self._jobs.limits.allow_private and any(map(is_private_address, addresses)):
            raise ValueError(f"{url.host} has a private address")
        body, moment = json.dumps(job.as_dict()).encode(), f"{self._clock():.0f}"
        signature = hmac.new((hook.secret or self._token).encode(), f"{moment}.".encode() + body, "sha256").hexdigest()
        headers = {
            "Host": url.netloc.decode(),
            "Content-Type": "application/json",
            "X-Llmcrawler-Timestamp": moment,
            "X-Llmcrawler-Signature": f"sha256={signature}",
        }
        judged, named = url.copy_with(host=addresses[0]), {"sni_hostname": url.host}
        async with (
            httpx2.AsyncClient(verify=ssl.create_default_context(), trust_env=False, timeout=None) as client,
            client.stream("POST", judged, content=body, headers=headers, extensions=named) as answer,
        ):
            return answer.status_code


def _load_state(job: ServerJob) -> _State:
    with suppress(OSError, ValueError, JobRefused):
        return read_as(_State, json.loads((job.folder / _STATE).read_bytes()))
    return _State()
