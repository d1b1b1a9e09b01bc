"""Documents of LangChain and LlamaIndex from feeds, jobs and running crawls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import llmcrawler
from llmcrawler.api.public_api import documents
from llmcrawler.errors import ConfigError
from tests.e2e.crawling import FAST
from tests.servers.mock_site import MockSite

LINES: list[dict[str, Any]] = [
    {"url": "https://shop.example/", "kind": "page", "text": "# Shop", "page_type": "homepage", "title": "Shop"},
    {"url": "https://shop.example/1", "kind": "page", "text": "# Lamp", "page_type": "product", "title": "Lamp"}
    | {"record": {"price": 10, "tags": ["x"] * 2_000}},
    {"url": "https://shop.example/2", "kind": "page", "text": None, "error": {"kind": "http_404"}},
    {"url": "https://shop.example/3", "kind": "page", "text": None, "duplicate_of": "https://shop.example/1"},
    {"kind": "template", "template": "t1", "page_count": 2},
]
SOURCES = ["https://shop.example/", "https://shop.example/1"]


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    file = tmp_path / "pages.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in LINES))
    return file


def test_a_langchain_loader_reads_a_feed(feed):
    pytest.importorskip("langchain_core")
    from langchain_core.document_loaders import BaseLoader

    from llmcrawler.api.langchain_loader import CrawlLoader

    loader = CrawlLoader(feed)
    assert isinstance(loader, BaseLoader)
    shop, lamp = loader.load()
    assert [shop.metadata["source"], lamp.metadata["source"]] == SOURCES
    assert (lamp.page_content, lamp.metadata["record.price"]) == ("# Lamp", 10)
    assert CrawlLoader(str(feed), fields=["title"]).load()[1].metadata == {"source": SOURCES[1], "title": "Lamp"}
    assert loader.load() == [shop, lamp], "it may be loaded again"
    assert [one.id for one in CrawlLoader(LINES).load()] == [shop.id, lamp.id]


async def test_a_langchain_loader_does_not_hold_up_the_loop(feed):
    pytest.importorskip("langchain_core")
    from llmcrawler.api.langchain_loader import CrawlLoader

    assert [one.metadata["source"] async for one in CrawlLoader(feed).alazy_load()] == SOURCES


def test_a_llama_index_reader_reads_a_feed(feed):
    pytest.importorskip("llama_index.core")
    from llama_index.core.node_parser import TokenTextSplitter
    from llama_index.core.readers.base import BaseReader
    from llama_index.core.schema import MetadataMode

    from llmcrawler.api.llama_index_reader import CrawlReader

    reader = CrawlReader()
    assert isinstance(reader, BaseReader)
    shop, lamp = reader.load_data(feed)
    assert [shop.metadata["source"], lamp.metadata["source"]] == SOURCES
    assert [shop.id_, lamp.id_] == [one["id"] for one in documents(feed)]
    assert (lamp.text, lamp.metadata["record.price"]) == ("# Lamp", 10)
    assert "title: Lamp" in lamp.get_content(MetadataMode.EMBED)
    words = TokenTextSplitter(chunk_size=100, chunk_overlap=0, tokenizer=str.split)
    assert words.get_nodes_from_documents([lamp]), "a long record leaves room for the text"
    assert reader.load_data(str(feed), fields=["title"])[1].metadata == {"source": SOURCES[1], "title": "Lamp"}


def test_documents_of_a_running_crawl_come_page_by_page():
    pytest.importorskip("langchain_core")
    from llmcrawler.api.langchain_loader import CrawlLoader

    with MockSite().in_thread() as site:
        crawl = llmcrawler.explore(site.url(), max_pages=3, progress=False, settings=FAST)
        loaded = CrawlLoader(crawl).load()
    assert crawl.exit_status == 0
    assert [one.metadata["source"] for one in loaded] == [line["url"] for line in crawl if line["text"]]


@pytest.mark.parametrize(("text", "said"), [("no json", "line 1 is not JSON"), ("", "there is no page in it")])
def test_what_is_no_feed_is_named(tmp_path, text, said):
    (tmp_path / "notes.txt").write_text(text)
    with pytest.raises(ConfigError, match=said):
        list(documents(tmp_path / "notes.txt"))
    with pytest.raises(ConfigError, match="there is no such folder or file"):
        list(documents(tmp_path / "other.jsonl"))
