"""`scrapy crawl` with usage errors before the first request, and an exit status that tells how it went."""

from __future__ import annotations

import argparse
import gc

from scrapy import Spider
from scrapy.commands.crawl import Command as CrawlCommand
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.settings import BaseSettings

from llmcrawler.configuration import check
from llmcrawler.errors import ConfigError

# Reasons to close that are an end as it was asked for. CLOSESPIDER_* limits are the user's own wish.
_GOOD_REASONS = {
    "finished",
    "closespider_itemcount",
    "closespider_pagecount",
    "closespider_pagecount_no_item",
    "closespider_timeout",
    "closespider_timeout_no_item",
}
_BUDGET_REACHED = 5


class Command(CrawlCommand):
    """Exit status: 0 finished, 1 stopped early or an error of our own, 2 wrong usage, 5 the LLM's budget was spent."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--force", action="store_true", help="go on with a JOBDIR that was started with other spider arguments"
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        if opts.force:
            assert self.settings is not None
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
        _check(spiders.load(args[0]), opts, crawler.settings)  # a spider's own settings are among these
        self.crawler_process.crawl(crawler, **opts.spargs)
        _collect_less_often()
        self.crawler_process.start()
        self.exitcode = _exit_status(crawler, self.crawler_process.bootstrap_failed)


def _collect_less_often() -> None:
    """Every page makes thousands of short-lived objects, and each collection looks through all of them and through what
    was imported: a tenth of the crawl's CPU time with Python's default of 700 objects, for no memory in return.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _exit_status(crawler: Crawler, bootstrap_failed: bool) -> int:
    if bootstrap_failed or crawler.stats is None:
        return 1
    well_ended = crawler.stats.get_value("finish_reason") in _GOOD_REASONS
    # A failed page is a line of the feed and no error of the log; a feed that could not be stored is one.
    failed = crawler.stats.get_value("llmcrawler/internal_errors") or crawler.stats.get_value("log_count/ERROR")
    if not well_ended or failed:
        return 1
    return _BUDGET_REACHED if crawler.stats.get_value("llmcrawler/llm/budget_reached") else 0


def _check(spider_class: type[Spider], opts: argparse.Namespace, settings: BaseSettings) -> None:
    options = getattr(spider_class, "Options", None)
    if options is None:  # a spider of the user's own
        return
    try:
        check(settings, options.of(opts.spargs), spider_class.name)
    except ConfigError as error:
        raise UsageError(str(error), print_help=False) from error
