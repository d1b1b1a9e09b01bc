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
        "Show the crawl of a JOBDIR, of a feed in JSON Lines, or of the feeds of workers who shared it (quoted:"
        " 'pages-*.jsonl'), as one HTML page: the site's structure, its templates"
        " and their fields, pace, cost, errors, changes, its records and pages to look at. It needs no network. Of two"
        " crawls it shows which pages are new, gone or changed, values before and after, and selectors that give less."
        " With --rights it writes a table instead: what the sites say of the use of each page."
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

        parser.add_argument(
            "--rights", metavar="FILE", help="write what the sites say of the use of their pages as CSV, and no page"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler import __version__
        from llmcrawler.core.reporting import plain
        from llmcrawler.core.reporting.html import make_comparison, make_report

        if len(args) > 2:
            raise UsageError("quote the pattern of several workers' feeds: 'pages-*.jsonl'", print_help=False)
        if not args or opts.pages < 0 or (opts.rights and len(args) == 2):
            how = "scrapy report [-o FILE] [--pages N] JOBDIR|FEED [LATER_JOBDIR|FEED], or --rights FILE JOBDIR|FEED"
            raise UsageError(f"name one folder or feed, or two to compare: {how}", print_help=False)
        paths, now = [Path(one) for one in args], time.time()
        if opts.rights:
            self._write_rights(paths[0], Path(opts.rights))
            return
        with config_errors_as_usage():
            if len(paths) == 1:
                page, count = make_report(paths[0], opts.pages, __version__, now)
            else:
                page, count = make_comparison(paths[0], paths[1], opts.pages, __version__, now)
        try:
            Path(opts.output).write_bytes(page)
        except OSError as error:
            self._refuse(opts.output, error)
            return
        sys.stdout.write(f"{plain(opts.output)}: {count}, {len(page) / 1e6:.1f} MB\n")

    def _write_rights(self, source: Path, target: Path) -> None:
        """Write the whole table, or leave what is there."""
        from llmcrawler.core.reporting import many, plain
        from llmcrawler.core.reporting.html.sources import open_lines
        from llmcrawler.core.storage.feeds import write_rights
        from llmcrawler.core.storage.shared_file import temporary_of

        assert self.settings is not None
        neutralises, temporary = self.settings.getbool("CSV_NEUTRALISE_FORMULAS"), temporary_of(target)
        try:
            with (
                config_errors_as_usage(),
                open_lines(source) as (lines, purpose),
                temporary.open("w", encoding="utf-8", newline="") as file,
            ):
                count = write_rights(file, lines, purpose, neutralises=neutralises)
            temporary.replace(target)
        except OSError as error:
            self._refuse(target, error)
        else:
            sys.stdout.write(f"{plain(target)}: {many(count, 'page')}\n")
        finally:
            temporary.unlink(missing_ok=True)

    def _refuse(self, target: object, error: OSError) -> None:
        sys.stderr.write(f"{target} cannot be written: {error.strerror or error}\n")
        self.exitcode = 1
