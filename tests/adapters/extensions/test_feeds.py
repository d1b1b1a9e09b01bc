"""A feed that is not whole is told and counted, whatever its format, its storage and the moment; others stay whole."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import lzma
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from scrapy import Spider, signals
from scrapy.exporters import BaseItemExporter
from scrapy.extensions.feedexport import BlockingFeedStorage
from scrapy.utils.project import get_project_settings
from scrapy.utils.test import get_crawler

from llmcrawler.core.reporting.exit_status import ExitStatus, exit_status_of
from llmcrawler.core.reporting.summary import WrittenFeed
from llmcrawler.errors import ConfigError
from llmcrawler.extensions.feed_export import Feeds
from llmcrawler.items import Page, Template
from tests.adapters.stubs import stub
from tests.e2e.copying import STORAGES

FORMATS = ("jsonlines", "json", "csv", "xml", "documents", "parquet")
PLUGINS = ("Gzip", "Bz2", "LZMA")
PAGES = [Page(url=f"https://a.test/{number}", title="Lamp", text=f"{number:,} " * 500) for number in range(30)]
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")


class FailingStorage(BlockingFeedStorage):
    """As S3 with a key that was withdrawn."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        pass

    def _store_in_thread(self, file: IO[bytes]) -> None:
        file.close()
        raise RuntimeError("access\ndenied")


class FailingExporter(BaseItemExporter):
    def __init__(self, file: IO[bytes], **options: Any) -> None:
        super().__init__(dont_fail=True, **options)
        self._file = file

    def export_item(self, item: Page) -> None:
        if item is PAGES[1]:
            raise LookupError("no such shelf")
        self._file.write(f"{item.url}\n".encode())


class Crawled:
    """A crawl of these pages, as far as its feeds see it."""

    def __init__(self, feeds: dict[str, dict[str, Any]], pages=PAGES) -> None:
        settings = get_project_settings().copy_to_dict()
        settings["FEEDS"] = feeds
        settings["TWISTED_REACTOR_ENABLED"] = False
        settings["FEED_STORAGES"] = {**STORAGES, "failing": FailingStorage}
        settings["FEED_EXPORTERS"] |= {"failing": FailingExporter}
        self.crawler = get_crawler(Spider, settings)
        self.crawler.engine = stub(_slot=None)
        self.crawler.spider = Spider.from_crawler(self.crawler, name="some")
        self.closed: list[str] = []
        self.crawler.signals.connect(self._note_closed, signals.feed_slot_closed)
        asyncio.run(self._run(pages))
        gc.collect()

    async def _run(self, pages: list[Page]) -> None:
        self.feeds = Feeds(self.crawler)
        self.feeds.open_spider(self.crawler.spider)
        for page in pages:
            self.feeds.item_scraped(page, self.crawler.spider)
        await self.feeds.close_spider(self.crawler.spider)

    def _note_closed(self, slot: Any) -> None:
        self.closed.append(slot.uri)

    @property
    def status(self) -> ExitStatus:
        return exit_status_of({**self.crawler.stats.get_stats(), "finish_reason": "finished"}, 1.0)[0]


def told(caplog) -> list[str]:
    assert not [record for record in caplog.records if record.exc_info]
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def failure_of(crawled: Crawled, caplog) -> str:
    assert crawled.status is ExitStatus.ERROR
    (line,) = told(caplog)
    return line


