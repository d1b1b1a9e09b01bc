"""Follows the files that a crawl in another process writes: its lines, and its log for what its user is to see."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_PROGRESS_LOGGER: Final = "llmcrawler.extensions.progress_reports"
_STATUS_LOGGER: Final = "llmcrawler.commands.crawl"

logger = logging.getLogger(__name__)


class WholeLines:
    """Reads a file that another process writes, line by line; half a line waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def more(self) -> Iterator[str]:
        """Yield the lines that have come since the last time."""
        if self._file is None:
            with suppress(FileNotFoundError):
                self._file = self._path.open("rb")
        while self._file is not None:
            start = self._file.tell()
            line = self._file.readline()
            if not line.endswith(b"\n"):
                self._file.seek(start)
                return
            yield line.decode("utf-8", "replace")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class CrawlLog:
    """Takes from the crawl's log what its user is to see. `cause` is why it ended as it did, in one line."""

    def __init__(self, path: Path) -> None:
        self._lines = WholeLines(path)
        self.close = self._lines.close
        self._last = self._reason = self._error = ""

    @property
    def cause(self) -> str:
        return self._error or self._reason or self._last

    def progress(self) -> Iterator[str]:
        """Yield texts of the progress that have come since the last time; log warnings here."""
        for text in self._lines.more():
            try:
                said = json.loads(text)
                name, level, message = said["logger"], said["level"], said["message"]
            except (ValueError, TypeError, KeyError):  # argparse's, or that of a process that died
                self._last = text.strip().rpartition("error: ")[2] or self._last
                continue
            if name == _PROGRESS_LOGGER:
                yield message
            elif name == _STATUS_LOGGER and "exit_status" in said:
                self._reason = message
            elif level in ("ERROR", "CRITICAL"):
                self._error = self._error or message.partition("\n")[0]
                logger.error("%s", message)
            elif level == "WARNING" and name.startswith("llmcrawler."):
                logger.warning("%s", message)
