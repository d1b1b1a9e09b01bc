"""Loads what a crawl has found as documents of LlamaIndex.

import llmcrawler
from llmcrawler.api.llama_index_reader import CrawlReader

documents = CrawlReader().load_data("pages.jsonl")
for document in CrawlReader().lazy_load_data(llmcrawler.explore("https://docs.example", max_pages=40)):
    print(document.metadata["title"])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from llmcrawler.api.public_api import documents
from llmcrawler.errors import require

require("llama_index.core", "llama-index", "llmcrawler.api.llama_index_reader")

from llama_index.core.readers.base import BaseReader  # noqa: E402 - it is an extra
from llama_index.core.schema import Document  # noqa: E402

# The other metadata is for filters: LlamaIndex would put it before each chunk of a text, and leave that no room.
_IN_TEXTS: Final = ("source", "title", "page_type")


class CrawlReader(BaseReader):
    def lazy_load_data(
        self, source: str | Path | Iterable[Mapping[str, Any]], fields: Collection[str] | None = None
    ) -> Iterator[Document]:
        """Yield the pages of a feed in JSON Lines, of a JOBDIR, or of a crawl while it runs: each once it is complete.
        Pages without a text (failures, duplicates) are left out; `fields` are the metadata beside `source`, all if
        none are given.

        Raises ConfigError for a file that is no feed, and what the iteration of a crawl raises.
        """
        for document in documents(source, fields):
            metadata = document["metadata"]
            hidden = [name for name in metadata if name not in _IN_TEXTS]
            yield Document(
                id_=document["id"],
                text=document["page_content"],
                metadata=metadata,
                excluded_embed_metadata_keys=hidden,
                excluded_llm_metadata_keys=hidden,
            )