@contextmanager
def limited_files(size: int):
    """The largest size that a file may have stands for the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize("count", [0, len(PAGES)])
@pytest.mark.parametrize("format_", FORMATS)
def test_a_full_disk_is_told_with_the_feed_and_the_cause(format_, count, tmp_path, caplog):
    feed = tmp_path / "feed.zip"
    feed.symlink_to("/dev/full")
    crawled = Crawled({str(feed): {"format": format_}}, PAGES[:count])
    if count == 0 and format_ in ("jsonlines", "documents"):
        assert crawled.status is ExitStatus.FINISHED  # an empty file is whole
        return
    line = failure_of(crawled, caplog)
    assert str(feed) in line
    assert "No space left on device. Other feeds are kept" in line
    assert "\n" not in line
    assert crawled.closed == [str(feed)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 20_000])
@pytest.mark.parametrize("format_", [name for name in FORMATS if name not in ("csv", "parquet")])
def test_a_disk_that_fills_in_the_middle_is_told(format_, size, tmp_path, caplog):
    with limited_files(size):
        crawled = Crawled({str(tmp_path / "feed"): {"format": format_}})
    assert "File too large" in failure_of(crawled, caplog)


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_compressor_that_writes_at_the_end_has_its_failure_told(plugin, tmp_path, caplog):
    feed = tmp_path / "feed.packed"
    feed.symlink_to("/dev/full")
    plugins = [f"scrapy.extensions.postprocessing.{plugin}Plugin"]
    options = {"lzma_format": lzma.FORMAT_XZ} if plugin == "LZMA" else {}
    crawled = Crawled({str(feed): {"format": "csv", "postprocessing": plugins, **options}})
    assert "No space left on device" in failure_of(crawled, caplog)


def test_a_storage_that_fails_in_its_thread_is_told_in_one_line(caplog):
    crawled = Crawled({"failing://user:secret@host/feed": {"format": "csv"}})
    assert "(failing://***@host/feed): RuntimeError: access denied." in failure_of(crawled, caplog)
    assert "secret" not in caplog.text


def test_other_feeds_of_the_crawl_are_whole(tmp_path, caplog):
    feeds: dict[str, dict[str, Any]] = {"failing://host/a": {"format": "csv"}}
    if Path("/dev/full").exists():
        (tmp_path / "b").symlink_to("/dev/full")
        feeds[str(tmp_path / "b")] = {"format": "jsonlines"}
    packed: dict[str, Any] = {"format": "json", "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}
    others = {str(tmp_path / "c.jsonl"): {"format": "jsonlines"}, f"copy://{tmp_path}/d.json.gz": packed}
    crawled = Crawled(feeds | others)
    assert crawled.status is ExitStatus.ERROR
    assert len(told(caplog)) == len(feeds)
    assert len((tmp_path / "c.jsonl").read_text().splitlines()) == len(PAGES)
    assert len(json.loads(gzip.decompress((tmp_path / "d.json.gz").read_bytes()))) == len(PAGES)
    assert len(crawled.closed) == len(feeds) + 2


def test_a_batch_that_could_not_be_stored_is_told(tmp_path, caplog):
    crawled = Crawled({"failing://host/%(batch_id)d": {"format": "csv", "batch_item_count": 12}})
    assert crawled.status is ExitStatus.ERROR
    # Batches are stored side by side, and any of them may fail first.
    assert {line.split(":")[1].split(")")[0] for line in told(caplog)} == {"//host/1", "//host/2", "//host/3"}


def test_a_file_that_was_removed_meanwhile_is_told_and_one_that_was_moved_is_not(tmp_path, caplog):
    def pages():
        yield PAGES[0]
        (tmp_path / "removed").unlink()
        (tmp_path / "moved").rename(tmp_path / "elsewhere")
        yield PAGES[1]

    crawled = Crawled({str(tmp_path / name): {"format": "jsonlines"} for name in ("removed", "moved")}, pages())
    assert "it was removed while being written" in failure_of(crawled, caplog)
    assert len((tmp_path / "elsewhere").read_text().splitlines()) == 2


def test_an_item_that_an_exporter_could_not_say_is_told_once_and_the_feed_goes_on(tmp_path, caplog):
    crawled = Crawled({str(tmp_path / "feed"): {"format": "failing"}}, [*PAGES[:3], PAGES[1]])
    assert crawled.status is ExitStatus.ERROR
    (record,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert f"lacks {PAGES[1].url}" in record.getMessage()
    assert (tmp_path / "feed").read_text().split() == [PAGES[0].url, PAGES[2].url]


@pytest.mark.parametrize("uri", ["nowhere://host/feed", "s3://bucket/feed"])
def test_a_feed_that_cannot_be_made_is_refused(uri, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "boto3.session", None)
    with pytest.raises(ConfigError, match="a requested feed cannot be created"):
        Crawled({uri: {"format": "csv"}})


def test_a_name_that_nothing_fills_is_told(tmp_path, caplog):
    crawled = Crawled({str(tmp_path / "%(nothing)s"): {"format": "csv"}})
    assert "nothing fills %(nothing)s in its name" in failure_of(crawled, caplog)


@pytest.mark.parametrize(
    ("format_", "lines"),
    [("jsonlines", 31), ("csv", 30), ("parquet", 30), ("documents", 30), ("markdown", 30), ("xml", 31)],
)
def test_a_feed_is_told_with_the_lines_that_it_really_has(format_, lines, tmp_path, caplog):
    caplog.set_level("INFO")
    feed = str(tmp_path / "feed.zip")
    crawled = Crawled({feed: {"format": format_}}, [*PAGES, Template("t1", page_type="product", page_count=30)])
    assert crawled.feeds.written == [WrittenFeed(feed, format_, lines)]
    assert f"Stored {format_} feed ({lines} lines) in: {feed}" in caplog.messages


def test_batches_are_one_feed_and_one_that_fails_is_told_as_not_whole(tmp_path):
    name = f"{tmp_path}/feed-%(batch_id)d.csv"
    batches = {"format": "csv", "batch_item_count": 12}
    crawled = Crawled({name: batches, "failing:///secret:word@host/x": {"format": "jsonlines"}})
    assert crawled.feeds.written == [
        WrittenFeed(name, "csv", 30),
        WrittenFeed("failing:///secret:word@host/x", "jsonlines", 30, is_whole=False),
    ]
