"""`scrapy requeue JOBDIR`: dead letters and failed pages are worked on again by the next run of the crawl."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage

if TYPE_CHECKING:
    from llmcrawler.core.storage.requeueing import Requeued


class Command(Offline, ScrapyCommand):
    """Exit status: 0, 1 when a url that was named is not in the job, 2 wrong usage, or no job."""

    usage = "[options] <jobdir> [url ...]"
    summary = "Bring failed pages of a JOBDIR back to its queue"
    details = (
        "Bring pages of a JOBDIR back to its queue, those that fit all that is given. Dead letters are fetched again;"
        ' other pages run again from the stage on that failed. In urls and kinds "*" stands for anything.'
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--dead", action="store_true", help="dead letters: pages that could not be fetched")
        parser.add_argument("--failed", action="store_true", help="pages that failed in another stage")
        parser.add_argument(
            "--kind", action="append", metavar="KIND", help="with this kind of error, as http_503, http_*"
        )
        parser.add_argument("--stage", action="append", metavar="STAGE", help="of which this stage failed")
        parser.add_argument(
            "--force", action="store_true", help="also pages without a failure: from --stage on, or fetched again"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.core.reporting.text import plain
        from llmcrawler.core.storage.requeueing import RequeueChoice, requeue

        if not args:
            raise wrong_usage("name a folder: scrapy requeue [options] JOBDIR [URL ...]")
        choice = RequeueChoice(
            dead=opts.dead,
            failed=opts.failed,
            kinds=tuple(opts.kind or ()),
            stages=tuple(opts.stage or ()),
            urls=tuple(args[1:]),
            is_forced=opts.force,
        )
        with config_errors_as_usage():
            result = requeue(Path(args[0]), choice)
        sys.stdout.write("".join(f"{plain(line)}\n" for line in _lines(result, args[0])))
        sys.stderr.write("".join(f"{plain(url)}: not in the job\n" for url in result.unknown))
        self.exitcode = 1 if result.unknown else 0


def _lines(result: Requeued, jobdir: str) -> list[str]:
    count = result.fetched + result.rerun
    lines = ["nothing to bring back"]
    if count:
        lines = [f"{count:,} back in the queue: {result.fetched:,} to fetch, {result.rerun:,} from their stored bodies"]
    if result.waiting:
        lines.append(f"{result.waiting:,} were already queued")
    if result.unfit:
        lines.append(f"{result.unfit:,} left unchanged: nothing of them failed, or not what was chosen (see --force)")
    if count:
        lines.append(next_run(result.spider, result.given, jobdir))
    return lines


def next_run(spider: str | None, given: Mapping[str, str], jobdir: str) -> str:
    command = ["scrapy", "crawl", spider or "explore"]
    for name, value in given.items():
        command += ["-a", f"{name}={value}"]
    command += ["-s", f"JOBDIR={jobdir}"]
    return f"Next, with its feeds and settings: {shlex.join(command)}"
