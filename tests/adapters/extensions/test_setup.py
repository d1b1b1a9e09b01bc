"""What keeps the garbage collector and busy threads from holding the event loop."""

import gc
import sys
from typing import Any

import pytest
from scrapy import signals
from scrapy.utils.test import get_crawler

from llmcrawler.extensions.setup import ResponsivenessExtension


@pytest.fixture
def crawler():
    interval = sys.getswitchinterval()
    yield get_crawler()
    gc.unfreeze()
    sys.setswitchinterval(interval)


def test_what_is_there_at_the_start_is_left_out_of_full_collections_and_what_comes_later_is_not(crawler):
    extension = ResponsivenessExtension.from_crawler(crawler)
    old: list[Any] = [[]]
    crawler.signals.send_catch_log(signals.spider_opened, spider=None)
    new: list[Any] = [[]]
    looked_at = {id(one) for one in gc.get_objects()}
    assert id(old) not in looked_at
    assert id(new) in looked_at
    assert extension is not None


def test_a_busy_thread_gives_the_interpreter_up_within_half_a_millisecond(crawler):
    extension = ResponsivenessExtension.from_crawler(crawler)
    crawler.signals.send_catch_log(signals.spider_opened, spider=None)
    assert sys.getswitchinterval() == pytest.approx(0.0005)
    assert extension is not None
