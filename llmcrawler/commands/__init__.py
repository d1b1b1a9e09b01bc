"""Commands of `scrapy` that this project changes or adds.

Scrapy imports all of these modules whenever any command runs, so each imports what it works with when it runs itself.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.exceptions import UsageError
from scrapy.settings import SETTINGS_PRIORITIES, Settings

from llmcrawler.errors import ConfigError, JobBusy

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from rich.console import RenderableType


class Described:
    """Gives a command the three texts of its --help, and refuses slips in its options. It is a mixin, since Scrapy
    takes any ScrapyCommand in here for a command of its own.
    """

    usage: ClassVar[str]
    summary: ClassVar[str]
    details: ClassVar[str]
    settings: Settings | None
    usage_shown: ClassVar[tuple[str, str] | None] = None  # the program and its usage, where it is not `scrapy`

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)  # type: ignore[misc]
        if self.usage_shown is not None:
            parser.prog, parser.usage = self.usage_shown

    def syntax(self) -> str:
        return self.usage

    def short_desc(self) -> str:
        return self.summary

    def long_desc(self) -> str:
        return self.details

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Set settings as the command line says, and refuse unknown options and names that look like slips."""
        from llmcrawler.crawl import setting_checks as checks

        assert self.settings is not None
        with config_errors_as_usage(self.settings):
            for arg in args:  # Scrapy hands options that there are not on as arguments
                if arg.startswith("-") and arg != "-":
                    options = [f"--{name.replace('_', '-')}" for name in vars(opts) if name != "spargs"]
                    near = checks.near_name(arg.partition("=")[0], options)
                    raise wrong_usage(f"no option {arg}" + (f": did you mean {near}?" if near else ""))
            checks.check_objects(opts.set)
            before = {*self.settings}
            super().process_options(args, opts)  # type: ignore[misc]
            checks.check_log(self.settings)
            if new := {*self.settings} - before:
                from llmcrawler.crawl.arguments import argument_names

                checks.check_names(new, argument_names())
            checks.check_paths(self.settings, ("ADDONS",))


class WithLog(Described):
    """Lets a command that fetches pages log as LOG_FORMAT says, and without Scrapy's lines about its own parts.

    Only a crawl shows progress: beside a page that is looked at, or a console, that would be in the way.
    """

    is_crawl: ClassVar[bool] = False

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.engine import log_setup

        super().process_options(args, opts)
        assert self.settings is not None
        if not self.is_crawl and (self.settings.getpriority("PROGRESS") or 0) < SETTINGS_PRIORITIES["cmdline"]:
            self.settings.set("PROGRESS", "off", priority="cmdline")
        log_setup.silence(self.settings)
        log_setup.install(self.settings)


class Offline(Described):
    """Sets up a command that starts no crawl: it logs nothing, and its output is what it prints."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}


def wrong_usage(told: str) -> UsageError:
    """Return the error that Scrapy prints alone, without the command's help; the exit status is 2."""
    return UsageError(told, print_help=False)


@contextmanager
def config_errors_as_usage(settings: Settings | None = None) -> Iterator[None]:
    """Turn a ConfigError into the usage error that Scrapy prints, with the exit status 2. With `settings` it goes to
    their LOG_FILE too: a schedule keeps nothing else.
    """
    try:
        yield
    except (ConfigError, UsageError) as error:
        if settings and settings.get("LOG_FILE") and settings.getbool("LOG_ENABLED") and not isinstance(error, JobBusy):
            from scrapy.utils.log import configure_logging, get_scrapy_root_handler

            from llmcrawler.engine import log_setup

            with suppress(OSError, ValueError):  # it is what the error is about
                log_setup.install(settings)
                if get_scrapy_root_handler() is None:
                    configure_logging(settings)
                logger.error("Wrong usage: %s", error)
        if isinstance(error, UsageError):
            raise
        raise wrong_usage(str(error)) from error


def show(value: Mapping[str, Any], tables: Iterable[RenderableType], *, as_json: bool) -> None:
    """Print JSON, or tables as wide as the terminal; what is piped is cut or folded nowhere."""
    from llmcrawler.core.reporting.terminal_tables import stdout_console

    if as_json:
        sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        return
    console = stdout_console()
    for table in tables:
        console.print(table)
