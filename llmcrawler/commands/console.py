"""`llmcrawler URL` and `llmcrawler COMMAND ...`: the spiders and commands of this project without a scrapy.cfg.

Inside of a Scrapy project that project's settings hold, elsewhere those of llmcrawler.settings.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from scrapy.settings import Settings

    from llmcrawler.crawl.arguments import ExploreOptions

_SPIDERS: Final = {
    "explore": "Follow links and sitemaps: a page type, a record and a text for each page",
    "extract": "The same for a list of urls or requests, and no links",
    "map": "List a site's urls, most of them without fetching the page",
}
_COMMANDS: Final = (
    *("plan", "status", "workers", "requeue", "recover", "campaign", "serve", "report", "templates", "apply", "mcp"),
    *("parse", "shell", "proxies", "keys"),
)
_FORMS: Final = "The name of a FILE to write says its form: urls.jsonl, .json, .csv, .xml, .parquet"
_RECORD_FORMS: Final = (
    "; products.csv:records has a row for each record (.parquet and .jsonl too), docs.jsonl:documents and site:markdown"
    " have the texts, rights.csv:rights what sites say of their use"
)
_HELP: Final = """\
Explore a site politely, tell what each page is, and take its record

  llmcrawler https://example.com
  llmcrawler https://example.com --max-pages 40 -O products.csv:records --fields title,price:number

An address alone is explored: up to 500 pages, written to a new file such as example.com.jsonl.
Commands (llmcrawler COMMAND --help tells their options):"""
_ALL: Final = (*_SPIDERS, *_COMMANDS)
_ADDRESS: Final = re.compile(r"\w+://.*|(localhost|[\w-]+(\.[\w-]+)+\.?|[\w-]+(?=:\d))(:\d+)?([/?#].*)?")
_OPTION_NAMES: Final = {"force": "force-stages"}  # --force is `scrapy crawl`'s own


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status: that of `scrapy crawl` for a spider, 2 for wrong usage."""
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0] in ("-h", "--help", "help"):
        sys.stdout.write(f"{_HELP}\n")
        for name in _ALL:
            sys.stdout.write(f"  {name:<10} {_SPIDERS.get(name) or _command(name).summary}\n")
        return
    if given[0] == "--version":
        from llmcrawler import __version__

        sys.stdout.write(f"llmcrawler {__version__}\n")
        return
    name, *rest = given
    is_site = name.startswith("-") or (_ADDRESS.fullmatch(name) is not None and not Path(name).is_file())
    if is_site:
        name, rest = "explore", given
    if name not in _ALL:
        from llmcrawler.crawl.setting_checks import hint

        meant = hint(name, _ALL, alike=0.6)
        site = "" if meant else "; the address of a site has a dot or a scheme, as in http://intranet"
        sys.stderr.write(f"llmcrawler: no command {name!r}: {meant}there are {', '.join(_ALL)}{site}\n")
        raise SystemExit(2)
    _run(name, rest, is_quiet=is_site and sys.stderr.isatty())


def _run(name: str, rest: list[str], *, is_quiet: bool) -> None:
    if name in _SPIDERS:
        gc.disable()  # as `scrapy crawl` does when it has been loaded, which goes on then
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback for Ctrl-C before Scrapy's own handler is there
    # Loaded here: Scrapy takes half a second, and imports this module for a list of its commands.
    from scrapy.cmdline import execute

    from llmcrawler.commands import Described

    settings = _settings()
    if is_quiet:  # the display, the first line and the summary say what matters to who gave an address alone
        settings.set("LOG_LEVEL", "WARNING", priority="project")
    parser = _parser(name, settings)
    if "-h" in rest or "--help" in rest:
        parser.print_help()
        return
    if name in _SPIDERS or name == "plan":
        opts = _parse(parser, name, rest)
        starts = vars(opts).pop("url", [])
        if name == "plan":
            rest = [name, *starts, *_as_options(opts)]
        else:
            opts.spargs += [f"url={','.join(starts)}"] if starts else []
            rest = ["crawl", name, *_as_options(opts)]
    else:
        rest = [name, *rest]
    Described.usage_shown = parser.prog, str(parser.usage)
    execute(["llmcrawler", *rest], settings)


