"""A Scrapy project that explores a site and tells what each of its pages is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmcrawler.storage.dataframe import read_status, status_summary

__version__ = "0.1.0"
__all__ = ["read_status", "status_summary"]


def __getattr__(name: str) -> Any:
    """Scrapy imports this for every setting that names a class of ours, so it costs nothing until it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from llmcrawler.storage import dataframe  # noqa: PLC0415 - see above

    return getattr(dataframe, name)
