"""What keeps the garbage collector and busy threads from holding the event loop."""

import gc
import sys
from typing import Any

import pytest
from scrapy import signals
from scrapy.utils.test import get_crawler

from llmcrawler.extensions.setup import ResponsivenessExtension


@pytest.fixture
def opened():
    """The extension of a crawl whose spider was opened."""
    interval, crawler = sys.getswitchinterval(), get_crawler()
    old: list[Any] = [[]]
    extension = ResponsivenessExtension.from_crawler(crawler)
    crawler.signals.send_catch_log(signals.spider_opened, spider=None)
    yield extension, old
    gc.unfreeze()
    sys.setswitchinterval(interval)


def test_the_event_loop_is_held_by_no_full_collection_of_what_was_there_and_by_no_busy_thread(opened):
    new: list[Any] = [[]]
    looked_at = {id(one) for one in gc.get_objects()}
    assert id(opened[1]) not in looked_at
    assert id(new) in looked_at
    assert sys.getswitchinterval() == pytest.approx(0.0005)
