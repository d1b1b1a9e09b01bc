"""`llmcrawler serve`: crawls as jobs over HTTP, for programs, for Firecrawl's clients, and as pages for people."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from scrapy.commands import ScrapyCommand

from llmcrawler.commands import Offline, config_errors_as_usage, wrong_usage
from llmcrawler.errors import ConfigError, require

_TOKEN = "LLMCRAWLER_TOKEN"  # noqa: S105 - the name of the variable
_LEAST_CHARS = 16
_CONNECTIONS = 200


class Command(Offline, ScrapyCommand):
    """Exit status: 0 after Ctrl-C or SIGTERM, 2 wrong usage."""

    usage = "[options] --jobs <folder>"
    summary = "Crawl for clients over HTTP, and show the crawls as pages"
    details = (
        "Take crawls over HTTP, run them within these limits, and give what they find: /v1/jobs (described by"
        " /openapi.json), Firecrawl's API /v2, and pages for people. All is kept in a folder: a server that ends,"
        " however it ends, is followed by the next one, which goes on."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add_job_options(parser)
        add = parser.add_argument
        add("--host", default="127.0.0.1", help=f"the address to listen on (127.0.0.1); another one needs {_TOKEN}")
        add("--port", type=int, default=8787, help="the port (8787)")
        add("--public-name", action="append", default=[], metavar="NAME", help="a host name that clients use")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise wrong_usage(f"serve takes no {args[0]!r}")
        with config_errors_as_usage():
            require("mcp", "server", "llmcrawler serve")
            serve(opts)


def serve(opts: argparse.Namespace) -> None:
    """Serve as the options of this command say, up to Ctrl-C or SIGTERM. Raises ConfigError."""
    import uvicorn

    from llmcrawler.server.http_api import create_app
    from llmcrawler.server.http_guard import HEAD_SECONDS, ImpatientProtocol
    from llmcrawler.server.jobs import Jobs
    from llmcrawler.server.webhooks import Webhooks

    is_here, is_own = opts.host in ("127.0.0.1", "localhost", "::1"), bool(os.environ.get(_TOKEN))
    if not is_here and not is_own:
        raise ConfigError(f"--host {opts.host}: others can reach it: set {_TOKEN} to a long secret of your own")
    jobs = Jobs(Path(opts.jobs), job_limits(opts))
    path = jobs.folder / "token"
    token = os.environ.pop(_TOKEN, "") or _kept_token(path)
    if len(token) < _LEAST_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        where = _TOKEN if is_own else path
        raise ConfigError(f"{where}: a token has {_LEAST_CHARS} or more letters, digits and signs")
    try:
        sock = socket.create_server(
            (opts.host, opts.port), family=socket.AF_INET6 if ":" in opts.host else socket.AF_INET
        )
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--host {opts.host} --port {opts.port}: {error}; name another port") from error
    names = [*opts.public_name, *([] if is_here else [opts.host])]
    config = uvicorn.Config(
        create_app(jobs, token, names),
        http=ImpatientProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=int(HEAD_SECONDS),
        timeout_graceful_shutdown=3,
    )
    where = f"http://{f'[{opts.host}]' if ':' in opts.host else opts.host}:{sock.getsockname()[1]}/"
    sys.stderr.write(f"{where} is open; the token is {'yours' if is_own else f'in {path}'}\n")
    server = uvicorn.Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):  # before it takes them itself, and once more after its end
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    asyncio.run(_run(jobs, Webhooks(jobs, token), server, sock))


async def _run(jobs: Any, webhooks: Any, server: Any, sock: socket.socket) -> None:
    await jobs.open()
    delivering = asyncio.create_task(webhooks.run())
    try:
        await server.serve(sockets=[sock])
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # whoever does not want to wait for the crawls' end
            signal.signal(number, signal.SIG_DFL)
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
        await jobs.close()


def add_job_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the operator's limits, which `job_limits` reads."""
    add = parser.add_argument
    add("--jobs", metavar="FOLDER", default="jobs", help="where the jobs are kept (jobs)")
    add("--running", type=int, default=2, metavar="N", help="crawls at a time (2)")
    add("--max-pages", type=int, metavar="N", help="pages of a job at most (1000)")
    add("--max-tokens", type=int, metavar="N", help="tokens of the model of a job at most (500000); 0: no model")
    add("--max-cost", type=float, metavar="USD", help="dollars for the model of a job at most (0.5); 0: no model")
    add("--max-seconds", type=float, metavar="N", help="seconds of a job at most (3600)")
    add("--only-host", action="append", default=[], metavar="HOST", help="crawl only this host and its subdomains")
    add("--allow-private", action="store_true", help="crawl hosts of this machine and its network too")


def job_limits(opts: argparse.Namespace) -> Any:
    """Return the JobLimits that the options and -s say. Raises ConfigError."""
    from llmcrawler.server.jobs import MOST_BUDGET, JobLimits

    names = {"max_pages": "max_pages", "max_tokens": "max_tokens", "max_cost": "max_cost_usd"}
    names["max_seconds"] = "max_seconds"
    given = {names[name]: getattr(opts, name) for name in names if getattr(opts, name) is not None}
    for name, value in (*given.items(), ("running", opts.running)):
        least = 0 if name in ("max_tokens", "max_cost_usd") else 1
        if not least <= value < 10**12:
            raise ConfigError(f"--{name.removesuffix('_usd').replace('_', '-')} {value}: it is {least} or more")
    pairs = [one.partition("=") for one in opts.set]
    return JobLimits(
        most=replace(MOST_BUDGET, **given),
        max_running=opts.running,
        hosts=tuple(host.strip().rstrip(".").lower() for host in opts.only_host),
        allow_private=opts.allow_private,
        settings={name: value for name, _mark, value in pairs},
    )


def _kept_token(path: Path) -> str:
    """Return the token in the file, which the first server makes. Raises ConfigError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_text(encoding="utf-8").strip()
        with open(file, "w", encoding="utf-8") as new:  # noqa: PTH123 - its mode is given
            token = secrets.token_urlsafe(32)
            new.write(f"{token}\n")
        return token
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be used: {error}; set {_TOKEN}, or name another folder with --jobs"
        ) from error
