"""Full garbage collections leave out what was there when the crawl began."""

import gc

from scrapy import signals
from scrapy.utils.test import get_crawler

from llmcrawler.extensions.garbage import GarbageExtension


def test_what_is_there_at_the_start_is_left_out_of_full_collections_and_what_comes_later_is_not():
    crawler = get_crawler()
    extension = GarbageExtension.from_crawler(crawler)
    old = [[]]
    try:
        crawler.signals.send_catch_log(signals.spider_opened, spider=None)
        new = [[]]
        looked_at = {id(one) for one in gc.get_objects()}
        assert id(old) not in looked_at
        assert id(new) in looked_at
        assert extension is not None
    finally:
        gc.unfreeze()
