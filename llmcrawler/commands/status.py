"""`scrapy status JOBDIR`, `scrapy status REDIS_URL CRAWL_ID`: how far a crawl is, also while it runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from rich.console import RenderableType
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
        return "[options] <jobdir> | <redis url> <crawl id>"

    def short_desc(self) -> str:
        return "Tell how far the crawl of a JOBDIR, or of a fleet's Redis, is"

    def long_desc(self) -> str:
        return (
            "Tell how far the crawl of a JOBDIR is: its urls, stages, errors, page types, hosts and speed; or that of "
            "a fleet: its workers, urls, hosts, errors and dead letters."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        now = time.time()
        try:
            value, parts = self._read(args, now)
        except ConfigError as error:
            raise UsageError(str(error), print_help=False) from error
        if opts.json:
            sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
            return
        console = stdout_console()
        for part in parts:
            console.print(part)

    def _read(self, args: list[str], now: float) -> tuple[dict[str, Any], Iterable[RenderableType]]:
        if len(args) == 2 and "://" in args[0]:
            # redis takes 0.14 s to load
            from llmcrawler.fleet.status import crew_status  # noqa: PLC0415
            from llmcrawler.reporting.crew_table import crew_tables  # noqa: PLC0415

            crew = crew_status(args[0], args[1])
            return crew.as_dict(), crew_tables(crew, now)
        if len(args) != 1 or "://" in args[0]:
            raise UsageError(
                "name one folder, or a Redis and a crawl: scrapy status [--json] JOBDIR | REDIS_URL CRAWL_ID",
                print_help=False,
            )
        job = job_status(Path(args[0]), now)
        return job.as_dict(), status_tables(job, now)
