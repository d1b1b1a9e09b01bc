"""A scheduler of somebody else's is refused where one of this project's is needed, and left in peace elsewhere."""

from __future__ import annotations

import pytest
from scrapy import Spider
from scrapy.core.scheduler import Scheduler
from scrapy.exceptions import NotConfigured
from scrapy.utils.test import get_crawler

from llmcrawler.engine.request_scheduler import RequestScheduler
from llmcrawler.engine.scheduler import FrontierScheduler, running_scheduler
from llmcrawler.errors import ConfigError
from llmcrawler.extensions.setup import CrawlSetup
from llmcrawler.middlewares.leases import LeaseMiddleware
from llmcrawler.spiders.base import FrontierSpider
from llmcrawler.spiders.explore import ExploreSpider
from llmcrawler.spiders.extract import ExtractSpider
from llmcrawler.spiders.map import MapScheduler, MapSpider
from tests.adapters.stubs import stub


@pytest.mark.parametrize(
    ("spider", "scheduler", "needed"),
    [
        (ExploreSpider, Scheduler, "llmcrawler.engine.scheduler.FrontierScheduler"),
        (ExtractSpider, RequestScheduler, "llmcrawler.engine.scheduler.FrontierScheduler"),
        (MapSpider, FrontierScheduler, "llmcrawler.spiders.map.MapScheduler"),
    ],
)
def test_a_scheduler_that_cannot_feed_the_spider_is_refused_before_anything_is_built(spider, scheduler, needed):
    crawler = get_crawler(FrontierSpider, {"SCHEDULER": scheduler})
    crawler.spider = stub(SCHEDULER_CLASS=spider.SCHEDULER_CLASS)
    with pytest.raises(ConfigError, match=f"SCHEDULER=.*{scheduler.__name__}.*leave it out, or name {needed}"):
        CrawlSetup.from_crawler(crawler)


@pytest.mark.parametrize("scheduler", [Scheduler, RequestScheduler])
def test_a_running_scheduler_is_of_the_class_that_is_asked_for(scheduler):
    running = scheduler.__new__(scheduler)
    crawler = stub(engine=stub(scheduler=running), settings={"SCHEDULER": scheduler})
    assert running_scheduler(crawler, scheduler) is running
    with pytest.raises(ConfigError, match="leave it out, or name"):
        running_scheduler(crawler, FrontierScheduler)


def test_a_scheduler_of_a_subclass_will_do():
    running = MapScheduler.__new__(MapScheduler)
    assert running_scheduler(stub(engine=stub(scheduler=running)), FrontierScheduler) is running


def test_where_nothing_is_leased_nobody_looks_for_leases():
    LeaseMiddleware.from_crawler(get_crawler(Spider, {"SCHEDULER": FrontierScheduler}))
    with pytest.raises(NotConfigured):
        LeaseMiddleware.from_crawler(get_crawler(Spider, {"SCHEDULER": Scheduler}))
