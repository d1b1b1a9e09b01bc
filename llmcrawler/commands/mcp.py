"""`llmcrawler mcp`: the tools of server/mcp_tools.py for assistants; `llmcrawler mcp install`: their entry for it."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage
from llmcrawler.commands.serve import add_job_options, job_limits
from llmcrawler.errors import ConfigError, require

_NAME: Final = "llmcrawler"  # of the entry


@dataclass(frozen=True, slots=True)
class _Assistant:
    """Where an assistant lists its MCP servers: a file below the user's home, or below the folder where this platform
    keeps the settings of programs; and the object in it that has an entry for each.
    """

    title: str
    file: str
    key: str = "mcpServers"
    is_in_home: bool = True
    names_transport: bool = False

    def path(self) -> Path:
        import platformdirs

        return (Path.home() if self.is_in_home else platformdirs.user_config_path(roaming=True)) / self.file


_ASSISTANTS: Final = {
    "claude-desktop": _Assistant("Claude Desktop", "Claude/claude_desktop_config.json", is_in_home=False),
    "claude-code": _Assistant("Claude Code", ".claude.json", names_transport=True),
    "cursor": _Assistant("Cursor", ".cursor/mcp.json"),
    "vscode": _Assistant("VS Code", "Code/User/mcp.json", "servers", is_in_home=False, names_transport=True),
    "windsurf": _Assistant("Windsurf", ".codeium/windsurf/mcp_config.json"),
    "gemini": _Assistant("Gemini CLI", ".gemini/settings.json"),
}


class Command(Offline, ScrapyCommand):
    """Exit status: 0, or 2 for wrong usage and for a file that cannot be used."""

    usage = "[options] | install [options] [<assistant> ...]"
    summary = "Give assistants tools to crawl with (MCP)"
    details = (
        "Serve tools that plan, start and query crawls to an assistant that speaks MCP, over standard input and output."
        f" install: write the entry that starts it for {', '.join(_ASSISTANTS)}, or for those found here; it keeps the"
        " options given. See docs/mcp.md."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        import platformdirs

        super().add_options(parser)
        add_job_options(parser)
        folder = platformdirs.user_data_path("llmcrawler") / "jobs"  # an assistant starts programs in any folder
        parser.add_argument("--jobs", metavar="FOLDER", default=str(folder), help=f"where the jobs are kept ({folder})")
        parser.add_argument("--yes", action="store_true", help="of install: do not ask before a file is changed")
        parser.add_argument("--print", action="store_true", dest="only_print", help="of install: only print the entry")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        with config_errors_as_usage():
            require("mcp", "server", "llmcrawler mcp")
            limits = job_limits(opts)
            if args[:1] == ["install"]:
                install(args[1:], _options(opts), is_agreed=opts.yes, only_print=opts.only_print)
            elif args:
                raise wrong_usage(f"mcp takes no {args[0]!r}, only install")
            else:
                # Ctrl-C is no more than kill -9: what waits for standard input cannot be interrupted in an orderly way.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                asyncio.run(_serve_stdio(Path(opts.jobs).expanduser(), limits))


async def _serve_stdio(folder: Path, limits: Any) -> None:
    from llmcrawler.server.jobs import Jobs
    from llmcrawler.server.mcp_tools import build_server

    jobs = Jobs(folder, limits)
    await jobs.open()
    try:
        await build_server(jobs).run_stdio_async()
    finally:
        await jobs.close()


def _options(opts: argparse.Namespace) -> list[str]:
    """Return the options that say which crawls there may be."""
    names = ("running", "max_pages", "max_tokens", "max_cost", "max_seconds")
    limits = [f"--{name.replace('_', '-')}={value}" for name in names if (value := getattr(opts, name)) is not None]
    hosts = [f"--only-host={host}" for host in opts.only_host] + ["--allow-private"] * opts.allow_private
    folder = f"--jobs={Path(opts.jobs).expanduser().absolute()}"
    return [folder, *limits, *hosts, *(part for one in opts.set for part in ("-s", one))]


def install(names: Sequence[str], options: Sequence[str], *, is_agreed: bool, only_print: bool) -> None:
    """Write an entry that runs `llmcrawler mcp` with these options for each of the assistants; without names, for
    those that are found here. Raises ConfigError for an unknown name, and for a file that is not plain JSON.
    """
    if unknown := [name for name in names if name not in _ASSISTANTS]:
        raise ConfigError(f"no assistant {unknown[0]!r}: there are {', '.join(_ASSISTANTS)}; --print is for all others")
    if only_print:
        key = _ASSISTANTS[names[0] if names else "claude-desktop"].key
        sys.stdout.write(f"{_as_json({key: {_NAME: _entry(options)}})}\n")
        return
    # One that has not listed a server yet has a folder.
    found = [
        name for name, one in _ASSISTANTS.items() if (one.path().parent if "/" in one.file else one.path()).exists()
    ]
    if not (names or found):
        known = ", ".join(_ASSISTANTS)
        raise ConfigError(f"no assistant was found here: name one of {known}, or use --print and add the entry by hand")
    for name in dict.fromkeys(names or found):
        _install(_ASSISTANTS[name], options, is_agreed=is_agreed)


def _entry(options: Sequence[str]) -> dict[str, Any]:
    """Return how an assistant starts the server. It has no shell's PATH: the program is named by its whole path."""
    if {"archive-v0", "environments-v2"} & {*Path(sys.prefix).parts}:  # uvx made it, and clears it away some day
        program = [shutil.which("uvx") or "uvx", "--from", "llmcrawler[server]", "llmcrawler"]
    elif script := shutil.which("llmcrawler", path=str(Path(sys.executable).parent)):
        program = [script]
    else:  # a checkout, which no other folder knows of
        start = "from llmcrawler.commands.console import main; main()"
        program = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); {start}"]
    return {"command": program[0], "args": [*program[1:], "mcp", *options]}


