"""Sets up the log: each line is a JSON object when LOG_FORMAT=json, Scrapy's lines about its own parts are left out
unless LOG_LEVEL is DEBUG, and lines about items are short.

Scrapy makes the formatter of its log handler from LOG_FORMAT for each crawl. So another handler takes its place, with
the same settings.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from scrapy import Spider
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from scrapy.settings import BaseSettings
from scrapy.utils.log import TopLevelFormatter
from twisted.python.failure import Failure

from llmcrawler.items import Page, Template, Url

START_LINE: Final = "llmcrawler.extensions.start_line.StartLine"

# By logger, what the messages begin with.
_INTERNALS: Final[Mapping[str, tuple[str, ...]]] = {
    "scrapy.utils.log": ("Scrapy %(version)s started", "Versions:"),
    "scrapy.addons": ("Enabled addons:",),
    "scrapy.middleware": ("Enabled %(componentname)ss:",),
    "scrapy.crawler": ("Overridden settings:",),
}
_REPLACED: Final[Mapping[str, tuple[str, ...]]] = {"scrapy.core.engine": ("Spider opened",)}


def silence(settings: BaseSettings) -> None:
    """Call it before Scrapy sets up its logging; warnings come through."""
    given = settings.get("LOG_LEVEL")
    level = logging.getLevelName(given) if isinstance(given, str) else given
    if isinstance(level, int) and level <= logging.DEBUG:
        return
    is_off = str(settings.get("PROGRESS")).lower() == "off"
    has_start_line = not is_off and settings.getdict("EXTENSIONS").get(START_LINE) is not None

    def is_told(beginnings: tuple[str, ...], record: logging.LogRecord) -> bool:
        return record.levelno != logging.INFO or not str(record.msg).startswith(beginnings)

    for name, beginnings in {**_INTERNALS, **(_REPLACED if has_start_line else {})}.items():
        logging.getLogger(name).addFilter(partial(is_told, beginnings))


_OF_EVERY_RECORD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
_PLAIN = (bool, int, float, str, type(None))  # other values are in the message only


class JsonFormatter(logging.Formatter):
    """Makes fields of a log call's `extra` and of its values of %(name)s."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        extra = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        values = record.args if isinstance(record.args, dict) else {}
        fields = {str(name): value for name, value in {**values, **extra}.items() if isinstance(value, _PLAIN)}
        if isinstance(spider := extra.get("spider"), Spider):
            fields["spider"] = spider.name
        return json.dumps({**fields, **line}, ensure_ascii=False)


def is_wanted(settings: BaseSettings) -> bool:
    return str(settings.get("LOG_FORMAT") or "").strip().lower() == "json"


def install(settings: BaseSettings) -> None:
    """Set up logging in JSON if the settings ask for it. Call it before Scrapy sets up its logging."""
    if not is_wanted(settings) or not settings.getbool("LOG_INSTALL_ROOT_HANDLER"):
        return
    settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")
    handler: logging.Handler
    if file := settings.get("LOG_FILE"):
        mode = "a" if settings.getbool("LOG_FILE_APPEND") else "w"
        handler = logging.FileHandler(Path(file), mode=mode, encoding=settings.get("LOG_ENCODING"))
    else:
        handler = logging.StreamHandler() if settings.getbool("LOG_ENABLED") else logging.NullHandler()
    handler.setFormatter(JsonFormatter())
    handler.setLevel(settings.get("LOG_LEVEL"))
    if settings.getbool("LOG_SHORT_NAMES"):
        handler.addFilter(TopLevelFormatter(["scrapy"]))
    logging.root.setLevel(logging.NOTSET)
    logging.root.addHandler(handler)


class ShortLogFormatter(LogFormatter):
    def scraped(self, item: Any, response: Response | Failure | None, spider: Spider) -> LogFormatterResult:
        if isinstance(item, Page):
            fault = item.error
            outcome = f"{fault.kind} ({fault.stage})" if fault else f"{item.page_type} by {item.decided_by}"
            args: dict[str, Any] = {"url": item.url, "outcome": outcome}  # fields of a log in JSON
            return {"level": logging.DEBUG, "msg": "Page %(url)s: %(outcome)s", "args": args}
        if isinstance(item, Template):
            args = {"name": item.template, "pages": item.page_count}
            return {"level": logging.DEBUG, "msg": "Template %(name)s: %(pages)d pages", "args": args}
        if isinstance(item, Url):
            # A map has tens of thousands of them, and the feed has them too; Scrapy logs nothing for None.
            return None  # type: ignore[return-value]
        return super().scraped(item, response, spider)
