"""Keeps Scrapy's lines about its own parts out of the log, unless LOG_LEVEL is DEBUG."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from scrapy.settings import BaseSettings

START_LINE: Final = "llmcrawler.extensions.start_line.StartLine"

# By logger, what the messages begin with.
_INTERNALS: Final[Mapping[str, tuple[str, ...]]] = {
    "scrapy.utils.log": ("Scrapy %(version)s started", "Versions:"),
    "scrapy.addons": ("Enabled addons:",),
    "scrapy.middleware": ("Enabled %(componentname)ss:",),
    "scrapy.crawler": ("Overridden settings:",),
}
_REPLACED: Final[Mapping[str, tuple[str, ...]]] = {"scrapy.core.engine": ("Spider opened",)}


class _Silence(logging.Filter):
    def __init__(self, beginnings: tuple[str, ...]) -> None:
        super().__init__()
        self._beginnings = beginnings

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno != logging.INFO or not str(record.msg).startswith(self._beginnings)


def silence(settings: BaseSettings) -> None:
    """Call it before Scrapy sets up its logging; warnings come through."""
    given = settings.get("LOG_LEVEL")
    level = logging.getLevelName(given) if isinstance(given, str) else given
    if isinstance(level, int) and level <= logging.DEBUG:
        return
    is_off = str(settings.get("PROGRESS")).lower() == "off"
    has_start_line = not is_off and settings.getdict("EXTENSIONS").get(START_LINE) is not None
    for name, beginnings in {**_INTERNALS, **(_REPLACED if has_start_line else {})}.items():
        logging.getLogger(name).addFilter(_Silence(beginnings))
