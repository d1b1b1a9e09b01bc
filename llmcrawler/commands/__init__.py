"""Commands of `scrapy` that this project changes or adds.

Scrapy imports all of these modules whenever any command runs, so each imports what it works with when it runs itself.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from llmcrawler.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType


class Described:
    """Gives a command the three texts of its --help. It is a mixin, since Scrapy takes any ScrapyCommand in here for a
    command of its own.
    """

    usage: ClassVar[str]
    summary: ClassVar[str]
    details: ClassVar[str]

    def syntax(self) -> str:
        return self.usage

    def short_desc(self) -> str:
        return self.summary

    def long_desc(self) -> str:
        return self.details


class WithLog(Described):
    """Lets a command that fetches pages log as LOG_FORMAT says, and without Scrapy's lines about its own parts."""

    settings: Settings | None

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.engine import json_log, scrapy_log

        super().process_options(args, opts)  # type: ignore[misc]
        assert self.settings is not None
        scrapy_log.silence(self.settings)
        json_log.install(self.settings)


class Offline(Described):
    """Sets up a command that starts no crawl: it logs nothing, and its output is what it prints."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}


@contextmanager
def config_errors_as_usage() -> Iterator[None]:
    """Turn a ConfigError into the usage error that Scrapy prints, with the exit status 2."""
    try:
        yield
    except ConfigError as error:
        raise UsageError(str(error), print_help=False) from error


def show(value: Mapping[str, Any], tables: Iterable[RenderableType], *, as_json: bool) -> None:
    """Print JSON, or tables as wide as the terminal; what is piped is cut or folded nowhere."""
    from llmcrawler.reporting.terminal_table import stdout_console

    if as_json:
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        return
    console = stdout_console()
    for table in tables:
        console.print(table)
