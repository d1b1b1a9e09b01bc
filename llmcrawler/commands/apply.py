"""`scrapy apply TEMPLATES ARCHIVE ...`: the records of web archives by what crawls have learned."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage
from llmcrawler.errors import ConfigError, CrawlFailed, JobBusy, StorageFailed

if TYPE_CHECKING:
    from llmcrawler.api.archive_application import Application, PartCounts

_TELL_SECONDS = 10.0


class Command(Offline, ScrapyCommand):
    """Exit status: 0; 1 when the disk is full or a process died; 2 for wrong usage; 3 when it was stopped."""

    usage = "[options] -o FOLDER <templates> <archive> ..."
    summary = "Take the records of web archives, without network and model"
    details = (
        "Write a line for each page of web archives (.warc, .warc.gz, .cdx and .cdxj that list such), by a"
        " TEMPLATES_FILE or the templates of a JOBDIR. The same command goes on where it was."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("-o", "--output", metavar="FOLDER", help="where the parts of the lines are written")
        parser.add_argument("--format", default="jsonl", choices=("jsonl", "parquet"), help="of the parts (jsonl)")
        parser.add_argument(
            "--processes", metavar="N", type=int, help="parallel processes (default: the cores of this machine)"
        )
        parser.add_argument("--warc-root", metavar="PLACE", default="", help="where the archives of an index are")
        parser.add_argument("--fields", default="", help="fields=... of the crawl that has learned")
        parser.add_argument("--schema", metavar="FILE", default="", help="likewise")
        parser.add_argument("--page-types", metavar="FILE", default="", help="likewise")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.api.archive_application import apply_archives
        from llmcrawler.core.processes.cores import usable_cores
        from llmcrawler.core.reporting.exit_status import ExitStatus

        work = _application(args, opts)
        started = told_at = time.monotonic()

        def tell(counts: PartCounts, done: int, of: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= _TELL_SECONDS:
                told_at = time.monotonic()
                sys.stderr.write(f"{done:,} of {of:,} parts: {counts}\n")

        try:
            counts = apply_archives(work, opts.processes or usable_cores(), tell)
        except KeyboardInterrupt:
            sys.stderr.write("Stopped; run the same command again to continue\n")
            self.exitcode = ExitStatus.INTERRUPTED
        except (CrawlFailed, StorageFailed, JobBusy) as error:
            sys.stderr.write(f"{error}\n")
            self.exitcode = ExitStatus.BUSY if isinstance(error, JobBusy) else ExitStatus.ERROR
        except ConfigError as error:
            raise wrong_usage(str(error)) from error
        else:
            seconds = time.monotonic() - started
            sys.stdout.write(f"{counts} in {seconds:,.0f} s; {work.out} has all parts\n")


def _application(args: list[str], opts: argparse.Namespace) -> Application:
    from llmcrawler.api.archive_application import Application
    from llmcrawler.api.public_api import learned_file
    from llmcrawler.core.storage.feeds.feed_checks import require_format
    from llmcrawler.core.understanding.page_extractor import LineRules
    from llmcrawler.crawl.task_lists import ArchiveList

    if len(args) < 2 or not opts.output:
        raise wrong_usage("name templates, archives and an output folder: scrapy apply -o FOLDER TEMPLATES ARCHIVE ...")
    if opts.processes is not None and opts.processes < 1:
        raise wrong_usage(f"--processes {opts.processes}: at least 1")
    out = Path(opts.output)
    if out.exists() and not out.is_dir():
        raise wrong_usage(f"-o {out}: it is a file; name a folder")
    with config_errors_as_usage():
        if opts.format == "parquet":
            require_format("parquet")
        rules = LineRules.of(opts.fields, opts.schema, opts.page_types)
        templates = learned_file(args[0])
        templates.load()
        listed = ArchiveList.of(",".join(args[1:]), opts.warc_root)
        return Application(templates, listed.files, out, rules, opts.format, listed.root)
