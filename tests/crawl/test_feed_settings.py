"""Feeds that could not be written, and fields that no line has, before anything is fetched."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from llmcrawler import settings as own_settings
from llmcrawler.core.storage.feeds.feed_checks import with_archive_format
from llmcrawler.crawl.arguments import ExploreOptions, MapOptions
from llmcrawler.crawl.feed_settings import check_feed_settings
from llmcrawler.errors import ConfigError

OPTIONS = ExploreOptions.of({"url": "a.example"})


def check(uri: str, format_: str = "jsonl", options: ExploreOptions = OPTIONS, **values: object) -> None:
    settings = Settings()
    settings.setmodule(own_settings)
    settings.update({"FEEDS": {uri: {"format": format_}}, **values}, priority="cmdline")
    check_feed_settings(settings, options)


def test_a_feed_needs_a_place_that_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    for uri, named in (
        (str(tmp_path), "it is a folder"),
        (f"{tmp_path}/file/o.jsonl", "file is a file, and no folder"),
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


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("a.warc.gz", "a.warc.gz:warc"),
        ("A.WARC", "A.WARC:warc"),
        ("a.warc.gz:warc", "a.warc.gz:warc"),
        ("a.csv.gz", "a.csv.gz"),
    ],
)
def test_the_name_of_an_archive_says_its_format(given, named):
    assert with_archive_format(given) == named
