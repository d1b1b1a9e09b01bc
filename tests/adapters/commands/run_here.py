"""Runs a command in this process, with options as on its command line."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

from scrapy.cmdline import ScrapyArgumentParser
from scrapy.commands import ScrapyCommand
from scrapy.utils.project import get_project_settings


def run_here(command: ScrapyCommand, *given: object) -> None:
    command.settings = get_project_settings()
    parser = ScrapyArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    opts, args = parser.parse_known_args([str(one) for one in given])
    command.process_options(args, opts)
    command.run(args, opts)


def printed(command: ScrapyCommand, *given: object) -> str:
    with redirect_stdout(StringIO()) as out:
        run_here(command, *given)
    return out.getvalue()
