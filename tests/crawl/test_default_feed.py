"""Where the lines go of a crawl whose user has named no feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from llmcrawler.commands.crawl import keep_lines
from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions
from llmcrawler.crawl.default_feed import default_feed, needs_feed


@pytest.mark.parametrize(
    ("settings", "arguments", "needed"),
    [
        ({}, {}, True),
        ({"ITEM_PIPELINES": {"llmcrawler.pipelines.feed.FeedPipeline": 900, "shop.Gone": None}}, {}, True),
        ({"FEEDS": {"pages.csv": {"format": "csv"}}}, {}, False),
        ({"FEED_URI": "pages.csv"}, {}, False),
        ({"JOBDIR": "jobs/shop"}, {}, False),
        ({"REDIS_URL": "redis://localhost"}, {}, False),
        ({"ITEM_PIPELINES": {"shop.pipelines.ToDatabase": 950}}, {}, False),
        ({}, {"_job": "6487ec79947edab326d6db28a2d86511"}, False),  # Scrapyd's
    ],
)
def test_a_file_is_chosen_where_lines_would_be_kept_nowhere(
    settings: dict[str, Any], arguments: dict[str, str], needed: bool
) -> None:
    assert needs_feed(Settings(settings), arguments) is needed


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://shop.example/lamps", "explore-shop.example.jsonl"),
        ("http://127.0.0.1:8161/", "explore-127.0.0.1-8161.jsonl"),
        (f"http://{'a' * 60}.{'b' * 60}.example/", f"explore-{'a' * 60}.{'b' * 39}.jsonl"),
    ],
)
def test_it_is_named_after_spider_and_host(url: str, name: str, tmp_path: Path) -> None:
    assert default_feed("explore", ExploreOptions.of({"url": url}), tmp_path) == tmp_path / name


def test_it_is_never_one_that_is_there(tmp_path: Path) -> None:
    options = ExploreOptions.of({"url": "https://shop.example/"})
    for expected in ("map-shop.example.jsonl", "map-shop.example-2.jsonl", "map-shop.example-3.jsonl"):
        feed = default_feed("map", options, tmp_path)
        assert feed.name == expected
        feed.touch()


def test_a_list_gives_its_own_name(tmp_path: Path) -> None:
    urls = tmp_path / "new lamps.txt"
    urls.write_text("https://shop.example/1\nhttps://other.example/2\n")
    assert default_feed("extract", ExtractOptions.of({"urls": str(urls)}), tmp_path).name == "extract-new-lamps.jsonl"


@pytest.mark.parametrize(
    ("later", "feeds"),
    [
        ({}, ["explore-shop.example.jsonl"]),
        ({"pages.csv": {"format": "csv"}}, ["pages.csv"]),  # of an add-on
    ],
)
def test_the_chosen_file_is_the_feed_of_the_crawl_unless_another_is_named_later(
    later: dict[str, Any], feeds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = Settings()
    settings = given.copy()
    keep_lines(settings, "explore", ExploreOptions.of({"url": "https://shop.example/"}), {})
    settings.update(given)  # as Scrapy does when the crawl begins
    if later:
        settings.set("FEEDS", later, priority="addon")
    assert list(settings.getdict("FEEDS")) == feeds
