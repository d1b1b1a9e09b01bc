"""`scrapy report JOBDIR`: a crawl as a page to look at."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage

_MAX_LISTED = 20_000  # pages: some 4 MB


class Command(Offline, ScrapyCommand):
    """Exit status: 0, 1 when the report cannot be written, 2 when there is no such job or feed, or none of ours."""

    usage = "[options] <jobdir|feed.jsonl>"
    summary = "Show a crawl as one HTML page"
    details = (
        "Show the crawl of a JOBDIR, of a feed in JSON Lines, or of the feeds of workers who shared it (quoted:"
        " 'pages-*.jsonl'), as one HTML page: the site's structure, its templates"
        " and their fields, pace, cost, errors, changes, its records and pages to look at. It needs no network."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        listed = f"pages in the list, {_MAX_LISTED:,} if not given; figures are of all pages"
        parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="the page (report.html)")
        parser.add_argument("--pages", metavar="N", type=int, default=_MAX_LISTED, help=listed)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler import __version__
        from llmcrawler.core.reporting.html import make_report
        from llmcrawler.core.reporting.text import plain

        if len(args) != 1 or opts.pages < 0:
            how = "scrapy report [-o FILE] [--pages N] JOBDIR|FEED"
            raise wrong_usage(f"name one folder or feed, or quote the pattern of several, 'pages-*.jsonl': {how}")
        try:
            with config_errors_as_usage():
                page, count = make_report(Path(args[0]), opts.pages, __version__, time.time())
                Path(opts.output).write_bytes(page)
        except OSError as error:
            sys.stderr.write(f"{opts.output} cannot be written: {error.strerror or error}\n")
            self.exitcode = 1
        else:
            sys.stdout.write(f"{plain(opts.output)}: {count}, {len(page) / 1e6:.1f} MB\n")