def _settings() -> Settings:
    """Return the settings of the project around, else ours; our commands in either case."""
    from scrapy.utils.conf import init_env
    from scrapy.utils.project import ENVVAR, get_project_settings

    init_env(os.environ.get("SCRAPY_PROJECT", "default"))
    if (folder := str(Path.cwd())) not in sys.path:  # for PAGE_STAGES; last, so that no file there hides a package
        sys.path.append(folder)
    os.environ.setdefault(ENVVAR, "llmcrawler.settings")
    try:
        settings = get_project_settings()
    except ModuleNotFoundError as error:
        sys.stderr.write(f"llmcrawler: {ENVVAR}={os.environ[ENVVAR]} cannot be loaded: {error}\n")
        raise SystemExit(2) from error
    settings.set("COMMANDS_MODULE", "llmcrawler.commands", priority="cmdline")
    return settings


def _command(name: str) -> Any:
    return import_module(f"llmcrawler.commands.{'crawl' if name in _SPIDERS else name}").Command


def _parser(name: str, settings: Settings) -> argparse.ArgumentParser:
    from scrapy.cmdline import ScrapyArgumentParser
    from scrapy.commands import ScrapyHelpFormatter

    command = _command(name)()
    command.settings = settings
    options = _options_of(name)
    syntax = command.syntax()
    if options is not None:
        syntax = "[options] URL ..." if "url" in options.arguments() else "[options]"
    epilog = None
    if name in _SPIDERS:
        epilog = f"{_FORMS}{'' if name == 'map' else _RECORD_FORMS}."
    if name == "extract":
        from llmcrawler.crawl.task_lists import TaskRequest

        fields = (f"{one.alias or name} ({one.description})" for name, one in TaskRequest.model_fields.items())
        epilog = f"Each task is an object of: {', '.join(fields)}. {epilog}"
    parser = ScrapyArgumentParser(
        prog=f"llmcrawler {name}",
        usage=f"llmcrawler {name} {syntax}",
        formatter_class=ScrapyHelpFormatter,
        conflict_handler="resolve",
        description=_SPIDERS.get(name) or command.long_desc(),
        allow_abbrev=False,
        epilog=epilog,
    )
    if options is not None:
        group = parser.add_argument_group("Arguments" if name in _SPIDERS else "Arguments of the crawl")
        for argument, field in options.arguments().items():
            _add(group, argument, field)
    command.add_options(parser)
    return parser


def _options_of(name: str) -> type[ExploreOptions] | None:
    from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions

    return {"explore": ExploreOptions, "plan": ExploreOptions, "extract": ExtractOptions, "map": MapOptions}.get(name)


def _add(group: Any, name: str, field: FieldInfo) -> None:
    """Add an argument of a spider as an option that appends to what `-a` gives."""
    default = field.default if isinstance(field.default, (int, str)) else ""
    told = f"{field.description} ({default})" if default and default is not True else str(field.description)
    if name == "url":
        group.add_argument("url", nargs="*", metavar="URL", help=told)
        return
    option = f"--{_OPTION_NAMES.get(name, name).replace('_', '-')}"
    given: dict[str, Any] = {"dest": "spargs", "action": "append", "default": [], "help": told.replace("%", "%%")}
    if field.annotation is bool:
        group.add_argument(option, **{**given, "action": "append_const", "const": f"{name}=1"})
    else:
        metavar = "RE" if name in ("allow", "deny", "match") else name.upper()
        if "FILE" in str(field.description):
            metavar = "FILE"
        elif "int" in str(field.annotation):
            metavar = "N"
        group.add_argument(option, **given, type=lambda value: f"{name}={value}", metavar=metavar)


def _parse(parser: argparse.ArgumentParser, name: str, rest: list[str]) -> argparse.Namespace:
    opts, others = parser.parse_known_args(rest)
    for other in others:
        if not other.startswith("-"):
            parser.error(f"{name} takes no {other!r}: give the list with --urls FILE or --tasks FILE.json")
        from llmcrawler.crawl.setting_checks import near_name

        options = _options_of(name)
        names = [*(_OPTION_NAMES.get(one, one) for one in (options.arguments() if options else ())), *vars(opts)]
        near = near_name(other.partition("=")[0], [f"--{one.replace('_', '-')}" for one in names], alike=0.6)
        parser.error(f"no option {other!r}" + (f": did you mean {near}?" if near else ""))
    return opts


def _as_options(opts: argparse.Namespace) -> list[str]:
    """Return parsed options as Scrapy's command line has them: their long form, `-a` for arguments of spiders."""
    options = []
    for name, value in vars(opts).items():
        option = "--" + name.replace("_", "-")
        if value is True:
            options.append(option)
        elif name == "spargs":
            options += [part for one in value for part in ("-a", one)]
        elif value is not None and value is not False:
            options += [f"{option}={one}" for one in (value if isinstance(value, list) else [value])]
    return options
