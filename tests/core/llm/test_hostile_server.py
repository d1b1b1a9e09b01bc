"""A model's server may send anything: that is a fault of its own, within bounds of time, memory and money."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmcrawler.core.llm.budget import Budget, BudgetLimits
from llmcrawler.core.llm.call_limits import CallLimits, Clock
from llmcrawler.core.llm.client import LLMClient
from llmcrawler.core.llm.usage import Price
from llmcrawler.errors import BadAnswer, LLMError, LLMFailed, LLMUnavailable
from tests.core.llm.clients import KEY, ask, client_at
from tests.nightly import rest_by_night
from tests.servers.raw_server import RawServer, answer, raw_server

pytestmark = pytest.mark.server


GOOD = '{"pages": [{"id": "1", "label": "product", "confidence": 1}]}'


async def no_wait(_seconds: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def connected(
    parts: Iterable[bytes], model: str = "m", **options: Any
) -> AsyncIterator[tuple[RawServer, LLMClient]]:
    """A server that always answers so, and a client of it."""
    options.setdefault("limits", CallLimits(max_attempts=2, timeout_seconds=30))
    async with raw_server(lambda: parts) as server:
        client = client_at(server.base_url, model, KEY, clock=Clock(sleep=no_wait), **options)
        yield server, client
        await client.close()


async def error_of(parts: Iterable[bytes], **options: Any) -> tuple[LLMError, RawServer]:
    """What `ask` raises of a server that always answers so; anything but an LLMError is a failure of ours."""
    async with connected(parts, **options) as (server, client):
        with pytest.raises(LLMError) as caught:
            await ask(client)
    return caught.value, server


def completion(text: Any = GOOD, **others: Any) -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], **others}).encode()


def nested(depth: int, inside: str = "") -> str:
    return "[" * depth + inside + "]" * depth


NO_COMPLETIONS = {
    "nested": nested(500_000).encode(),
    "objects": b'{"a":' * 500_000,
    "nested a little too deep": nested(990).encode(),
    "nested choices": b'{"choices":' + nested(900).encode() + b"}",
    "a bracket in a string": completion("[" * 500_000),
    "choices object": b'{"choices": {}}',
    "choices empty": b'{"choices": []}',
    "choices null": b'{"choices": null}',
    "choices of numbers": b'{"choices": [1]}',
    "message text": b'{"choices": [{"message": "product"}]}',
    "content list": completion([{"type": "text", "text": GOOD}]),
    "content number": completion(7),
    "content object": completion({"pages": []}),
    "content true": completion(True),
    "null": b"null",
    "number": b"1e999",
    "NaN": b"NaN",
    "a long number": b"9" * 100_000,
    "a text": b'"hello"',
    "html": b"<html>no API</html>",
    "not UTF-8": b'{"choices": [\xff\xfe\xc0]}',
    "nothing": b"",
    "many values": b'{"choices": [' + b"[]," * 300_000 + b"0]}",
    "event stream": b'data: {"choices": []}\n\ndata: [DONE]\n\n',
}


@pytest.mark.parametrize("body", rest_by_night(NO_COMPLETIONS.values(), 6), ids=NO_COMPLETIONS)
async def test_a_body_that_is_no_completion_is_a_bad_answer(body: bytes) -> None:
    error, _ = await error_of(answer(body))
    assert isinstance(error, BadAnswer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "status", rest_by_night(["400 x", "301 x", "404 x", "429 x", "418 x", "500 x", "503 x", "600 x", "999 x"])
)
@pytest.mark.parametrize(
    "body",
    [
        nested(500_000).encode(),
        b'{"error": ' + nested(900).encode() + b"}",
        b'{"error": {"message": ' + nested(400).encode() + b', "code": ' + nested(400).encode() + b"}}",
        b'{"error": {"message": ["a"], "code": {"a": 1}}}',
        b'{"error": null, "detail": NaN}',
        b"[]",
        b"\xff\xfe",
        b"a word " * 1_000_000,
    ],
    ids=lambda body: str(body[:24]),
)
async def test_an_error_of_any_form_is_one_of_ours(status: str, body: bytes) -> None:
    error, _ = await error_of(answer(body, status=status))
    assert len(str(error)) < 600


async def test_a_status_without_a_body_is_a_bad_answer() -> None:
    for status in ("204 No Content", "205 Reset Content", "206 Partial"):
        error, _ = await error_of([f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n".encode()])
        assert isinstance(error, BadAnswer)


@pytest.mark.parametrize(
    "content_type", ["text/html", "application/json; charset=punycode", "text/plain; charset=idna", "x", "image/png"]
)
async def test_a_wrong_content_type_changes_nothing(content_type: str) -> None:
    async with connected(answer(completion(), content_type=content_type)) as (_, client):
        assert await ask(client) == json.loads(GOOD)
    # Decoding as punycode takes time by the square of the length: an error text must not be decoded so either.
    text = b"abcdefgh- " * 100_000
    error, _ = await error_of(answer(text, status="400 x", content_type=content_type))
    assert "abcdefgh" in str(error)


@pytest.mark.parametrize("reason", [7, True, ["stop"], {"a": 1}, None, ""])
async def test_an_odd_finish_reason_is_that_of_a_whole_answer(reason: Any) -> None:
    choice = {"finish_reason": reason, "message": {"content": GOOD, "refusal": None}}
    async with connected(answer(json.dumps({"choices": [choice]}).encode())) as (_, client):
        assert await ask(client) == json.loads(GOOD)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": "many", "completion_tokens": "few"},
        {"prompt_tokens": -1_000_000, "completion_tokens": -1_000_000},
        {"prompt_tokens": 10**30, "completion_tokens": 10**12},
        {"prompt_tokens": 1e6, "completion_tokens": float("nan")},
        {"prompt_tokens": True, "completion_tokens": [1]},
        {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": -(10**9)}},
        {"prompt_tokens_details": {"cached_tokens": "all"}},
        {"prompt_tokens_details": [1]},
        "none",
        [],
        7,
    ],
)
async def test_a_count_that_cannot_be_is_replaced_by_the_estimate(usage: Any) -> None:
    budget = Budget(BudgetLimits(max_tokens=20_000, max_cost_usd=1.0, price=Price(1.0, 1.0, 0.1)))
    async with connected(answer(completion(usage=usage)), budget=budget) as (_, client):
        await ask(client, max_answer_tokens=100)
        assert (client.usage.total.prompt_tokens, client.usage.total.completion_tokens) == (72, 16)
        assert budget.spent.tokens == 88
        assert budget.spent.cost_usd == pytest.approx(88e-6)


async def test_a_budget_ends_though_the_server_says_that_nothing_was_used() -> None:
    usage = {"prompt_tokens": -50_000, "completion_tokens": 0, "total_tokens": -50_000}
    budget = Budget(BudgetLimits(max_tokens=1_000))
    async with connected(answer(completion(usage=usage)), budget=budget) as (server, client):
        asked = (ask(client, max_answer_tokens=100) for _ in range(60))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(outcomes[-1], LLMUnavailable)
    assert len(server.requests) < 40


class Endless:
    """An answer of 200 MB, if nobody hangs up; a new one for every request."""

    def __init__(self, *headers: bytes, chunk: bytes = b"a" * 65_536) -> None:
        self._headers, self._chunk = headers, chunk

    def __iter__(self) -> Any:
        yield b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Type: application/json", *self._headers, b"", b""])
        for _ in range(200 * 2**20 // len(self._chunk)):
            yield self._chunk


async def test_an_answer_without_an_end_is_cut_off() -> None:
    error, server = await error_of(Endless())
    assert "more than 2,097,152 bytes" in str(error)
    assert server.sent_bytes < 40 * 2**20  # what the system takes in advance is not ours


@pytest.mark.nightly
@pytest.mark.slow
async def test_a_packed_answer_is_counted_unpacked() -> None:
    bomb = gzip.compress(b'{"choices": "' + b"a" * 200 * 2**20 + b'"}', 9)
    error, _ = await error_of(answer(bomb, "Content-Encoding: gzip"))
    assert "more than 2,097,152 bytes" in str(error)
    error, _ = await error_of(answer(gzip.compress(gzip.compress(completion())), "Content-Encoding: gzip, gzip"))
    assert "compressed more than once" in str(error)
    async with connected(answer(gzip.compress(completion()), "Content-Encoding: gzip")) as (server, client):
        assert await ask(client) == json.loads(GOOD)
    assert "accept-encoding: identity" in server.requests[0].lower()


@pytest.mark.nightly
@pytest.mark.slow
async def test_a_body_in_a_million_chunks_is_cut_off_too() -> None:
    error, _ = await error_of(Endless(b"Transfer-Encoding: chunked", chunk=b"1\r\na\r\n" * 10_000))
    assert "more than 2,097,152 bytes" in str(error)


async def test_a_server_that_trickles_is_left_at_the_time_limit() -> None:
    class Trickle:
        def __iter__(self) -> Any:
            yield b"HTTP/1.1 200 OK\r\n\r\n"
            while True:
                yield b" "

    error, _ = await error_of(Trickle(), limits=CallLimits(max_attempts=1, timeout_seconds=0.05))
    assert isinstance(error, (BadAnswer, LLMFailed))


@pytest.mark.parametrize("status", rest_by_night(["301 x", "302 x", "303 x", "307 x", "308 x"]))
async def test_no_redirect_is_followed_and_the_key_goes_nowhere_else(status: str) -> None:
    async with raw_server(lambda: answer(completion())) as other:
        moved = f"Location: {other.base_url}/chat/completions"
        error, server = await error_of(answer(b"", moved, status=status))
    assert isinstance(error, LLMUnavailable)
    assert "LLM_BASE_URL" in str(error)
    assert "redirect" in str(error)
    assert len(server.requests) == 1
    assert other.requests == []


async def test_cookies_of_a_server_are_not_kept() -> None:
    cookie = f"Set-Cookie: a={'b' * 3_000}"
    async with connected(answer(completion(), cookie)) as (server, client):
        await ask(client)
        await ask(client)
    assert not [head for head in server.requests if "cookie" in head.lower()]


@pytest.mark.parametrize(
    "value",
    rest_by_night(
        ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "9" * 500, "Fri, 31 Dec 9999 23:59:59 -2359", "-1", "²"]
    ),
)
async def test_an_odd_retry_after_is_a_fault_like_any_other(value: str) -> None:
    error, _ = await error_of(answer(b"{}", f"Retry-After: {value}", status="429 x"))
    assert isinstance(error, LLMFailed)


@pytest.mark.parametrize(
    "body",
    [
        nested(500_000).encode(),
        b'{"data": 7}',
        b'{"data": ' + nested(900).encode() + b"}",
        b'{"data": [{"id": ["a"]}, {"id": 7}, 7, null]}',
        b'{"data": [' + b'{"id": "m"},' * 200_000 + b"0]}",
        b"\xff",
    ],
    ids=lambda body: str(body[:24]),
)
async def test_a_list_of_models_may_be_anything_too(body: bytes) -> None:
    error, _ = await error_of(answer(body), model="")
    assert not isinstance(error, AssertionError)


async def test_the_list_of_models_is_bounded_and_follows_no_redirect() -> None:
    error, server = await error_of(Endless(), model="")
    assert "more than 2,097,152 bytes" in str(error)
    assert server.sent_bytes < 40 * 2**20
    async with raw_server(lambda: answer(b'{"data": [{"id": "m"}]}')) as other:
        error, _ = await error_of(answer(b"", f"Location: {other.base_url}/models", status="302 x"), model="")
    assert "redirect" in str(error)
    assert other.requests == []


async def test_a_key_that_stands_at_the_cut_of_a_long_message_is_not_shown_in_part() -> None:
    for padding in range(9_978, 10_001, 11):
        error, _ = await error_of(answer(b" " * padding + KEY.encode() + b" x", status="400 x"))
        assert KEY[:6] not in str(error)
