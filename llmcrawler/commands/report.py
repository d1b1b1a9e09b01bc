"""`scrapy report JOBDIR`: a crawl as a page to look at, or two of them compared."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage

_MAX_LISTED = 20_000  # pages: some 4 MB


class Command(Offline, ScrapyCommand):
    """Exit status: 0, 1 when the report cannot be written, 2 when there is no such job or feed, or none of ours."""

    usage = "[options] <jobdir|feed.jsonl> [<later jobdir|feed.jsonl>]"
    summary = "Show a crawl as one HTML page, or compare two"
    details = (
        "Show the crawl of a JOBDIR, of a feed in JSON Lines, or of the feeds of workers who shared it (quoted:"
        " 'pages-*.jsonl'), as one HTML page: the site's structure, its templates"
        " and their fields, pace, cost, errors, changes, its records and pages to look at. It needs no network. Of two"
        " crawls it shows which pages are new, gone or changed, values before and after, and selectors that give less."
        " With --rights it writes a table instead: what the sites say of the use of each page."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        listed = f"pages in the list, {_MAX_LISTED:,} if not given; figures are of all pages"
        rights = "write what the sites say about the use of their pages as CSV, instead of a page"
        parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="the page (report.html)")
        parser.add_argument("--pages", metavar="N", type=int, default=_MAX_LISTED, help=listed)
        parser.add_argument("--rights", metavar="FILE", help=rights)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler import __version__
        from llmcrawler.core.reporting.html import make_comparison, make_report
        from llmcrawler.core.reporting.text import plain

        if len(args) > 2:
            raise wrong_usage("quote the pattern of several workers' feeds: 'pages-*.jsonl'")
        if not args or opts.pages < 0 or (opts.rights and len(args) == 2):
            how = "scrapy report [-o FILE] [--pages N] JOBDIR|FEED [LATER_JOBDIR|FEED], or --rights FILE JOBDIR|FEED"
            raise wrong_usage(f"name one folder or feed, or two to compare: {how}")
        make: Any = make_report if len(args) == 1 else make_comparison
        target = opts.rights or opts.output
        try:
            with config_errors_as_usage():
                if opts.rights:
                    told = self._write_rights(Path(args[0]), Path(target))
                else:
                    page, count = make(*map(Path, args), opts.pages, __version__, time.time())
                    Path(target).write_bytes(page)
                    told = f"{count}, {len(page) / 1e6:.1f} MB"
        except OSError as error:
            sys.stderr.write(f"{target} cannot be written: {error.strerror or error}\n")
            self.exitcode = 1
        else:
            sys.stdout.write(f"{plain(target)}: {told}\n")

    def _write_rights(self, source: Path, target: Path) -> str:
        """Write the whole table, or leave what is there; return how much it is."""
        from llmcrawler.core.reporting.html.sources import open_lines
        from llmcrawler.core.reporting.text import many
        from llmcrawler.core.storage.feeds.rights_table import write_rights
        from llmcrawler.core.storage.shared_file import temporary_of
        from llmcrawler.crawl.configuration import FeedSettings

        assert self.settings is not None
        neutralises, temporary = FeedSettings.of(self.settings).csv_neutralise_formulas, temporary_of(target)
        try:
            with open_lines(source) as (lines, purpose), temporary.open("w", encoding="utf-8", newline="") as file:
                count = write_rights(file, lines, purpose, neutralises=neutralises)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        return many(count, "page")
