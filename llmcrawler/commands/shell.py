"""`scrapy shell` with the stored templates at hand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scrapy.commands.shell import Command as ShellCommand
from scrapy.http import TextResponse

from llmcrawler.commands import WithLog, config_errors_as_usage

if TYPE_CHECKING:
    from llmcrawler.core.understanding.page_extractor import OfflineExtractor

_HELP = """\
[s] Learned templates ({path}):
[s]   record()          The record of this response (or record(response)), by its template's selectors
[s]   selectors()       The selectors of its template
[s]   template()        The template's name
"""


class Command(WithLog, ShellCommand):
    """Adds `record`, `selectors` and `template` to Scrapy's shell where TEMPLATES_FILE, or a JOBDIR, has templates."""

    usage = "[options] [url|file]"
    summary = "Look at a page interactively"
    details = (
        "Fetch a page, or read it from a file, and look at it in an interactive console. Where TEMPLATES_FILE or a"
        " JOBDIR has templates, record() gives what they extract from it, selectors() and template() by what."
    )

    _extractor: OfflineExtractor | None = None

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from llmcrawler.core.understanding.page_extractor import OfflineExtractor
        from llmcrawler.crawl.configuration import JobSettings

        assert self.settings is not None
        with config_errors_as_usage():
            file = JobSettings.of(self.settings).templates
            self._extractor = OfflineExtractor(file) if file is not None else None
        if file is not None and not opts.code:
            sys.stdout.write(_HELP.format(path=file.path))
        super().run(args, opts)

    def update_vars(self, vars: dict[str, Any]) -> None:  # noqa: A002 - Scrapy's name
        if self._extractor is None:
            return
        from llmcrawler.engine.responses import page_text

        def of_page(look: Callable[[str, str], Any]) -> Callable[..., Any]:
            def function(response: Any = None) -> Any:
                chosen = vars.get("response") if response is None else response
                if not isinstance(chosen, TextResponse):
                    raise TypeError("there is no text response: fetch(url) one")
                return look(page_text(chosen), chosen.url)

            return function

        for name in ("record", "selectors", "template"):
            vars[name] = of_page(getattr(self._extractor, name))
