"""Tells what is wrong with a requested feed, before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from llmcrawler.errors import ConfigError, require

RECORDS: Final = "records"
RIGHTS: Final = "rights"
WARC: Final = "warc"
MARKDOWN: Final = "markdown"
_RECORD_FORMS: Final = {"csv": "csv", "parquet": "parquet", "jsonl": "jsonl", "jl": "jsonl", "jsonlines": "jsonl"}
_PACKED: Final = (".gz", ".bz2", ".xz", ".lzma", ".zst")


def require_format(format_: str) -> None:
    """Raise ConfigError when the library that the format needs is not installed."""
    if format_ == "parquet":
        require("pyarrow", "parquet", "the parquet feed")


def record_form(uri: str) -> str:
    """Return the form that the name of a feed of records asks for: csv, parquet or jsonl. Raises ConfigError."""
    if uri.startswith("stdout:"):
        return "csv"
    name = PurePath((urlsplit(uri).path if "://" in uri else uri).lower())
    ending = Path(name.stem if name.suffix in _PACKED else name).suffix.removeprefix(".")
    if ending not in _RECORD_FORMS:
        raise ConfigError(
            f"{uri}: the name of a table of records tells its format: end it with .csv, .parquet or .jsonl"
        )
    return _RECORD_FORMS[ending]


def page_types_of_feed(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the page types whose records the option `page_type` of a feed asks for; none: no word of that."""
    given = options.get("page_type") or ()
    return (given,) if isinstance(given, str) else tuple(map(str, given))


def with_archive_format(feed: str) -> str:
    """Return a feed of the command line, URI or URI:FORMAT, with the format that the ending .warc.gz asks for."""
    return f"{feed}:{WARC}" if feed.lower().endswith((".warc", ".warc.gz")) else feed


def check_feed(uri: str, format_: str, *, overwrite: bool, goes_on: bool, is_processed: bool) -> None:
    """Raises ConfigError. `goes_on`: the crawl may be one that wrote the file and takes it back. `is_processed`: by a
    postprocessing plugin, as gzip. Of a name with placeholders little can be told.
    """
    if format_ == RECORDS:
        format_ = record_form(uri)
    require_format(format_)
    parts = urlsplit(uri)
    is_here = parts.scheme in ("", "file")
    if format_ == MARKDOWN and (is_processed or not is_here):
        raise ConfigError(f"{uri}: the markdown feed is a folder on this machine, which nothing can process or upload")
    if not is_here:
        return
    path = Path(unquote(parts.path) if parts.scheme else uri)
    if format_ == MARKDOWN:
        from llmcrawler.core.storage.feeds.markdown_files import check_folder

        check_folder(path)
    elif not overwrite and not goes_on:
        check_addable(path, format_)


def check_addable(path: Path, format_: str) -> None:
    """Raises ConfigError for a file that would have to be written anew."""
    if format_ == RECORDS:
        format_ = record_form(str(path))
    if format_ == "parquet" and path.is_file() and path.stat().st_size:
        raise ConfigError(
            f"{path}: nothing can be appended to a parquet file: overwrite it with -O, name another file,"
            " or put %(time)s or %(batch_id)d into its name"
        )
