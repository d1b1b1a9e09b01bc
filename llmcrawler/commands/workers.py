"""`scrapy workers pause|resume|delete REDIS_URL CRAWL_ID`: a crawl that workers share, steered from outside."""

from __future__ import annotations

import argparse
import sys

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage
from llmcrawler.errors import require


class Command(Offline, ScrapyCommand):
    """Exit status: 0, also where nothing had to change, or 2 where there is no such crawl or it cannot be done."""

    usage = "[options] pause|resume|delete <redis url> <crawl id>"
    summary = "Pause the workers of a shared crawl, let them go on, or delete the crawl"
    details = (
        "pause: the workers lease no more urls, end what is under way and stay; so do those that join. resume: they go"
        " on. delete: all that the Redis has of the crawl is deleted, other crawls there are left alone; its feeds"
        " stay. See docs/workers.md; scrapy status REDIS_URL tells which crawls there are."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        told = "also delete a crawl that has workers (they end), or one of another version"
        parser.add_argument("--force", action="store_true", help=told)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.core.reporting.text import many, plain

        if len(args) != 3 or args[0] not in ("pause", "resume", "delete") or (opts.force and args[0] != "delete"):
            how = "scrapy workers pause|resume|delete REDIS_URL CRAWL_ID, delete also with --force"
            raise wrong_usage(f"say what to do with which crawl: {how}")
        action, url, crawl_id = args
        with config_errors_as_usage():
            require("redis", "redis", "scrapy workers")
            from llmcrawler.fleet import crawl_control
            from llmcrawler.fleet.connection import shown

            if action == "delete":
                crawl = crawl_control.delete(url, crawl_id, is_forced=opts.force)
                pages, sites = many(crawl.done, "page"), many(crawl.sites, "site")
                told = f"deleted {pages} done, {crawl.queued:,} urls queued, what was learned of {sites}"
                told += f" ({crawl.keys:,} keys)"
                if crawl.workers:
                    told += f"; {many(len(crawl.workers), 'worker')} will end with exit status 1"
            elif action == "pause":
                was_so = "" if crawl_control.pause(url, crawl_id) else " already"
                told = f"paused{was_so}; resume with: scrapy workers resume {shown(url)} {crawl_id}"
            else:
                told = "goes on" if crawl_control.resume(url, crawl_id) else "was not paused"
        sys.stdout.write(plain(f"{crawl_id}: {told}") + "\n")
