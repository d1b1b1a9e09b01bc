"""A model whose answers nobody waits for any more."""

import asyncio

import pytest

from llmcrawler.core.llm.call_limits import CallLimits
from llmcrawler.core.llm.client import LanguageModel
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.providers import Endpoint, ProviderChoice
from llmcrawler.errors import LLMStopped
from tests.servers.fake_llm import FakeLLM

QUESTION = ModelRequest("classify", "Sort pages.", {"task": "classify", "pages": []}, {"type": "object"})


def model_at(base_url: str) -> LanguageModel:
    return LanguageModel([Endpoint(ProviderChoice("openai", base_url, "fake-model", "key"), CallLimits())])


async def test_answers_that_are_waited_for_are_given_up_at_once_and_later_ones_are_not_asked_for():
    asked = asyncio.Event()

    def note(_body):
        asked.set()

    async with FakeLLM(faults=["hang", "hang"], refuse=note) as server:
        model = model_at(server.base_url)
        answer = asyncio.ensure_future(model.ask(QUESTION))
        await asked.wait()
        assert model.give_up() == 1
        with pytest.raises(LLMStopped):
            await answer
        asked.clear()
        with pytest.raises(LLMStopped):
            await model.ask(QUESTION)
        assert not asked.is_set()
        assert model.give_up() == 0
        await model.close()


async def test_a_server_that_does_not_name_its_models_is_not_waited_for_either():
    asked, gone = asyncio.Event(), asyncio.Event()

    async def hang(reader, writer):
        asked.set()
        await reader.read()  # until nobody waits any more
        writer.close()
        gone.set()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = LanguageModel([Endpoint(ProviderChoice("openai", f"http://127.0.0.1:{port}/v1", "", "key"), CallLimits())])
    name = asyncio.ensure_future(model.name())
    await asked.wait()
    model.give_up()
    with pytest.raises(LLMStopped):
        await name
    await model.close()
    await gone.wait()
    server.close()
