"""The openai package without the types that nobody looks at. Each case in a process where it is not imported yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

_TRANSPORT = """
import asyncio, sys, time
from llmcrawler.core.llm.openai_transport import OpenAITransport

transport = OpenAITransport("http://127.0.0.1:9", "key", 5.0, time.time)
print(asyncio.run(transport.complete({"model": "m", "messages": []})).kind)
"""


def run(code: str) -> list[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.nightly
def test_a_request_imports_no_types_of_the_responses_api() -> None:
    unused = "print([name for name in sys.modules if name.startswith('openai.types.responses.response_')])"
    assert run(_TRANSPORT + unused) == ["unreached", "[]"]


@pytest.mark.nightly
def test_the_types_are_there_for_who_looks_for_them() -> None:
    looked = [
        "import openai.types, openai.types.responses",
        "from openai.types import Batch",
        "print(Batch.__name__, openai.types.responses.Response.__name__, hasattr(openai.types, 'Nothing'))",
        "print(type(openai.types) is type(sys), openai.types.chat.ChatCompletion.__name__)",
    ]
    assert run(_TRANSPORT + "\n".join(looked)) == ["unreached", "Batch Response False", "True ChatCompletion"]


def test_a_package_that_is_imported_already_stays_as_it_is() -> None:
    assert run(f"import openai\nbefore = openai.types\n{_TRANSPORT}\nprint(openai.types is before)") == [
        "unreached",
        "True",
    ]
