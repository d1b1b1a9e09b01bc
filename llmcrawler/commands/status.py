"""`scrapy status JOBDIR`, `scrapy status REDIS_URL [CRAWL_ID]`: how far a crawl is, also while it runs."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, show, wrong_usage
from llmcrawler.errors import require


class Command(Offline, ScrapyCommand):
    """Exit status: 0, or 2 when there is no such job or crawl, or it is none of ours."""

    usage = "[options] <jobdir> | <redis url> [<crawl id>]"
    summary = "Tell how far the crawl of a JOBDIR, or of several workers, is"
    details = (
        "Tell how far the crawl of a JOBDIR is: its urls, stages, errors, page types, hosts and speed; or that of"
        " workers who share a Redis: these, what they own, its urls, hosts, errors and dead letters. Without a crawl id"
        " the crawls in the Redis are listed."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON instead of tables")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        now = time.time()
        is_shared = bool(args) and "://" in args[0]
        if not 1 <= len(args) <= 1 + is_shared:
            how = "scrapy status [--json] JOBDIR | REDIS_URL [CRAWL_ID]"
            raise wrong_usage(f"name one folder, or a Redis and a crawl: {how}")
        with config_errors_as_usage():
            if is_shared:
                _show_shared(args, now, as_json=opts.json)
            else:
                from llmcrawler.core.reporting.terminal_tables import job_status_tables
                from llmcrawler.core.storage.job_status import job_status

                job = job_status(Path(args[0]), now)
                show(job.as_dict(), job_status_tables(job, now), as_json=opts.json)


def _show_shared(args: list[str], now: float, *, as_json: bool) -> None:
    require("redis", "redis", "the status of a shared crawl")
    from llmcrawler.fleet.connection import shown
    from llmcrawler.fleet.crawl_control import crawl_names, distributed_status
    from llmcrawler.fleet.fleet_tables import session_status_tables

    if len(args) == 1:
        names = crawl_names(args[0])
        show({"url": shown(args[0]), "crawls": names}, names or ["there is no crawl"], as_json=as_json)
        return
    session = distributed_status(args[0], args[1])
    show(asdict(session), session_status_tables(session, now), as_json=as_json)
