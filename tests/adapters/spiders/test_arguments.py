"""Arguments of spiders that somebody else derives from ours."""

from __future__ import annotations

from typing import Any, Self

import pytest
from scrapy.crawler import Crawler
from scrapy.utils.test import get_crawler

from llmcrawler.errors import ConfigError
from llmcrawler.spiders.base import arguments_of
from llmcrawler.spiders.explore import ExploreSpider
from llmcrawler.spiders.extract import ExtractSpider
from llmcrawler.spiders.map import MapSpider


class ShopSpider(ExploreSpider):
    name = "shop"
    max_page = 3  # one letter from an argument of ours, and declared

    def __init__(self, *args: Any, depths: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.depths = depths


def test_a_subclass_has_the_arguments_that_it_declares_and_others_that_are_no_slips():
    options = ShopSpider.Options.of({"url": "a.example", "max_page": "1", "depths": "2", "colour": "red"})
    assert options.urls == ("https://a.example/",)
    with pytest.raises(ConfigError, match="did you mean max_records"):
        ShopSpider.Options.of({"url": "a.example", "max_record": "1"})


def test_our_own_spiders_have_no_arguments_but_those_that_they_name():
    with pytest.raises(ConfigError, match="no argument 'colour'"):
        ExploreSpider.Options.of({"url": "a.example", "colour": "red"})


class FixedSpider(ExploreSpider):
    name = "fixed"
    url = "https://shop.example"
    max_pages = 40


class OwnCodeSpider(ExploreSpider):
    name = "own-code"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        return super().from_crawler(crawler, *args, **{"url": "https://own.example", **kwargs})


class SettingSpider(ExploreSpider):
    name = "setting"

    def __init__(self, *args: Any, shop: str = "a", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = f"https://{shop}.example"


def test_a_subclass_fixes_arguments_as_attributes_and_the_command_line_goes_first():
    options = FixedSpider.given_options({"max_pages": "7"})
    assert (options.urls, options.max_pages) == (("https://shop.example/",), 7)
    spider = FixedSpider.from_crawler(get_crawler(FixedSpider))
    assert (spider.options.urls, spider.options.max_pages) == (("https://shop.example/",), 40)
    assert not FixedSpider.changes_arguments()


def test_a_subclass_sets_arguments_in_code_of_its_own():
    assert OwnCodeSpider.changes_arguments()
    assert SettingSpider.changes_arguments()
    assert OwnCodeSpider.from_crawler(get_crawler(OwnCodeSpider)).options.urls == ("https://own.example/",)
    assert SettingSpider.from_crawler(get_crawler(SettingSpider), shop="b").options.urls == ("https://b.example/",)


@pytest.mark.parametrize("spider", [ExploreSpider, ExtractSpider, MapSpider])
def test_no_attribute_of_a_spider_of_ours_is_taken_for_an_argument(spider):
    assert arguments_of(spider, spider.Options) == {}


def test_a_setting_that_is_given_as_an_argument_is_told_from_one():
    with pytest.raises(ConfigError, match="-s DOWNLOAD_DELAY=3"):
        ExploreSpider.given_options({"url": "a.example", "download_delay": "3"})
