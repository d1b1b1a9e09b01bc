"""`scrapy shell` with the stored templates at hand."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from scrapy.commands.shell import Command as ShellCommand
from scrapy.exceptions import UsageError
from scrapy.http import TextResponse

from llmcrawler import json_log
from llmcrawler.configuration import templates_file
from llmcrawler.engine.response_text import page_text
from llmcrawler.errors import ConfigError
from llmcrawler.recall import Recall

_HELP = """\
[s] Learned templates ({path}):
[s]   record()          The record of this response (or record(response)), by its template's selectors
[s]   selectors()       The selectors of its template
[s]   template()        The template's name
"""


class Command(ShellCommand):
    """Where TEMPLATES_FILE (or a JOBDIR) has templates, the shell has `record`, `selectors` and `template`."""

    _recall: Recall | None = None

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        assert self.settings is not None
        json_log.install(self.settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        try:
            file = templates_file(self.settings)
            self._recall = Recall(file) if file is not None else None
        except ConfigError as error:
            raise UsageError(str(error), print_help=False) from error
        if file is not None and not opts.code:
            sys.stdout.write(_HELP.format(path=file.path))
        super().run(args, opts)

    def update_vars(self, vars: dict[str, Any]) -> None:  # noqa: A002 - Scrapy's name
        if self._recall is not None:
            vars.update(_functions(self._recall, vars))


def _functions(recall: Recall, variables: dict[str, Any]) -> dict[str, Any]:
    def page(response: Any) -> tuple[str, str]:
        """Html and url; without a response, of the one that the shell has now."""
        chosen = variables.get("response") if response is None else response
        if not isinstance(chosen, TextResponse):
            raise TypeError("there is no response with a text: fetch(url) one")
        return page_text(chosen), chosen.url

    def record(response: Any = None) -> dict[str, Any] | None:
        return recall.record(*page(response))

    def selectors(response: Any = None) -> list[dict[str, Any]]:
        return recall.selectors(*page(response))

    def template(response: Any = None) -> str | None:
        return recall.template(*page(response))

    return {"record": record, "selectors": selectors, "template": template}
