"""The client against a real HTTP server: what it asks, what it forgives, what it gives up on."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from email.utils import formatdate
from typing import Any

import pytest

from llmcrawler.core.llm.call_limits import CallLimits, Clock
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.usage import Price, Usage
from llmcrawler.errors import BadAnswer, LLMFailed, LLMUnavailable
from tests.core.llm.clients import KEY, SCHEMA, WALL_SECONDS, FakeTime, ask, client_at, document
from tests.core.llm.conftest import Connect
from tests.servers.fake_llm import FakeLLM, label_by_url

pytestmark = pytest.mark.server


async def test_asks_with_a_strict_schema_and_one_task_document(connect: Connect) -> None:
    async with connect() as (server, client):
        answer = await ask(client)
    assert [page["label"] for page in answer["pages"]] == ["product", "product"]
    body, messages = server.bodies[0], server.bodies[0]["messages"]
    assert body["model"] == "m"
    assert body["response_format"]["json_schema"]["strict"] is True
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert messages[0] == {"role": "system", "content": "You sort pages."}
    assert [message["role"] for message in messages[1:]] == ["user"]
    assert json.loads(messages[-1]["content"]) == document()
    assert server.authorizations == [f"Bearer {KEY}"]


@pytest.mark.parametrize("fault", ["429", "429:3", "500", "503", "reset", "html"])
async def test_a_passing_fault_is_tried_again(fault: str, connect: Connect) -> None:
    async with connect(faults=[fault, fault]) as (server, client):
        assert await ask(client)
    assert server.calls == 3
    assert client.usage.total.calls == (1 if fault == "reset" else 3)
    assert client.usage.retries == 2
    assert sum(client.usage.faults.values()) == 2


async def test_retry_after_is_honoured_in_seconds_and_as_a_date(fake_time: FakeTime, connect: Connect) -> None:
    date = formatdate(WALL_SECONDS + 7 + 20, usegmt=True)
    async with connect(faults=["429:7", f"429:{date}"]) as (_, client):
        await ask(client)
    assert fake_time.sleeps == pytest.approx([7, 20])


async def test_waits_grow_and_their_sum_is_bounded(fake_time: FakeTime, connect: Connect) -> None:
    async with connect(faults=["500"] * 9, limits=CallLimits(max_attempts=4)) as (server, client):
        with pytest.raises(BadAnswer):
            await ask(client)
        assert fake_time.sleeps == [0.5, 1, 2]
        assert server.calls == 4
        server.faults.clear()
        server.faults.extend(["429:100", "429:100"])
        with pytest.raises(LLMFailed):
            await ask(client)
    assert fake_time.sleeps == [0.5, 1, 2, 100]


@pytest.mark.parametrize(
    ("refusal", "named"),
    [
        ((401, "no"), "LLM_API_KEY was refused by 127.0.0.1"),
        ((403, "no"), "LLM_API_KEY"),
        ((402, "no"), "credit"),
        ((404, "no"), "LLM_BASE_URL"),
        ((404, "The model `m` does not exist"), "LLM_MODEL 'm'"),
    ],
)
async def test_a_refusal_names_the_setting_and_ends_all_asking(
    refusal: tuple[int, str], named: str, connect: Connect
) -> None:
    async with connect(FakeLLM(refuse=lambda _body: refusal)) as (server, client):
        for _ in range(2):
            with pytest.raises(LLMUnavailable, match=named):
                await ask(client)
    assert server.calls == 1


async def test_without_a_model_the_first_that_the_server_lists_is_asked(connect: Connect) -> None:
    async with connect(model="") as (server, client):
        await asyncio.gather(ask(client), ask(client))
    assert [body["model"] for body in server.bodies] == ["fake-model", "fake-model"]
    assert server.model_lists == 1
    async with connect(FakeLLM(models=()), model="") as (_, client):
        with pytest.raises(LLMUnavailable, match="set LLM_MODEL"):
            await ask(client)


@pytest.mark.parametrize("known", ["json_object", ""])
async def test_a_server_that_does_not_know_json_schema_is_asked_in_words(
    known: str, fake_time: FakeTime, connect: Connect
) -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        form = body.get("response_format", {}).get("type", "")
        return None if form in {known, ""} else (400, f"response_format type {form} is not supported")

    async with connect(FakeLLM(label_by_url([("/p/", "product")]), refuse=refuse)) as (server, client):
        assert await ask(client)
        calls = server.calls
        assert await ask(client)
    assert server.calls == calls + 1, "what was found out is remembered"
    assert server.bodies[-1].get("response_format", {}).get("type", "") == known
    assert '"enum"' in server.bodies[-1]["messages"][0]["content"]
    assert fake_time.sleeps == []


async def test_a_parameter_that_the_server_does_not_know_is_left_out(connect: Connect) -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        return (400, "Unknown parameter: 'reasoning_effort'") if "reasoning_effort" in body else None

    async with connect(FakeLLM(refuse=refuse), reasoning_effort="low") as (server, client):
        await ask(client, max_answer_tokens=500)
        await ask(client, max_answer_tokens=500)
    assert server.calls == 3
    assert server.bodies[-1]["max_tokens"] == 500


async def test_a_bound_that_strict_mode_does_not_know_is_checked_here_only(connect: Connect) -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, str] | None:
        known = "maximum" not in json.dumps(body["response_format"])
        return None if known else (400, "Invalid schema for response_format 'classify': 'maximum' is not permitted.")

    def answer(_asked: Any) -> Any:
        return {"pages": [{"id": "1", "label": "other", "confidence": 7}]}

    async with connect(FakeLLM(answer, refuse=refuse)) as (server, client):
        with pytest.raises(BadAnswer, match="greater than the maximum"):
            await ask(client)
    assert server.calls == 2
    assert server.bodies[1]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("fault", ["cut", "length", "prose", "refusal", "empty"])
async def test_an_answer_that_does_not_fit_is_a_bad_answer(fault: str, connect: Connect) -> None:
    async with connect(faults=[fault]) as (server, client):
        with pytest.raises(BadAnswer):
            await ask(client)
        assert await ask(client)
    assert server.calls == 2, "the client itself does not ask again: the batch may better be smaller"
    assert client.usage.bad_answers == 1


async def test_what_is_whole_in_an_answer_is_read(connect: Connect) -> None:
    async with connect(faults=["fenced", "length", "cut"]) as (_, client):
        assert len((await ask(client))["pages"]) == 2, "in a fence, with words around it"
        for _ in range(2):
            pages = (await ask(client, 20, salvage=True))["pages"]
            assert [page["id"] for page in pages] == [str(n) for n in range(1, len(pages) + 1)]
            assert 8 <= len(pages) <= 10


async def test_a_label_that_was_not_offered_is_a_bad_answer_or_left_out(connect: Connect) -> None:
    server = FakeLLM(label_by_url([("/p/1", "product"), ("/p/2", "spaceship")]))
    async with connect(server) as (_, client):
        with pytest.raises(BadAnswer, match="is not one of"):
            await ask(client)
        assert [page["id"] for page in (await ask(client, salvage=True))["pages"]] == ["1"]


async def test_too_long_a_question_is_a_bad_answer_so_that_it_is_asked_in_parts(connect: Connect) -> None:
    refusal = (400, "maximum context length is 4096 tokens, max_tokens 9")
    async with connect(FakeLLM(refuse=lambda _body: refusal)) as (server, client):
        with pytest.raises(BadAnswer, match="context length"):
            await ask(client, max_answer_tokens=9)
    assert server.calls == 1


async def test_a_hung_server_costs_the_timeout_twice_and_then_asks_for_less(connect: Connect) -> None:
    async with connect(faults=["hang", "hang"], limits=CallLimits(timeout_seconds=0.05)) as (server, client):
        with pytest.raises(BadAnswer, match=r"timeout: no answer within 0\.05 s, 2 attempts"):
            await ask(client)
    assert server.calls == 2


async def test_a_server_that_is_not_there_fails_and_is_then_left_alone(fake_time: FakeTime) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    client = client_at(f"http://127.0.0.1:{port}/v1", "m", KEY, clock=fake_time.clock())
    with pytest.raises(LLMFailed, match="unreached"):
        await ask(client)
    assert sum(fake_time.sleeps) == 43.5
    with pytest.raises(LLMFailed, match="the next attempt is in 10 s"):
        await ask(client)
    assert client.usage.faults == {"unreached": 14}
    assert client.usage.total.calls == 0
    await client.close()


async def test_a_server_that_is_away_for_twenty_seconds_loses_nothing(fake_time: FakeTime, connect: Connect) -> None:
    async with connect() as (server, client):
        await ask(client)
        await server.stop()
        back_at, server_is_back = fake_time.now + 20, asyncio.Event()

        async def sleep(seconds: float) -> None:
            await FakeTime.sleep(fake_time, seconds)
            if fake_time.now >= back_at and server.in_flight == 0 and not server_is_back.is_set():
                server_is_back.set()
                await server.start()

        client._clock = Clock(lambda: fake_time.now, lambda: 0.0, sleep, lambda: 0.0)
        answers = await asyncio.gather(ask(client), ask(client), ask(client))
    assert all(answers)
    assert client.usage.faults["lost"] > 3


async def test_after_its_rest_the_server_is_probed_by_one_call(fake_time: FakeTime, connect: Connect) -> None:
    async with connect(faults=["500"] * 4, limits=CallLimits(max_attempts=1)) as (server, client):
        for error in (BadAnswer, BadAnswer, LLMFailed):
            with pytest.raises(error):
                await ask(client)
        fake_time.now += 11
        outcomes = await asyncio.gather(ask(client), ask(client), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [LLMFailed, LLMFailed]
        assert server.calls == 4, "one probe, the other call did not pass"
        fake_time.now += 21
        assert await ask(client)
        assert await ask(client)


async def test_a_proxy_in_the_environment_does_not_stand_before_a_server_on_this_machine(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with connect() as (_, client):
        assert await ask(client)


async def test_half_a_surrogate_pair_in_a_page_can_be_asked_about(connect: Connect) -> None:
    pages = [{"id": "1", "url": "http://shop.test/p/1", "title": "caf\xe9 \ud83d", "text": ""}]
    async with connect() as (server, client):
        assert await client.ask(ModelRequest("classify", "s", {"task": "classify", "pages": pages}, SCHEMA))
    assert server.documents[0]["pages"][0]["title"] == "caf\xe9 ?"


async def test_no_more_calls_run_at_once_than_allowed(connect: Connect) -> None:
    async with connect(FakeLLM(latency_seconds=0.01), limits=CallLimits(concurrency=2)) as (server, client):
        await asyncio.gather(*(ask(client) for _ in range(8)))
    assert server.max_in_flight <= 2


@pytest.mark.parametrize("limits", [CallLimits(requests_per_minute=2), CallLimits(tokens_per_minute=500)])
async def test_rates_per_minute_are_kept(limits: CallLimits, fake_time: FakeTime, connect: Connect) -> None:
    async with connect(limits=limits) as (_, client):
        for _ in range(5):
            await ask(client, 6)
    assert fake_time.sleeps == [60, 60]


async def test_tokens_calls_and_cost_are_counted(connect: Connect) -> None:
    usage = Usage(Price(1.0, 10.0, 0.5))
    async with connect(faults=["", "no-usage"], usage=usage) as (_, client):
        await ask(client)
        total = usage.total
        asked, said, cached = total.prompt_tokens, total.completion_tokens, total.provider_cached_tokens
        assert usage.cost_usd == pytest.approx(((asked - cached) * 1.0 + cached * 0.5 + said * 10.0) / 1e6)
        await ask(client)
    assert usage.total.prompt_tokens == pytest.approx(2 * asked, abs=2), "an estimate where the server does not count"
    assert {name: task.calls for name, task in usage.tasks.items()} == {"classify": 2}


@pytest.mark.parametrize("fault", ["401", "400", "500"])
async def test_a_key_that_the_server_echoes_reaches_no_error_log_stat_or_repr(
    fault: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(faults=[fault] * 9, limits=CallLimits(max_attempts=2)) as (_, client):
        with pytest.raises((BadAnswer, LLMUnavailable)) as caught:
            await ask(client)
    error = caught.value
    assert "fault" in str(error)
    chain = [error, error.__cause__, error.__context__]
    seen = " ".join([*map(repr, chain), caplog.text, repr(client)])
    seen += repr(client.usage.as_dict())
    assert KEY not in seen
    assert KEY[3:] not in seen
