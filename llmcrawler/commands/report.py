"""`scrapy report JOBDIR`: a crawl as a page to look at, or two of them compared."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from llmcrawler.commands import Offline, config_errors_as_usage

_MAX_LISTED = 20_000  # pages: some 4 MB


class Command(Offline, ScrapyCommand):
    """Exit status: 0, 1 when the report cannot be written, 2 when there is no such job or feed, or none of ours."""

    usage = "[options] <jobdir|feed.jsonl> [<later jobdir|feed.jsonl>]"
    summary = "Show a crawl as one HTML page, or compare two"
    details = (
        "Show the crawl of a JOBDIR, or of a feed in JSON Lines, as one HTML page: the site's structure, its templates"
        " and their fields, pace, cost, errors, changes, its records and pages to look at. It needs no network. Of two"
        " crawls it shows which pages are new, gone or changed, values before and after, and selectors that give less."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "-o", "--output", metavar="FILE", default="report.html", help="the page to write, report.html if not given"
        )
        parser.add_argument(
            "--pages",
            metavar="N",
            type=int,
            default=_MAX_LISTED,
            help=f"pages in the list, {_MAX_LISTED:,} if not given; figures are of all pages",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler import __version__
        from llmcrawler.reporting import plain
        from llmcrawler.reporting.html import make_comparison, make_report

        if len(args) not in (1, 2) or opts.pages < 0:
            how = "scrapy report [-o FILE] [--pages N] JOBDIR|FEED [LATER_JOBDIR|FEED]"
            raise UsageError(f"name one folder or feed, or two to compare: {how}", print_help=False)
        paths, now = [Path(one) for one in args], time.time()
        with config_errors_as_usage():
            if len(paths) == 1:
                page, count = make_report(paths[0], opts.pages, __version__, now)
            else:
                page, count = make_comparison(paths[0], paths[1], opts.pages, __version__, now)
        try:
            Path(opts.output).write_bytes(page)
        except OSError as error:
            sys.stderr.write(f"{opts.output} cannot be written: {error.strerror or error}\n")
            self.exitcode = 1
            return
        sys.stdout.write(f"{plain(opts.output)}: {count}, {len(page) / 1e6:.1f} MB\n")
