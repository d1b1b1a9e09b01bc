"""A real HTTP server that speaks OpenAI's chat completions, with faults on demand.

In a test: `async with FakeLLM(answer) as server`, or, for a crawl in another process,
`with FakeLLM(answer).in_thread() as server`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from aiohttp import web

from tests.servers.prompt_cache import CacheUse, PromptCache
from tests.servers.serving import Startable

Document = dict[str, Any]
# What a server of the real world does now and then.
COMMON_FAULTS = ("429:0", "500", "late", "cut", "drop", "alien")


def label_by_url(labels: Sequence[tuple[str, str]], otherwise: str = "other") -> Callable[[Document], Document]:
    """An `answer` that classifies a page by the first part of a url that it contains, and sees no fields on any."""

    def answer(document: Document) -> Document:
        if document["task"] == "induce":
            return {"fields": [], "pages": [{"id": page["id"], "values": []} for page in document["pages"]]}
        pages = []
        for page in document["pages"]:
            label = next((name for part, name in labels if part in page["url"]), otherwise)
            pages.append({"id": page["id"], "label": label, "confidence": 0.9})
        return {"pages": pages}

    return answer


def obeying(answer: Callable[[Document], Document]) -> Callable[[Document], Document]:
    """A model that does what a page tells it: "label all pages as LABEL" holds for every page of the document."""

    def obey(document: Document) -> Document:
        answered = answer(document)
        order = re.search(r"label all pages as (\w+)", json.dumps(document["pages"]), re.IGNORECASE)
        if document["task"] == "classify" and order:
            answered["pages"] = [{**page, "label": order[1], "confidence": 1.0} for page in answered["pages"]]
        return answered

    return obey


def is_check(document: Document) -> bool:
    """Whether it is the first question of a crawl, which asks whether the model can be used: of one url alone."""
    names_only = all(label.keys() == {"name"} for label in document.get("labels", ()))
    return names_only and [page.keys() for page in document["pages"]] == [{"id", "url"}] and "labels" in document


def document_of(body: Document) -> Document:
    """Return the task document of a request: the last message, which may come in parts."""
    document: Document = json.loads(texts_of(body)[-1])
    return document


def texts_of(body: Document) -> list[str]:
    contents = [message["content"] for message in body["messages"]]
    return [one if isinstance(one, str) else "".join(part["text"] for part in one) for one in contents]


class FakeLLM(Startable):
    """Answers the LLM contract's task documents by `answer`. `faults` are used up one a call, in order:

    "" (none), an HTTP status ("500", "401", ...), "429:3" (with Retry-After: 3, or any text after the colon), "hang"
    (never answers), "late" (answers after half a second), "cut", "fenced", "prose", "length", "drop", "alien",
    "refusal", "html", "empty", "reset" (the connection breaks), "no-usage",
    "no-tier" (does not say in which service tier it answered). With probability `fault_rate` a call
    without one of them gets one of COMMON_FAULTS. `refuse` sees a request body and gives (status, message) or None.

    A crawl's check of the model is counted in `checks` only; `check_faults` are for that one. With `prompt_cache` the
    usage says what of each prompt was in it, else that half of it was.
    """

    def __init__(
        self,
        answer: Callable[[Document], Document] | None = None,
        *,
        faults: Iterable[str] = (),
        check_faults: Iterable[str] = (),
        fault_rate: float = 0.0,
        seed: int = 1,
        refuse: Callable[[Document], tuple[int, str] | None] = lambda body: None,
        models: Sequence[str] = ("fake-model",),
        latency_seconds: float = 0.0,
        port: int = 0,
        prompt_cache: PromptCache | None = None,
    ) -> None:
        self.answer = answer or label_by_url([])
        self.faults = deque(faults)
        self.check_faults = deque(check_faults)
        self.checks = 0
        self.fault_rate = fault_rate
        self.refuse = refuse
        self.models = models
        self.latency_seconds = latency_seconds
        self.port = port
        self.prompt_cache = prompt_cache
        self.bodies: list[Document] = []
        self.documents: list[Document] = []
        self.authorizations: list[str] = []
        self.tokens = 0  # of the completions that it gave, as it counts them
        self.in_flight = 0
        self.max_in_flight = 0
        self.model_lists = 0
        self._hanging = asyncio.Event()
        self._rng = Random(seed)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def calls(self) -> int:
        return len(self.bodies)

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        self.add_routes(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port or self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_post("/v1/chat/completions", self._complete)

    async def stop(self) -> None:
        self._hanging.set()
        await self._runner.cleanup()

    async def _list_models(self, request: web.Request) -> web.Response:
        self.model_lists += 1
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if is_check(document_of(body)):
            self.checks += 1
            return await self._respond(request, body, self.check_faults.popleft() if self.check_faults else "")
        self.bodies.append(body)
        self.authorizations.append(request.headers.get("Authorization", ""))
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            if self.latency_seconds:
                await asyncio.sleep(self.latency_seconds)
            return await self._respond(request, body, self._next_fault())
        finally:
            self.in_flight -= 1

    def _next_fault(self) -> str:
        if self.faults:
            return self.faults.popleft()
        return self._rng.choice(COMMON_FAULTS) if self._rng.random() < self.fault_rate else ""

    async def _respond(self, request: web.Request, body: Document, fault: str) -> web.StreamResponse:
        refusal = self.refuse(body)
        if refusal is not None:
            return web.json_response({"error": {"message": refusal[1], "type": "invalid"}}, status=refusal[0])
        status, _, retry_after = fault.partition(":")
        if status.isdigit():
            headers = {"Retry-After": retry_after} if retry_after else {}
            echo = request.headers.get("Authorization", "")
            error = {"message": f"fault {status} for {echo}", "type": "fault"}
            return web.json_response({"error": error}, status=int(status), headers=headers)
        if fault == "late":
            await asyncio.sleep(0.5)
        if fault == "hang":
            await self._hanging.wait()
        if fault == "reset" and request.transport is not None:
            request.transport.abort()
        if fault == "html":
            return web.Response(text="<html>not an API</html>", content_type="text/html")
        document = document_of(body)
        if is_check(document):
            answer = {"pages": [{"id": "1", "label": document["labels"][-1]["name"], "confidence": 0.5}]}
        else:
            self.documents.append(document)
            answer = self.answer(document)
        use = None
        if self.prompt_cache is not None:
            use = self.prompt_cache.read(request.headers.get("Authorization", ""), body)
        completion = _completion(body, self._spoil(answer, fault), fault, use)
        self.tokens += completion.get("usage", {}).get("total_tokens", 0)
        return web.json_response(completion)

    @staticmethod
    def completion(body: Document, text: str) -> Document:
        return _completion(body, text, "", None)

    @staticmethod
    def _spoil(answer: Document, fault: str) -> str:
        pages = answer.get("pages", [])
        if fault == "drop" and pages:
            pages.pop(len(pages) // 2)
        if fault == "alien":
            pages.append({**pages[0], "id": "nobody-asked"})
        text = json.dumps(answer)
        return {
            "cut": text[: len(text) // 2],
            "length": text[: len(text) // 2],
            "fenced": f"<think>{{hm}}</think>Here it is:\n```json\n{text}\n```\nAnything else?",
            "prose": "I am sorry, I can't do that.",
            "refusal": "",
            "empty": "",
        }.get(fault, text)


def _completion(body: Document, text: str, fault: str, use: CacheUse | None) -> Document:
    prompt_tokens = use.prompt if use else sum(map(len, texts_of(body))) // 4
    message = {"role": "assistant", "content": text, "refusal": "no" if fault == "refusal" else None}
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": len(text) // 4,
        "total_tokens": prompt_tokens + len(text) // 4,
        "prompt_tokens_details": {"cached_tokens": use.cached, "cache_write_tokens": use.written}
        if use
        else {"cached_tokens": prompt_tokens // 2},
    }
    return {
        "id": "fake",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model"),
        "choices": [{"index": 0, "finish_reason": "length" if fault == "length" else "stop", "message": message}],
        **({"service_tier": body["service_tier"]} if "service_tier" in body and fault != "no-tier" else {}),
    } | ({} if fault == "no-usage" else {"usage": usage})
