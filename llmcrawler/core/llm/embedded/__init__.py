"""Runs the embedded model: fetches its weights once, and serves them with a subprocess that speaks the OpenAI API."""

from __future__ import annotations

import importlib.util

from llmcrawler.core.llm.embedded.download import QWEN_CODER_1_5B, Progress
from llmcrawler.core.llm.embedded.machine import available_memory_bytes
from llmcrawler.core.llm.embedded.server import EmbeddedServer
from llmcrawler.core.llm.embedded.weights import default_cache_folder, ensure_weights, explicit_model
from llmcrawler.errors import LLMUnavailable, install_command

# Measured for the default model: 2.0 GB resident for a file of 1.1 GB (the file, its repacked copy, 8,192 tokens).
MEMORY_PER_FILE_BYTE = 2.0
CURE = (
    "Use another model with LLM_BASE_URL (Ollama, vLLM, any OpenAI-compatible server) or OPENAI_API_KEY, "
    "name a GGUF file with LLM_EMBEDDED_MODEL, or silence this with LLM_PROVIDER=none."
)


async def launch(model_path: str = "", *, on_progress: Progress = lambda _done, _total: None) -> EmbeddedServer:
    """Start a server. `model_path` is LLM_EMBEDDED_MODEL; without it the default weights are found or fetched.

    What would stop it is asked before 1.1 GB are fetched. `on_progress(bytes_done, bytes_total)` comes from another
    thread, and only while something is fetched. Raises ConfigError for a wrong `model_path`, LLMUnavailable, with what
    failed and what to do, for everything else.
    """
    try:
        if importlib.util.find_spec("xllamacpp") is None:
            raise LLMUnavailable(f"the embedded model needs the package xllamacpp: {install_command('embedded')}")
        file = explicit_model(model_path) if model_path else None
        check_memory(file.stat().st_size if file else QWEN_CODER_1_5B.size_bytes, available_memory_bytes())
        server = EmbeddedServer(file or await ensure_weights(on_progress=on_progress))
        await server.start()
    except LLMUnavailable as error:
        raise LLMUnavailable(f"{error}. {CURE}") from error
    return server


def check_memory(file_bytes: int, free_bytes: int | None) -> None:
    """Raise LLMUnavailable where a model file of that size does not fit; `free_bytes` is None where it is not known."""
    need = int(file_bytes * MEMORY_PER_FILE_BYTE)
    if free_bytes is not None and free_bytes < need:
        raise LLMUnavailable(
            f"the embedded model needs about {need / 1e9:.1f} GB of memory, {free_bytes / 1e9:.1f} GB are free"
        )
