"""Pages as LangChain's Document: `Document(**line)`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from llmcrawler.core.storage.feeds.tables import clean, clean_text, flatten


def document_of(line: Mapping[str, Any], fields: Collection[str] | None = None) -> dict[str, Any] | None:
    """Return the document of a page; None for a page without text, as services that embed text refuse empty ones.

    Metadata is one level of known scalars, because vector stores take no other. The id is the same in every crawl, and
    a UUID, as some stores ask for one: a page that is loaded again replaces itself.
    """
    text, url = line.get("text"), line.get("url")
    if not isinstance(text, str) or not text.strip() or not isinstance(url, str):
        return None
    source = clean_text(url)
    metadata: dict[str, Any] = {"source": source}
    for name, value in line.items():
        if name not in ("url", "text", "kind") and (fields is None or name in fields):
            for key, one in flatten(name, clean(value)).items():
                if one is not None:
                    metadata.setdefault(key, one)
    page_id = str(uuid5(NAMESPACE_URL, source))
    return {"id": page_id, "page_content": clean_text(text), "metadata": metadata, "type": "Document"}
