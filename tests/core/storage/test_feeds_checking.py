"""Feeds that could not be written are refused, and nothing is changed by looking."""

from __future__ import annotations

import pytest

from llmcrawler.core.storage.feeds.feed_checks import check_feed
from llmcrawler.errors import ConfigError


def check(uri, format_, *, overwrite=False, goes_on=False, is_processed=False):
    check_feed(str(uri), format_, overwrite=overwrite, goes_on=goes_on, is_processed=is_processed)


@pytest.fixture
def there(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "there.parquet").write_text("x")
    (tmp_path / "empty").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "index.jsonl").write_text("mine")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "format_", "options", "message"),
    [
        ("file", "parquet", {}, "nothing can be appended to a parquet file"),
        ("file", "markdown", {"overwrite": True}, "is a file; the markdown feed is a folder"),
        ("notes", "markdown", {"overwrite": True}, "has an index.jsonl that is not from a crawl"),
        ("new", "markdown", {"is_processed": True}, "a folder on this machine"),
        ("products", "records", {}, r"end it with \.csv, \.parquet or \.jsonl"),
        ("there.parquet", "records", {}, "nothing can be appended to a parquet file"),
    ],
)
def test_what_is_wrong_with_a_feed_is_told(there, name, format_, options, message):
    for scheme in ("", "file://"):
        with pytest.raises(ConfigError, match=message):
            check(f"{scheme}{there / name}", format_, **options)


@pytest.mark.parametrize(
    ("name", "format_", "options"),
    [
        ("file", "parquet", {"overwrite": True}),
        ("file", "parquet", {"goes_on": True}),
        ("file", "jsonlines", {}),
        ("file", "documents", {}),
        ("empty", "parquet", {}),
        ("new/deep", "markdown", {}),
        ("%(time)s.parquet", "parquet", {}),
        ("%(time)s.parquet", "records", {}),
        ("products.csv.gz", "records", {"is_processed": True}),
        ("there.parquet", "records", {"overwrite": True}),
    ],
)
def test_other_feeds_pass(there, name, format_, options):
    before = sorted(there.rglob("*"))
    check(there / name, format_, **options)
    assert sorted(there.rglob("*")) == before


@pytest.mark.parametrize("place", ["s3://bucket", "ftp://host", "stdout:"])
def test_of_feeds_elsewhere_nothing_is_known(there, place):
    check(f"{place}{there / 'file'}", "parquet")
    with pytest.raises(ConfigError, match="a folder on this machine"):
        check(f"{place}{there / 'new'}", "markdown")
