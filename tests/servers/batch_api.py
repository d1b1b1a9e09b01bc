"""OpenAI's Batch API before a FakeLLM, over HTTP: files, batches and their states, as their reference describes them.

In a test: `with FakeBatchLLM(answer).in_thread() as server`, or `async with`. By hand:
`python -m tests.servers.batch_api --truth URL_OF_AN_ORACLE [--port 0]` answers batches by asking another server.
Source: developers.openai.com/api/docs/guides/batch and the reference of /batches and /files
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import aiohttp
from aiohttp import web

from tests.servers.fake_llm import Document, FakeLLM, document_of

# What each look at a batch brings it to.
_NEXT = {"validating": "in_progress", "in_progress": "finalizing"}
_MAX_LINES, _MAX_BYTES = 50_000, 200 * 10**6


class FakeBatchLLM(FakeLLM):
    """Counts the calls that batches were paid for in `paid`, as task documents. A batch moves on by one state each time
    it is looked at, and stays `in_progress` while `is_held`.

    Each is used up in order: `ends`, one a batch ("completed", "expired" with every other call answered, "failed",
    "cancelled"); `line_faults`, one a call ("" none, "missing", or an HTTP status); `create_faults` and `file_faults`,
    one a request ("" none, an HTTP status, or "reset" after the batch was created). `on_event` is called with
    "uploaded", "created", "looked" or "download" before the answer goes out.
    """

    def __init__(
        self,
        answer: Callable[[Document], Document] | None = None,
        *,
        ends: Iterable[str] = (),
        line_faults: Iterable[str] = (),
        create_faults: Iterable[str] = (),
        file_faults: Iterable[str] = (),
        is_held: bool = False,
        others: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(answer, **options)
        self.ends, self.line_faults = deque(ends), deque(line_faults)
        self.create_faults, self.file_faults = deque(create_faults), deque(file_faults)
        self.is_held = is_held
        self.on_event: Callable[[str], object] = lambda _name: None
        self.paid: list[Document] = []
        self.paid_bodies: list[Document] = []
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Document] = {}
        self.upstream = ""
        for number in range(others):  # somebody else's of the same organisation
            self._new_batch("file-none", {"owner": f"other {number}"})["status"] = "completed"

    def add_routes(self, app: web.Application) -> None:
        super().add_routes(app)
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._retrieve)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        content = file.file.read()
        if form.get("purpose") != "batch" or len(content) > _MAX_BYTES:
            return _error(400, "Invalid file")
        name = f"file-{len(self.files)}"
        self.files[name] = content
        self.on_event("uploaded")
        return web.json_response({"id": name, "object": "file", "purpose": "batch", "bytes": len(content)})

    async def _create(self, request: web.Request) -> web.StreamResponse:
        given = await request.json()
        fault = self.create_faults.popleft() if self.create_faults else ""
        if fault.isdigit():
            return _error(int(fault), "fault")
        if given["completion_window"] != "24h" or given["endpoint"] != "/v1/chat/completions":
            return _error(400, "Invalid request")
        batch = self._new_batch(given["input_file_id"], given.get("metadata"))
        self.on_event("created")
        if fault == "reset" and request.transport is not None:
            request.transport.abort()
        return web.json_response(batch)

    def _new_batch(self, file: str, metadata: Any) -> Document:
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": file,
            "completion_window": "24h",
            "status": "validating",
            "created_at": int(time.time()),
            "output_file_id": None,
            "error_file_id": None,
            "errors": None,
            "metadata": metadata,
        }
        return self.batches[name]

    async def _list(self, request: web.Request) -> web.StreamResponse:
        names = [*reversed(self.batches)]
        after = request.query.get("after")
        start = names.index(after) + 1 if after else 0
        limit = int(request.query.get("limit", "20"))
        page = names[start : start + limit]
        data = [self.batches[name] for name in page]
        return web.json_response({"object": "list", "data": data, "has_more": start + limit < len(names)})

    async def _retrieve(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        self.on_event("looked")
        if batch is None:
            return _error(404, "No such batch")
        if batch["status"] == "finalizing":
            await self._finish(batch)
        elif not (self.is_held and batch["status"] == "in_progress"):
            batch["status"] = _NEXT.get(batch["status"], batch["status"])
        return web.json_response(batch)

    async def _content(self, request: web.Request) -> web.StreamResponse:
        self.on_event("download")
        fault = self.file_faults.popleft() if self.file_faults else ""
        if fault:
            return _error(int(fault), "fault")
        content = self.files.get(request.match_info["id"])
        return _error(404, "No such file") if content is None else web.Response(body=content)

    async def _finish(self, batch: Document) -> None:
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        end = self.ends.popleft() if self.ends else "completed"
        if len(lines) > _MAX_LINES or len({line["custom_id"] for line in lines}) < len(lines):
            end = "failed"
        batch["status"] = end
        if end == "failed":
            batch["errors"] = {"object": "list", "data": [{"code": "invalid", "message": "no batch of ours"}]}
            return
        answered, faulty = [], []
        for number, line in enumerate(lines):
            fault = self.line_faults.popleft() if self.line_faults else ""
            if end == "cancelled" or (end == "expired" and number % 2):
                error = {"code": f"batch_{end}", "message": "This request could not be executed in time"}
                faulty.append({"id": f"req_{number}", **_named(line), "response": None, "error": error})
            elif fault.isdigit():
                body = {"error": {"message": f"fault {fault}"}}
                faulty.append({**_named(line), "response": {"status_code": int(fault), "body": body}, "error": None})
            elif fault != "missing":
                completion = await self._completion(line["body"])
                answered.append({**_named(line), "response": {"status_code": 200, "body": completion}, "error": None})
        for key, entries in (("output_file_id", answered), ("error_file_id", faulty)):
            Random(len(entries)).shuffle(entries)
            if entries:
                batch[key] = f"file-{len(self.files)}"
                self.files[batch[key]] = b"".join(json.dumps(one).encode() + b"\n" for one in entries)

    async def _completion(self, body: Document) -> Document:
        document = document_of(body)
        self.paid.append(document)
        self.paid_bodies.append(body)
        if not self.upstream:
            return self.completion(body, json.dumps(self.answer(document)))
        async with aiohttp.ClientSession() as session, session.post(self.upstream, json=body) as answer:
            completion: Document = await answer.json()
            return completion


def _named(line: Document) -> Document:
    return {"custom_id": line["custom_id"]}


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "invalid"}}, status=status)


async def _serve(args: argparse.Namespace) -> None:
    server = FakeBatchLLM(port=args.port)
    server.upstream = f"{args.truth}/chat/completions"
    async with server:
        print(f"READY {server.base_url}", flush=True)  # noqa: T201 - whoever started it waits for this line
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", required=True, help="base url of the server that answers")
    parser.add_argument("--port", type=int, default=0)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args()))
