"""The openai package without the types that nobody looks at. Each case in a process where it is not imported yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.nightly import rest_by_night

TRANSPORT = """
import asyncio, sys, time
from llmcrawler.core.llm.openai_transport import OpenAITransport

transport = OpenAITransport("http://127.0.0.1:9", "key", 5.0, time.time)
print(asyncio.run(transport.complete({"model": "m", "messages": []})).kind)
"""
LOOKING = """
import openai.types, openai.types.responses
from openai.types import Batch
print(Batch.__name__, openai.types.responses.Response.__name__, hasattr(openai.types, "Nothing"))
print(type(openai.types) is type(sys), openai.types.chat.ChatCompletion.__name__)
"""
CASES = {
    "a package that is imported already stays as it is": (
        f"import openai\nbefore = openai.types\n{TRANSPORT}\nprint(openai.types is before)",
        ["unreached", "True"],
    ),
    "a request imports no types of the responses API": (
        TRANSPORT + "print([name for name in sys.modules if name.startswith('openai.types.responses.response_')])",
        ["unreached", "[]"],
    ),
    "the types are there for who looks for them": (
        TRANSPORT + LOOKING,
        ["unreached", "Batch Response False", "True ChatCompletion"],
    ),
}


@pytest.mark.parametrize(("code", "said"), rest_by_night(CASES.values(), 1), ids=CASES)
def test_only_what_a_request_needs_is_imported(code: str, said: list[str]) -> None:
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines() == said
