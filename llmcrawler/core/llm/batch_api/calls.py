"""Calls that wait for answers of the Batch API, and the batches that they are in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.core.llm.faults import Fault
from llmcrawler.core.llm.openai_transport import Completion


@dataclass(frozen=True, slots=True)
class SendingRules:
    """Rules of when calls go: when none was added for `quiet_seconds`, or the oldest has waited ten times that. The
    server takes 50,000 calls and 200 MB in a batch; ours are smaller, as they are held in memory.
    """

    quiet_seconds: float = 10.0
    poll_seconds: float = 30.0
    most_calls: int = 500
    most_bytes: int = 16 * 2**20


@dataclass(frozen=True, slots=True)
class WaitingCalls:
    """Calls without an answer, the batches that were created for them, and the age of the oldest of these."""

    calls: int = 0
    batches: int = 0
    oldest_seconds: float = 0.0
    is_sent: bool = True  # none of the calls is still to be sent


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """Task document of a call that an earlier run has made, and the text of its answer. `under_way` are the urls of its
    pages whose type is still to be found.
    """

    document: dict[str, Any]
    text: str
    under_way: frozenset[str]


@dataclass(eq=False, slots=True)
class WaitingCall:
    """A call that is not answered yet. `batches` counts those that it was in; `answered` is None for a call of an
    earlier run, which nobody waits for.
    """

    id: int
    body: Mapping[str, Any]
    since: float
    held: Mapping[str, float]
    answered: asyncio.Future[Completion | Fault] | None
    batches: int = 0

    @property
    def name(self) -> str:
        return f"call-{self.id}"


@dataclass(eq=False, slots=True)
class CallBatch:
    """A batch by our own id; the server's is "" until it is known."""

    id: str
    created: float
    calls: list[WaitingCall]
    api_id: str = ""
    task: asyncio.Task[None] | None = field(default=None)