def _install(assistant: _Assistant, options: Sequence[str], *, is_agreed: bool) -> None:
    from llmcrawler.core.storage.shared_file import replace_file

    path = assistant.path()
    entry = ({"type": "stdio"} if assistant.names_transport else {}) | _entry(options)
    before, config = _read(path, assistant.key)
    servers = config.setdefault(assistant.key, {})
    old = servers.get(_NAME)
    old = old if isinstance(old, dict) else {}
    if old | entry == old:
        sys.stdout.write(f"{assistant.title}: {path} has this entry already\n")
        return
    # What else is in it, such as keys in "env", stays, and is not shown.
    instead = f", in the place of {_as_json({name: old.get(name) for name in entry})}" if old else ""
    sys.stdout.write(f"{assistant.title}: to {path}, under {assistant.key}{instead}:\n{_as_json({_NAME: entry})}\n")
    if not (is_agreed or _asked("Write it?")):
        sys.stdout.write(f"{path} is left as it is\n")
        return
    if _read(path, assistant.key)[0] != before:
        raise ConfigError(f"{path}: it has changed meanwhile, and is left as it is: try again")
    servers[_NAME] = old | entry
    backup = path.with_name(f"{path.name}.before-{_NAME}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if before is not None:
            shutil.copy2(path, backup)
        replace_file(path, f"{_as_json(config)}\n".encode())
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be written: {error.strerror}") from error
    kept = "" if before is None else f" ({backup.name} is what it was)"
    sys.stdout.write(f"Written{kept}. Start {assistant.title} again to use it.\n")


def _read(path: Path, key: str) -> tuple[bytes | None, dict[str, Any]]:
    """Return a file's bytes and what they say; None and an empty object where there is no file."""
    try:
        given = path.read_bytes()
    except FileNotFoundError:
        return None, {}
    except OSError as error:
        raise ConfigError(f"{path}: it cannot be read: {error.strerror}") from error
    try:
        config = json.loads(given.decode("utf-8-sig") or "{}", object_pairs_hook=_without_repeats)
        if not isinstance(config, dict) or not isinstance(config.get(key, {}), dict):
            raise ValueError(f"{key} is no object")
        _as_json(config).encode()  # half a character cannot be written again
    except (ValueError, RecursionError) as error:
        cure = "mend it, or add by hand what --print shows"
        raise ConfigError(f"{path}: it is no plain JSON, and is left as it is ({error}): {cure}") from error
    return given, config


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):  # one of the two would be lost
        raise ValueError("a name stands twice in one object")
    return read


def _as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _asked(question: str) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("nobody can be asked here: say --yes, or --print to change nothing")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
