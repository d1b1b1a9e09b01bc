"""`scrapy crawl` with usage errors before the first request, and an exit status that tells how it went."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
from typing import Self

from scrapy import Spider
from scrapy.commands.crawl import Command as CrawlCommand
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings

from llmcrawler import json_log
from llmcrawler.checking import check
from llmcrawler.configuration import errors_share
from llmcrawler.errors import ConfigError, JobBusy
from llmcrawler.reporting import ExitStatus, judge

logger = logging.getLogger(__name__)


class Command(CrawlCommand):
    """Its exit statuses are those of ExitStatus."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--force", action="store_true", help="go on with a JOBDIR that was started with other spider arguments"
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        json_log.install(self.settings)
        if opts.force:
            self.settings.set("JOBDIR_FORCE", True, priority="cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        assert self.crawler_process is not None
        if len(args) != 1:
            raise UsageError("name one spider: scrapy crawl [options] <spider>")
        spiders = self.crawler_process.spider_loader
        if args[0] not in spiders.list():
            raise UsageError(f"no spider {args[0]!r}; there are: {', '.join(sorted(spiders.list()))}", print_help=False)
        crawler = self._create_crawler(args[0])
        try:
            _check(spiders.load(args[0]), opts, crawler.settings)  # a spider's own settings are among these
        except JobBusy as busy:
            self.exitcode = _refused(busy)
            return
        with _ErrorCount() as errors:
            crawling = self.crawler_process.crawl(crawler, **opts.spargs)
            _collect_less_often()
            self.crawler_process.start()
        failed = self.crawler_process.bootstrap_failed
        self.exitcode = _failed_start(crawling) if failed else _exit_status(crawler, errors.count)


class _ErrorCount(logging.Handler):
    """Counts the log's errors until nothing more is done. Scrapy's own counter knows nothing of those before the spider
    is opened and from when it is closed on, nor of any where LOG_LEVEL hides them.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, _record: logging.LogRecord) -> None:
        self.count += 1

    def __enter__(self) -> Self:
        logging.root.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.root.removeHandler(self)


def _collect_less_often() -> None:
    """Every page makes thousands of short-lived objects, and each collection looks through all of them and through what
    was imported: a tenth of the crawl's CPU time with Python's default of 700 objects, for no memory in return.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _exit_status(crawler: Crawler, logged_errors: int) -> ExitStatus:
    assert crawler.stats is not None
    stats = {**crawler.stats.get_stats(), "log_count/ERROR": logged_errors}
    verdict = judge(stats, errors_share(crawler.settings))
    level = logging.INFO if verdict.status is ExitStatus.FINISHED else logging.WARNING
    logger.log(level, "Exit status %(exit_status)d: %(why)s", {"exit_status": int(verdict.status), "why": verdict.why})
    return verdict.status


def _failed_start(crawling: object) -> ExitStatus:
    """Two crawls that start in the same moment have both seen that the JOBDIR is free."""
    error = crawling.exception() if isinstance(crawling, asyncio.Task) and crawling.done() else None
    if isinstance(error, JobBusy):
        return _refused(error)
    if isinstance(error, ConfigError):  # the disk is full, say
        logger.critical("%s", error)
    elif error is not None:  # asyncio says it only of an exception that nobody has looked at
        logger.critical("The crawl could not be started", exc_info=error)
    return ExitStatus.ERROR


def _refused(busy: JobBusy) -> ExitStatus:
    logger.error("%s", busy)
    return ExitStatus.BUSY


def _check(spider_class: type[Spider], opts: argparse.Namespace, settings: BaseSettings) -> None:
    options = getattr(spider_class, "Options", None)
    try:
        errors_share(settings)
        if options is None:  # a spider of the user's own
            return
        check(settings, options.of(opts.spargs), spider_class.name)
    except JobBusy:
        raise
    except ConfigError as error:
        raise UsageError(str(error), print_help=False) from error
