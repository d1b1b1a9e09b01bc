"""When a page's line is where the death of its worker does not reach it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.extensions.feedexport import FileFeedStorage

from llmcrawler.fleet.safe_lines import SafeLines
from llmcrawler.items import Page
from tests.adapters.stubs import stub

URL = "https://a.example/1"


class Exporter:
    """Feeds in files, and what Scrapy's FeedExporter does with them."""

    def __init__(self, folder: Any, formats: list[str]) -> None:
        self.failed: list[Any] = []
        self.slots = []
        for name in formats:
            storage = FileFeedStorage(str(folder / f"pages.{name}"))
            accepts_all = stub(accepts=lambda _item: True)
            file = storage.open(None)
            self.slots.append(stub(storage=storage, format=name, feed_options={}, filter=accepts_all, file=file))
        self.crawler = stub(
            get_extension=lambda _cls: self, spider=object(), signals=stub(connect=lambda _handler, _signal: None)
        )
        self.feeds = SafeLines(self.crawler)

    def fail(self, slot: Any, _error: Exception) -> None:
        self.failed.append(slot)

    def has_failed(self, slot: Any) -> bool:
        return slot in self.failed

    def write(self, _item: Page, _spider: Any = None) -> None:
        for slot in self.slots:
            slot.file.write(b"line\n")

    def scrape(self) -> None:
        assert self.feeds.hold(Page(URL))

    def close(self, number: int, *, fails: bool = False) -> None:
        slot = self.slots.pop(number)
        slot.file.close()
        if fails:
            self.failed.append(slot)
        self.feeds._feed_slot_closed(slot)


@pytest.fixture
def exporter(tmp_path, request):
    made = Exporter(tmp_path, request.param)
    yield made
    for slot in made.slots:
        slot.file.close()


@pytest.mark.parametrize("exporter", [["jsonlines", "csv"]], indirect=True)
def test_a_file_of_lines_is_flushed_and_safe(exporter, tmp_path):
    exporter.scrape()
    assert exporter.feeds.unsafe([URL]) == set()
    assert (tmp_path / "pages.csv").read_bytes() == b"line\n"
    assert exporter.feeds.take_safe() == []


@pytest.mark.parametrize("exporter", [["jsonlines"]], indirect=True)
def test_a_line_waits_until_its_page_is_acknowledged_and_one_of_another_worker_is_dropped(exporter, tmp_path):
    exporter.scrape()
    assert (tmp_path / "pages.jsonlines").read_bytes() == b""
    exporter.feeds.drop(URL)
    assert exporter.feeds.unsafe([URL]) == set()
    assert (tmp_path / "pages.jsonlines").read_bytes() == b""
    exporter.scrape()
    exporter.feeds.write_held(URL)
    assert exporter.feeds.unsafe([URL]) == set()
    assert (tmp_path / "pages.jsonlines").read_bytes() == b"line\n"
    assert not exporter.feeds.hold(object())


@pytest.mark.parametrize("exporter", [["jsonlines", "json"]], indirect=True)
def test_a_line_is_kept_until_the_last_feed_that_is_whole_only_at_its_end_is_closed(exporter):
    exporter.scrape()
    assert exporter.feeds.unsafe([URL]) == {URL}
    exporter.feeds.set_kept([URL])
    assert exporter.feeds.take_safe() == []
    exporter.close(1)
    exporter.close(0)
    assert exporter.feeds.take_safe() == [URL]


@pytest.mark.parametrize("exporter", [["json"]], indirect=True)
def test_a_line_that_reaches_redis_after_its_feed_was_closed_is_dropped_then(exporter):
    exporter.scrape()
    assert exporter.feeds.unsafe([URL]) == {URL}
    exporter.close(0)
    assert exporter.feeds.take_safe() == []
    exporter.feeds.set_kept([URL])
    assert exporter.feeds.take_safe() == [URL]


@pytest.mark.parametrize("exporter", [["json"]], indirect=True)
def test_a_line_of_a_feed_that_could_not_be_stored_stays(exporter):
    exporter.scrape()
    exporter.feeds.set_kept(exporter.feeds.unsafe([URL]))
    exporter.close(0, fails=True)
    assert exporter.feeds.take_safe() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("exporter", [["jsonlines", "csv"]], indirect=True)
def test_a_line_that_a_full_disk_did_not_take_is_kept(exporter):
    exporter.slots[1].file.close()
    exporter.slots[1].file = full = Path("/dev/full").open("wb")  # noqa: SIM115 - as a storage does
    exporter.scrape()
    assert exporter.feeds.unsafe([URL]) == {URL}
    assert exporter.failed == [exporter.slots[1]]
    with pytest.raises(OSError, match="No space left"):
        full.close()


@pytest.mark.parametrize("exporter", [["json", "json"]], indirect=True)
def test_a_feed_that_was_stored_is_not_taken_for_one_that_failed_before_it_was(exporter):
    exporter.scrape()
    exporter.feeds.set_kept(exporter.feeds.unsafe([URL]))
    exporter.failed.append(object())  # another batch, whose storing is not at its end
    exporter.close(0)
    exporter.close(0)
    assert exporter.feeds.take_safe() == [URL]


@pytest.mark.parametrize("exporter", [["jsonlines"]], indirect=True)
def test_lines_of_a_worker_that_is_gone_are_safe_once_they_are_in_a_file(exporter, tmp_path):
    exporter.feeds.write([Page(URL)])
    assert (tmp_path / "pages.jsonlines").read_bytes() == b"line\n"
    assert exporter.feeds.take_safe() == [URL]
