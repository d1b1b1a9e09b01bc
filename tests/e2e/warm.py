"""Commands of Scrapy in processes that are forked from one that has imported Scrapy and this project already.

    done = warm.run([...], environment, timeout_seconds)     as subprocess.run([sys.executable, "-m", "scrapy", ...])

Most of what the tests' many short crawls cost is the import of a thousand modules, the same each time. From the fork
on, each command is what `python -m scrapy` is: its arguments, environment, reactor and exit are its own. What tests
start for themselves (to kill it, to watch it, a fleet) starts from nothing, as a user's command does.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# What a crawl loads, and nothing that would choose a reactor.
PACKAGES = (
    "scrapy.commands",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
    "llmcrawler.commands",
    "llmcrawler.spiders",
    "llmcrawler.middlewares",
    "llmcrawler.pipelines",
    "llmcrawler.extensions",
)
MODULES = (
    "uvloop",
    "scrapy.crawler",
    "scrapy.extensions.closespider",
    "scrapy.extensions.corestats",
    "scrapy.extensions.logcount",
    "scrapy.extensions.memusage",
    "llmcrawler.crawl.start_checks",
    "llmcrawler.engine.logformatter",
    "llmcrawler.engine.map_scheduler",
    "llmcrawler.reporting.planning",
    "llmcrawler.crawl.offline_extractor",
    "llmcrawler.reporting.html",
    "llmcrawler.reporting.plan_figures",
    "llmcrawler.reporting.plan_tables",
    "llmcrawler.reporting.status_tables",
    "llmcrawler.reporting.templates_table",
    "llmcrawler.engine.resolver",
    "llmcrawler.reporting.planning.sampler",
    "llmcrawler.engine.http_downloads",
    "llmcrawler.engine.loop_watchdog",
)
# What Python and the C library read at their start.
AT_START = ("PYTHON", "LANG", "LC_", "TZ", "MALLOC", "LD_")


def run(
    arguments: Sequence[str], environment: dict[str, str], timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """`arguments` follow `scrapy`. Raises subprocess.TimeoutExpired when the command has been ended for its time."""
    parts = [sys.executable, "-m", "scrapy", *arguments]
    if sys.platform != "linux":  # elsewhere a fork of what has loaded much is not safe
        return subprocess.run(
            parts, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        status = _ask(_starter(_read_at_start(environment)), arguments, environment, (out, log), timeout_seconds)
        out.seek(0)
        log.seek(0)
        printed, logged = out.read().decode(errors="replace"), log.read().decode(errors="replace")
    if status is None:
        raise subprocess.TimeoutExpired(parts, timeout_seconds, printed, logged)
    return subprocess.CompletedProcess(parts, status, printed, logged)


def _ask(
    starter: socket.socket,
    arguments: Sequence[str],
    environment: dict[str, str],
    files: Sequence[Any],
    timeout_seconds: float,
) -> int | None:
    """The exit status; None: it took too long."""
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as order:
        order.write(json.dumps({"arguments": list(arguments), "environment": environment}).encode())
        order.flush()
        with theirs:
            numbers = [theirs.fileno(), order.fileno(), *(file.fileno() for file in files)]
            starter.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))])
        answers = ours.makefile()
        pid = int(answers.readline())
        ours.settimeout(timeout_seconds)
        try:
            return int(answers.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            return None


def _read_at_start(environment: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in environment.items() if name.startswith(AT_START)))


@functools.cache
def _starter(at_start: tuple[tuple[str, str], ...]) -> socket.socket:
    """The socket to the process that is forked for every command; it ends with this one."""
    ours, theirs = socket.socketpair()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(AT_START)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.warm", str(theirs.fileno())],
        cwd=ROOT,
        env=kept | dict(at_start),
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


# -- what runs in the process that is forked, and in its forks --------------------------------------------------------


def _load() -> None:
    for package in map(import_module, PACKAGES):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for name in MODULES:
        import_module(name)
    assert "twisted.internet.reactor" not in sys.modules
    gc.collect()
    gc.freeze()  # else each fork's first collection copies all of it


def _serve(orders: socket.socket) -> list[str] | None:
    """Returns in each fork that is to be a command, with its arguments; and in the end, with None."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who wait for the commands are waited for by nobody
    while True:
        message, descriptors, _flags, _address = socket.recv_fds(orders, 1, 4)
        if not message:
            return None
        if os.fork() == 0:
            orders.close()
            return _become(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(answers: int, order: int, out: int, log: int) -> list[str]:
    """Fork the command, in which this returns, and stay to say how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid:
        os.write(answers, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    given = json.loads(os.pread(order, os.fstat(order).st_size, 0))
    os.dup2(out, 1)
    os.dup2(log, 2)
    for descriptor in (answers, order, out, log):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(given["environment"])
    return list(given["arguments"])


if __name__ == "__main__":
    orders = socket.socket(fileno=int(sys.argv[1]))
    _load()
    arguments = _serve(orders)
    if arguments is not None:
        sys.argv[1:] = arguments
        runpy.run_module("scrapy", run_name="__main__", alter_sys=True)
