"""`scrapy status JOBDIR`: how far a crawl is, also while it runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from llmcrawler.errors import ConfigError
from llmcrawler.reporting.status_table import status_tables
from llmcrawler.reporting.table import stdout_console
from llmcrawler.storage.status import job_status


class Command(ScrapyCommand):
    """Exit status: 0, or 2 when there is no such job or its file is none of ours."""

    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "[options] <jobdir>"

    def short_desc(self) -> str:
        return "Tell how far the crawl of a JOBDIR is"

    def long_desc(self) -> str:
        return "Tell how far the crawl of a JOBDIR is: its urls, stages, errors, page types, hosts and speed."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("name one folder: scrapy status [--json] JOBDIR", print_help=False)
        now = time.time()
        try:
            status = job_status(Path(args[0]), now)
        except ConfigError as error:
            raise UsageError(str(error), print_help=False) from error
        if opts.json:
            sys.stdout.write(json.dumps(status.as_dict(), indent=2, ensure_ascii=False) + "\n")
            return
        console = stdout_console()
        for part in status_tables(status, now):
            console.print(part)
