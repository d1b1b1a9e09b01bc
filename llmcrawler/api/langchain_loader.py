"""Loads what a crawl has found as documents of LangChain.

import llmcrawler
from llmcrawler.api.langchain_loader import CrawlLoader

documents = CrawlLoader("pages.jsonl").load()
for document in CrawlLoader(llmcrawler.explore("https://docs.example", max_pages=40)).lazy_load():
    print(document.metadata["title"])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from llmcrawler.api.public_api import documents
from llmcrawler.errors import require

require("langchain_core", "langchain", "llmcrawler.api.langchain_loader")

from langchain_core.document_loaders import BaseLoader  # noqa: E402 - it is an extra
from langchain_core.documents import Document  # noqa: E402


class CrawlLoader(BaseLoader):
    """Loads the pages of a feed in JSON Lines, of a JOBDIR, or of a crawl while it runs: each once it is complete.
    Pages without a text (failures, duplicates) are left out; `fields` are the metadata beside `source`, all if none.

    Loading raises ConfigError for a file that is no feed, and what the iteration of a crawl raises.
    """

    def __init__(self, source: str | Path | Iterable[Mapping[str, Any]], fields: Collection[str] | None = None) -> None:
        self._source = source
        self._fields = fields

    def lazy_load(self) -> Iterator[Document]:
        for document in documents(self._source, self._fields):
            yield Document(**document)
