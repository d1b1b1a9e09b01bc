"""Scrapy's spider.state in a JOBDIR."""

from typing import Any

from scrapy import Spider

from llmcrawler.extensions.resume import WholeSpiderState


def test_a_state_that_a_full_disk_has_cut_off_starts_empty_and_is_kept_whole_from_then_on(tmp_path):
    file = tmp_path / "spider.state"
    file.touch()
    spider: Any = Spider("one")  # the extension gives it its `state`
    extension = WholeSpiderState(str(tmp_path))
    extension.spider_opened(spider)
    assert spider.state == {}
    extension.spider_closed(spider)
    assert not file.exists()
    spider.state["seen"] = 3
    extension.spider_closed(spider)
    again: Any = Spider("one")
    extension.spider_opened(again)
    assert again.state == {"seen": 3}
    assert [one.name for one in tmp_path.iterdir()] == ["spider.state"]
