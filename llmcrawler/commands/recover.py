"""`scrapy recover JOBDIR`: saves what can be read of a damaged job, and queues the rest for the next run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage
from llmcrawler.commands.requeue import next_run

if TYPE_CHECKING:
    from llmcrawler.core.storage.recovery import Recovered


class Command(Offline, ScrapyCommand):
    """Exit status: 0, or 2 for wrong usage, no job, or a disk that does not let it."""

    usage = "[options] <jobdir>"
    summary = "Save what can be read of a damaged JOBDIR"
    details = (
        "Put what can still be read of a damaged JOBDIR, and has the right checksum, into a new file. Pages whose lines"
        " are lost go back to the queue: the next run of the crawl fetches them again. The old files are kept."
    )

    def run(self, args: list[str], _opts: argparse.Namespace) -> None:
        from llmcrawler.core.reporting.text import plain
        from llmcrawler.core.storage.recovery import recover

        if len(args) != 1:
            raise wrong_usage("name one folder: scrapy recover JOBDIR")
        with config_errors_as_usage():
            lines = _lines(recover(Path(args[0])), args[0])
        sys.stdout.write("".join(f"{plain(line)}\n" for line in lines))


def _lines(result: Recovered, jobdir: str) -> list[str]:
    lines = [f"Lines saved: {result.lines:,}"]
    if result.gone:
        lines.append(f"Lines lost: {len(result.gone):,}. Their pages are back in the queue:")
        lines += [f"  {url}" for url in result.gone]
    if result.is_repeated:
        lines.append("Part of the queue is lost: the next run goes through all pages once more, for their links")
    if len(result.kept) > 1:
        lines.append("What was learned of the templates is damaged, and is learned again")
    lines.append(f"The old files are kept: {', '.join(map(str, result.kept))}")
    if result.spider is None or result.given is None:
        return [*lines, "Next: the same command that started the crawl"]
    return [*lines, next_run(result.spider, result.given, jobdir)]
