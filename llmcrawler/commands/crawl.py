"""`scrapy crawl` with usage errors before the first request, and an exit status that tells how it went."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.commands.crawl import Command as CrawlCommand
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings

from llmcrawler.commands import WithLog, config_errors_as_usage
from llmcrawler.errors import ConfigError, JobBusy

if TYPE_CHECKING:
    from llmcrawler.core.reporting.exit_status import ExitStatus
    from llmcrawler.crawl.arguments import ExploreOptions

logger = logging.getLogger(__name__)

_ECHO_SECONDS = 0.2  # within these a second signal is the first one, sent twice
_EXIT_SECONDS = 1.0  # for threads that still work when a crawl was stopped


class Command(WithLog, CrawlCommand):
    """Checks the settings and the arguments, runs one spider and exits with an ExitStatus."""

    is_crawl = True
    usage = "[options] <spider>"
    summary = "Run a spider"
    details = (
        "Run a spider, such as explore: scrapy crawl explore -a url=https://example.com -O pages.jsonl. -a gives"
        " its arguments, -s changes settings; with -s JOBDIR=FOLDER the crawl can be stopped and gone on with. Exit"
        " status: 0 finished, 1 errors of the crawler itself, 2 wrong usage, 3 stopped before its end, 4 no start url"
        " could be fetched, 5 the LLM's budget was reached, 6 too many pages with errors, 7 the JOBDIR is in use."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--force", action="store_true", help="resume a JOBDIR that was started with other spider arguments"
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        gc.disable()  # until the crawl begins: nothing of what is imported by then is garbage
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C before Scrapy's own handler is there
        from llmcrawler.core.storage.feeds.feed_checks import with_archive_format

        for name in ("output", "overwrite_output"):
            given = getattr(opts, name)
            setattr(opts, name, given and [with_archive_format(feed) for feed in given])
        super().process_options(args, opts)
        if opts.force:
            assert self.settings is not None
            self.settings.set("JOBDIR_FORCE", True, priority="cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        assert self.crawler_process is not None
        from llmcrawler.core.processes.forking import fork_early
        from llmcrawler.core.reporting.exit_status import ExitStatus, exit_status_of
        from llmcrawler.crawl.compat import ignore_echo
        from llmcrawler.crawl.configuration import LimitSettings

        try:
            with config_errors_as_usage(self.settings):
                crawler = self._checked_crawler(args, opts)
        except UsageError as error:
            if not isinstance(error.__cause__, JobBusy):
                raise
            logger.error("%s", error.__cause__)
            self.exitcode = ExitStatus.BUSY
            return
        logging.root.addHandler(errors := _ErrorCount(logging.ERROR))
        crawling = self.crawler_process.crawl(crawler, **opts.spargs)
        # Every page makes thousands of short-lived objects: with Python's default of 700, collections take a tenth of
        # the crawl's CPU time, for no memory in return.
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()
        ignore_echo(self.crawler_process, _ECHO_SECONDS)
        fork_early()
        self.crawler_process.start()
        failed = self.crawler_process.bootstrap_failed
        if failed:
            self.exitcode = _failed_start(crawling, crawler)
        else:
            assert crawler.stats is not None
            stats = {**crawler.stats.get_stats(), "log_count/ERROR": errors.count}
            self.exitcode, why = exit_status_of(stats, LimitSettings.of(crawler.settings).crawl_max_errors_share)
            level = logging.INFO if self.exitcode is ExitStatus.FINISHED else logging.WARNING
            logger.log(level, "Exit status %(exit_status)d: %(why)s", {"exit_status": int(self.exitcode), "why": why})
        if self.exitcode is ExitStatus.INTERRUPTED:
            _end_soon(self.exitcode)

    def _checked_crawler(self, args: list[str], opts: argparse.Namespace) -> Crawler:
        """Raise UsageError or ConfigError; a JobBusy where another crawl has the JOBDIR."""
        from llmcrawler.crawl.compat import create_crawler
        from llmcrawler.crawl.setting_checks import check_names, near_name
        from llmcrawler.crawl.start_checks import check, check_settings

        assert self.crawler_process is not None
        if len(args) != 1:
            meant = f" (start URLs: -a url={','.join(args[1:])})" if len(args) > 1 else ""
            raise UsageError(f"name one spider: scrapy crawl [options] <spider>{meant}")
        spiders = self.crawler_process.spider_loader
        if args[0] not in spiders.list():
            near = near_name(args[0], spiders.list())
            meant = f": did you mean {near}?" if near else ";"
            raise UsageError(f"no spider {args[0]!r}{meant} there are: {', '.join(sorted(spiders.list()))}")
        spider_class: Any = spiders.load(args[0])
        assert self.settings is not None
        crawler = create_crawler(self, args[0])
        check_names({*(spider_class.custom_settings or ())} - {*self.settings}, where=f"custom_settings of {args[0]}: ")
        if hasattr(spider_class, "given_options") and not spider_class.changes_arguments():  # one of ours
            options = spider_class.given_options(opts.spargs)
            check(crawler.settings, options, args[0])
            keep_lines(crawler.settings, args[0], options, opts.spargs)
        else:
            check_settings(crawler.settings)
        return crawler


class _ErrorCount(logging.Handler):
    """Counts the log's errors until nothing more is done. Scrapy's own counter knows nothing of those before the spider
    is opened and from when it is closed on, nor of any where LOG_LEVEL hides them.
    """

    count = 0

    def emit(self, _record: logging.LogRecord) -> None:
        self.count += 1


def _end_soon(status: ExitStatus) -> None:
    """End the process in some seconds even if threads still work, for which Python waits: a name server that is silent
    holds one for half a minute.
    """

    def end() -> None:
        logging.shutdown()
        os._exit(status)

    timer = threading.Timer(_EXIT_SECONDS, end)
    timer.daemon = True
    timer.start()


def _failed_start(crawling: object, crawler: Crawler) -> ExitStatus:
    """Log why the crawl could not be started, and return its exit status. It may be that the JOBDIR is in use, as two
    crawls that start in the same moment have both seen that it was free.
    """
    from llmcrawler.core.reporting.exit_status import ExitStatus
    from llmcrawler.crawl.setting_checks import check_paths

    error = crawling.exception() if isinstance(crawling, asyncio.Task) and crawling.done() else None
    if isinstance(error, (ImportError, NameError, TypeError, ValueError)):
        try:
            check_paths(crawler.settings)
        except ConfigError as wrong_path:
            error = wrong_path
    if isinstance(error, JobBusy):
        logger.error("%s", error)
        return ExitStatus.BUSY
    if isinstance(error, ConfigError):
        logger.critical("%s", error)
        # Nothing is wrong with the usage where the disk is full.
        return ExitStatus.ERROR if isinstance(error.__cause__, sqlite3.Error) else ExitStatus.USAGE
    if error is not None:  # asyncio says it only of an exception that nobody has looked at
        logger.critical("The crawl could not be started", exc_info=error)
    return ExitStatus.ERROR


def keep_lines(settings: BaseSettings, spider: str, options: ExploreOptions, arguments: dict[str, str]) -> None:
    from llmcrawler.crawl.start_checks import CHOSEN_PRIORITY, default_feed, needs_feed

    if needs_feed(settings, arguments):
        feed = str(default_feed(spider, options, Path()))
        settings.set("FEEDS", {feed: {"format": "jsonl"}}, priority=CHOSEN_PRIORITY)
