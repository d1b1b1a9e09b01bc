"""Speaks OpenAI's Batch API: files of calls go up, batches are made of them, and files of answers come down.

Source: developers.openai.com/api/docs/guides/batch and the reference of /batches and /files.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from llmcrawler.core.content.untrusted_json import loads
from llmcrawler.core.llm.faults import SERVER_ERROR, Fault, Redactor, fault_of_status
from llmcrawler.core.llm.openai_transport import Completion, OpenAITransport, error_in, read_completion

if TYPE_CHECKING:
    import openai

T = TypeVar("T")

ENDPOINT: Final = "/v1/chat/completions"
# So is a batch of ours found again whose id was never heard.
_OUR_ID: Final = "llmcrawler_batch"
_IS_OVER: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_TIMEOUT_SECONDS: Final = 300.0
# Of a file of answers, which is held in memory. Those of as many calls as a batch of ours has are far smaller.
_MAX_FILE_BYTES: Final = 48 * 2**20
_PAGE: Final = 100
_MAX_PAGES: Final = 50
# A batch is not looked for among those that are older than it by so much: clocks differ.
_CLOCK_SECONDS: Final = 86_400.0
_MAX_ID_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ApiBatch:
    """A batch as the server describes it. `our_id` is what it was created with; `problem` says why it failed."""

    id: str
    status: str
    our_id: str | None
    created: float
    files: tuple[str, ...]
    problem: str

    @property
    def is_over(self) -> bool:
        return self.status in _IS_OVER


class BatchProvider:
    """Asks one server. Every method returns a Fault where it fails."""

    def __init__(self, base_url: str, api_key: str, wall_clock: Callable[[], float]) -> None:
        self.base_url = base_url
        self._redact = Redactor(api_key)
        self._wall_clock = wall_clock
        self._transport = OpenAITransport(
            base_url, api_key, _TIMEOUT_SECONDS, self._redact, wall_clock=wall_clock, max_bytes=_MAX_FILE_BYTES
        )

    async def upload(self, calls: bytes) -> str | Fault:
        """Upload a file of calls; return its id."""
        file = ("calls.jsonl", calls, "application/jsonl")
        answer = await self._transport.send(
            lambda client: client.files.with_raw_response.create(file=file, purpose="batch")
        )
        return self._read(answer, _id_of, "an uploaded file")

    async def create(self, file: str, our_id: str) -> ApiBatch | Fault:
        """Make a batch of an uploaded file."""
        answer = await self._transport.send(
            lambda client: client.batches.with_raw_response.create(
                input_file_id=file, endpoint=ENDPOINT, completion_window="24h", metadata={_OUR_ID: our_id}
            )
        )
        return self._read(answer, self._batch_of, "a batch")

    async def retrieve(self, batch: str) -> ApiBatch | Fault:
        answer = await self._transport.send(lambda client: client.batches.with_raw_response.retrieve(batch))
        return self._read(answer, self._batch_of, "a batch")

    async def find(self, our_ids: Collection[str], since: float) -> dict[str, str] | Fault:
        """Return the ids of the batches that were created with these of ours, since this moment, as far as there are
        any. It asks once at least, and so shows whether the server has a Batch API.
        """
        found: dict[str, str] = {}
        after: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._page(after)
            if isinstance(page, Fault):
                return page
            batches, has_more = page
            found |= {one.our_id: one.id for one in batches if one.our_id in our_ids}  # type: ignore[misc]  # ids are text
            is_past = bool(batches) and batches[-1].created < since - _CLOCK_SECONDS
            if not batches or not has_more or is_past or len(found) == len(our_ids):
                break
            after = batches[-1].id
        return found

    async def download(self, file: str) -> bytes | Fault:
        return await self._transport.send(lambda client: client.files.with_raw_response.content(file))

    def outcomes(self, file: bytes) -> dict[str, Completion | Fault]:
        """Return what the lines of a file say of each call, by its id; lines that say nothing are left out. It takes
        its time, and belongs into a thread.
        """
        found: dict[str, Completion | Fault] = {}
        for line in file.splitlines():
            try:
                entry = loads(line)
            except ValueError:
                continue
            name = entry.get("custom_id") if isinstance(entry, dict) else None
            response = entry.get("response") if isinstance(name, str) else None
            if isinstance(name, str) and isinstance(response, dict):
                outcome = self._outcome(response.get("status_code"), response.get("body"))
                if outcome is not None:
                    found[name] = outcome
        return found

    async def close(self) -> None:
        await self._transport.close()

    def _outcome(self, status: Any, body: Any) -> Completion | Fault | None:
        if not isinstance(status, int) or not isinstance(body, dict):
            return None
        if 200 <= status < 300:
            return read_completion(body)
        message, code = error_in(body, f"status {status}")
        return fault_of_status(status, self._redact(message), code, {}, self._wall_clock())

    async def _page(self, after: str | None) -> tuple[list[ApiBatch], bool] | Fault:
        """Return a page of the server's batches, the newest first, and whether there are more."""

        def ask(client: openai.AsyncOpenAI) -> Awaitable[Any]:
            batches = client.batches.with_raw_response
            return batches.list(limit=_PAGE) if after is None else batches.list(limit=_PAGE, after=after)

        def read(reply: Mapping[str, Any]) -> tuple[list[ApiBatch], bool] | None:
            entries = reply.get("data")
            if not isinstance(entries, list):
                return None
            batches = [self._batch_of(one) for one in entries[:_PAGE] if isinstance(one, dict)]
            return [one for one in batches if one is not None], reply.get("has_more") is True

        return self._read(await self._transport.send(ask), read, "a list of batches")

    def _read(self, answer: bytes | Fault, read: Callable[[Mapping[str, Any]], T | None], what: str) -> T | Fault:
        if isinstance(answer, Fault):
            return answer
        try:
            reply = loads(answer)
        except ValueError:
            reply = None
        found = read(reply) if isinstance(reply, dict) else None
        return Fault(SERVER_ERROR, f"not {what}: {self._redact(answer[:300])}") if found is None else found

    def _batch_of(self, reply: Mapping[str, Any]) -> ApiBatch | None:
        name, status, created, metadata = (reply.get(key) for key in ("id", "status", "created_at", "metadata"))
        if not _is_id(name) or not isinstance(status, str):
            return None
        our_id = metadata.get(_OUR_ID) if isinstance(metadata, dict) else None
        files = tuple(str(reply[key]) for key in ("output_file_id", "error_file_id") if _is_id(reply.get(key)))
        return ApiBatch(
            str(name),
            status,
            our_id if isinstance(our_id, str) else None,
            float(created) if isinstance(created, int) else 0.0,
            files,
            self._redact(_said(reply.get("errors"))),
        )


def line_of(name: str, body: Mapping[str, Any]) -> bytes:
    """Return a call as a line of a file that is uploaded."""
    call = {"custom_id": name, "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(call, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_ID_CHARS


def _id_of(reply: Mapping[str, Any]) -> str | None:
    name = reply.get("id")
    return str(name) if _is_id(name) else None


def _said(errors: Any) -> str:
    data = errors.get("data") if isinstance(errors, dict) else None
    entries = [one for one in data[:3] if isinstance(one, dict)] if isinstance(data, list) else []
    return "; ".join(f"{one.get('code')}: {one.get('message')}" for one in entries)
