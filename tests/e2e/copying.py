"""A feed storage as those of S3 and FTP are: the feed waits in a temporary file, and goes away as a whole."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import IO, Any

from scrapy.extensions.feedexport import BlockingFeedStorage

STORAGES = {
    "": "llmcrawler.exporters.files.JobFileStorage",
    "file": "llmcrawler.exporters.files.JobFileStorage",
    "copy": "tests.e2e.copying.CopyStorage",
}


class CopyStorage(BlockingFeedStorage):
    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self._path = Path(uri.removeprefix("copy://"))

    def _store_in_thread(self, file: IO[bytes]) -> None:
        file.seek(0)
        with file, self._path.open("wb") as copy:
            shutil.copyfileobj(file, copy)
