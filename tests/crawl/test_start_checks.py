"""Feeds that could not be written, and fields that no line has, before anything is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from llmcrawler.commands.crawl import keep_lines
from llmcrawler.core.storage.feeds.feed_checks import with_archive_format
from llmcrawler.crawl import start_checks
from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.start_checks import check_feed_settings, default_feed, needs_feed
from llmcrawler.errors import ConfigError
from tests.crawl.test_setting_checks import given

OPTIONS = ExploreOptions.of({"url": "a.example"})


def check(uri: str, format_: str = "jsonl", options: ExploreOptions = OPTIONS, **values: object) -> None:
    check_feed_settings(given(FEEDS={uri: {"format": format_}}, **values), options)


SHARED: dict[str, object] = {"REDIS_URL": "redis://127.0.0.1:1", "CRAWL_ID": "shop", "LLM_PROVIDER": "none"}


def test_what_workers_cannot_share_is_refused(tmp_path):
    (tasks := tmp_path / "tasks.json").write_text('{"a": {"url": "http://a.example", "method": "POST"}}')
    for values, options, named in (
        ({"CRAWL_ID": ""}, OPTIONS, "CRAWL_ID"),
        ({}, OPTIONS, "no Redis responds there"),
        ({"FEEDS": {str(tmp_path / "pages.jsonl"): {"format": "jsonl"}}}, OPTIONS, r"%\(worker\)s"),
        ({}, MapOptions.of({"url": "http://a.example"}), "one worker"),
        ({}, ExtractOptions.of({"tasks": str(tasks)}), "one worker"),
    ):
        with pytest.raises(ConfigError, match=named):
            start_checks.check(given(**{**SHARED, **values}), options, "explore")


def test_a_goal_that_no_page_type_is_called_is_refused():
    options = ExploreOptions.of({"url": "a.example", "goal": "produkt"})
    with pytest.raises(ConfigError, match="no page type 'produkt'; there are: homepage,"):
        start_checks.check(given(LLM_PROVIDER="none"), options, "explore")


def test_a_feed_needs_a_place_that_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    for uri, named in (
        (str(tmp_path), "it is a folder"),
        (f"{tmp_path}/file/o.jsonl", "file is a file, not a folder"),
        ("gopher://a/o.jsonl", "nothing writes to gopher://"),
        ("gs://bucket/o.jsonl", "pip install google-cloud-storage"),
    ):
        with pytest.raises(ConfigError, match=named):
            check(uri)
    check(f"{tmp_path}/new/folder/o.jsonl")
    check(f"{tmp_path}/file/%(time)s.jsonl")
    check(str(tmp_path), "markdown")
    check("stdout:")


@pytest.mark.parametrize(
    ("format_", "fields", "named"),
    [
        ("jsonl", "url,titel", "no line has a field 'titel': did you mean title?"),
        ("csv", "url,record.price,eror.kind", "'eror.kind'"),
        ("jsonl", "url,record.price", "'record.price'"),
        ("parquet", "url,url_pattern", "'url_pattern'"),
        ("csv", '{"url": "Address", "colour": "Colour"}', "'colour': there are url"),
    ],
)
def test_a_field_that_no_line_has_is_refused(format_, fields, named):
    with pytest.raises(ConfigError, match=named.replace("?", r"\?")):
        check("o", format_, FEED_EXPORT_FIELDS=fields)


def test_rights_have_columns_of_their_own_and_a_map_has_none():
    check("o.csv", "rights", FEED_EXPORT_FIELDS="url,ai-train,content-signal")
    with pytest.raises(ConfigError, match="'title'"):
        check("o.csv", "rights", FEED_EXPORT_FIELDS="url,title")
    with pytest.raises(ConfigError, match="csv:rights: a map lists urls, and no rights"):
        check("o.csv", "rights", MapOptions.of({"url": "a.example"}))


def test_fields_of_lines_of_records_and_of_templates_pass():
    check("o", "csv", FEED_EXPORT_FIELDS="url,record.price,error.kind,meta.shelf")
    check("o", "jsonl", FEED_EXPORT_FIELDS="url,url_pattern")
    check("o", "csv", MapOptions.of({"url": "a.example"}), FEED_EXPORT_FIELDS="url,source,lastmod")
    check("o", "csv", FEED_EXPORT_FIELDS="colour", ITEM_PIPELINES={"shop.Colours": 950})


def test_of_a_record_are_known_those_fields_that_were_asked_for():
    wanted = ExploreOptions.of({"url": "a.example", "fields": "title,price:number"})
    check("o", "csv", wanted, FEED_EXPORT_FIELDS="url,record.price")
    with pytest.raises(ConfigError, match=r"record\.prize"):
        check("o", "csv", wanted, FEED_EXPORT_FIELDS="url,record.prize")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"REDIS_URL": "redis://a"}, "archive with a JOBDIR"),
        ({"JOBDIR": "job", "STORE_BODIES": False}, "leave STORE_BODIES on"),
        ({"options": MapOptions.of({"url": "a.example"})}, "a map keeps no pages"),
    ],
)
def test_an_archive_needs_pages_that_are_kept(tmp_path, values, named):
    with pytest.raises(ConfigError, match=named):
        check(f"{tmp_path}/a.warc.gz", "warc", **values)
    check(f"{tmp_path}/a.warc.gz", "warc", JOBDIR=str(tmp_path / "job"))


def test_the_name_of_an_archive_says_its_format():
    names = ["a.warc.gz", "A.WARC", "a.warc.gz:warc", "a.csv.gz"]
    assert [with_archive_format(one) for one in names] == [
        "a.warc.gz:warc",
        "A.WARC:warc",
        "a.warc.gz:warc",
        "a.csv.gz",
    ]


@pytest.mark.parametrize(
    ("settings", "arguments", "needed"),
    [
        ({}, {}, True),
        ({"ITEM_PIPELINES": {"llmcrawler.pipelines.stages.FeedPipeline": 900, "shop.Gone": None}}, {}, True),
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
        ("https://shop.example/lamps", "shop.example.jsonl"),
        ("http://127.0.0.1:8161/", "127.0.0.1-8161.jsonl"),
        (f"http://{'a' * 60}.{'b' * 60}.example/", f"{'a' * 60}.{'b' * 39}.jsonl"),
    ],
)
def test_it_is_named_after_the_host(url: str, name: str, tmp_path: Path) -> None:
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
        ({}, ["shop.example.jsonl"]),
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
