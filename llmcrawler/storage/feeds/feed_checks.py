"""Tells what is wrong with a feed that was asked for, before the first request."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from llmcrawler.errors import ConfigError
from llmcrawler.storage.feeds.markdown_stores import check_folder

_WRITTEN_WHOLE: Final = ("parquet", "markdown")  # nothing can be added to these


def require(format_: str) -> None:
    """Raises ConfigError when the library that the format needs is not installed."""
    if format_ == "parquet" and find_spec("pyarrow") is None:
        raise ConfigError('the parquet feed needs pyarrow, which is not installed: pip install "pyarrow>=17"')


def is_folder(path: str, format_: str | None) -> bool:
    """Tell whether a feed is a folder, not a file."""
    return format_ == "markdown" and not path.lower().endswith(".zip")


def check_feed(uri: str, format_: str, *, overwrite: bool, goes_on: bool, is_processed: bool) -> None:
    """Raises ConfigError. `goes_on`: the crawl may be one that wrote the file and takes it back. `is_processed`: by a
    postprocessing plugin, as gzip. Of a name with placeholders little can be told.
    """
    require(format_)
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return
    path = Path(unquote(parts.path) if parts.scheme else uri)
    if is_folder(uri, format_):
        if is_processed:
            raise ConfigError(
                f"postprocessing needs one file, and the markdown feed {uri} is a folder: {uri}.zip is one"
            )
        check_folder(path)
    elif not overwrite and not goes_on:
        check_addable(path, format_)


def check_addable(path: Path, format_: str) -> None:
    """Raises ConfigError for a file that would have to be written anew."""
    if format_ in _WRITTEN_WHOLE and path.is_file() and path.stat().st_size:
        raise ConfigError(
            f"{path}: nothing can be added to a {format_} file: write it anew with -O, name another file,"
            " or put %(time)s or %(batch_id)d into its name"
        )
