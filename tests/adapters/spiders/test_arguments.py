"""Arguments of spiders that somebody else derives from ours."""

from __future__ import annotations

from typing import Any

import pytest

from llmcrawler.errors import ConfigError
from llmcrawler.spiders.explore import ExploreSpider


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
