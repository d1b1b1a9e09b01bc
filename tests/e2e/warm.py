"""Commands of Scrapy in processes that are forked from one that has imported Scrapy and this project already.

    done = warm.run([...], environment, timeout_seconds)     as subprocess.run([sys.executable, "-m", "scrapy", ...])
    process = warm.start([sys.executable, "-m", "scrapy", ...], environment, log=file)     as subprocess.Popen

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
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Self, TypeAlias

ROOT = Path(__file__).parents[2]
# What a crawl loads, and nothing that would choose a reactor.
PACKAGES = (
    "scrapy.commands",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
    "llmcrawler.commands",
    "llmcrawler.core.frontier",
    "llmcrawler.core.llm",
    "llmcrawler.core.understanding.classification",
    "llmcrawler.core.understanding.extraction",
    "llmcrawler.spiders",
    "llmcrawler.middlewares",
    "llmcrawler.pipelines",
    "llmcrawler.extensions",
    "llmcrawler.exporters",
)
MODULES = (
    "anyio._backends._asyncio",
    "httpcore2",
    "jsonschema_rs",
    "openai.resources.chat.completions.completions",
    "openai.resources.models",
    "regex",
    "truststore",
    "uvloop",
    "scrapy.cmdline",
    "scrapy.core.downloader.handlers.datauri",
    "scrapy.core.downloader.handlers.file",
    "scrapy.core.downloader.handlers.ftp",
    "scrapy.core.downloader.handlers.s3",
    "scrapy.crawler",
    "scrapy.extensions.closespider",
    "scrapy.extensions.corestats",
    "scrapy.extensions.logcount",
    "scrapy.extensions.memdebug",
    "scrapy.extensions.memusage",
    "llmcrawler.core.content.api_client",
    "llmcrawler.crawl.job",
    "llmcrawler.crawl.start_checks",
    "llmcrawler.engine.log_setup",
    "llmcrawler.core.reporting.planning.estimate",
    "llmcrawler.core.understanding.page_extractor",
    "llmcrawler.core.reporting.html",
    "llmcrawler.core.reporting.account",
    "llmcrawler.core.reporting.terminal_tables",
    "llmcrawler.middlewares.addresses",
    "llmcrawler.spiders.map",
    "llmcrawler.engine.request_scheduler",
    "llmcrawler.core.reporting.planning.site_sample",
    "llmcrawler.engine.http_downloads",
)
# What Python and the C library read at their start.
AT_START = ("PYTHON", "LANG", "LC_", "TZ", "MALLOC", "LD_")
SCRAPY = (sys.executable, "-m", "scrapy")
_ANSWER_BYTES = 100

Environment: TypeAlias = dict[str, str]
File: TypeAlias = IO[bytes] | IO[str] | int


class Command:
    """A command that runs, as subprocess.Popen has it. `pid` is that of the command itself."""

    def __init__(self, pid: int, answers: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._answers = answers

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0)
            self.returncode = int(self._answers.recv(_ANSWER_BYTES))
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()


Process: TypeAlias = Command | subprocess.Popen[bytes] | subprocess.Popen[str]


def start(
    parts: Sequence[str],
    environment: Environment,
    out: File = subprocess.DEVNULL,
    log: File = subprocess.DEVNULL,
    cwd: Path = ROOT,
    *,
    own_session: bool = False,
) -> Process:
    """`parts` are Python's own: itself, -m and a module or -c and code, and arguments. Standard input is empty."""
    if sys.platform != "linux":  # elsewhere a fork of what has loaded much is not safe
        return subprocess.Popen(
            parts,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=own_session,
        )
    given = {"arguments": parts[1:], "environment": environment, "cwd": str(cwd), "own_session": own_session}
    starter = _starter(_read_at_start(environment))
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs, tempfile.TemporaryFile() as order, Path(os.devnull).open("wb") as nothing:
        order.write(json.dumps(given).encode())
        order.flush()
        files = [nothing if file == subprocess.DEVNULL else file for file in (out, log)]
        numbers = [theirs.fileno(), order.fileno(), *(one if isinstance(one, int) else one.fileno() for one in files)]
        starter.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))])
    return Command(int(ours.recv(_ANSWER_BYTES)), ours)


def run(
    arguments: Sequence[str],
    environment: Environment,
    timeout_seconds: float,
    cwd: Path = ROOT,
    program: Sequence[str] = SCRAPY,
) -> subprocess.CompletedProcess[str]:
    """`arguments` follow the program. Raises subprocess.TimeoutExpired when the command has been ended for its time."""
    parts = [*program, *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        with start(parts, environment, out, log, cwd) as process:
            try:
                process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        out.seek(0)
        log.seek(0)
        printed, logged = out.read().decode(errors="replace"), log.read().decode(errors="replace")
    assert process.returncode is not None
    return subprocess.CompletedProcess(parts, process.returncode, printed, logged)


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
    given = json.loads(os.pread(order, os.fstat(order).st_size, 0))
    pid = os.fork()
    if pid:
        for descriptor in (order, out, log):  # a pipe ends with the command
            os.close(descriptor)
        os.write(answers, b"%d" % pid)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(answers, b"%d" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(log, 2)
    for descriptor in (answers, order, out, log):
        os.close(descriptor)
    if given["own_session"]:
        os.setsid()
    os.chdir(given["cwd"])
    sys.path[0] = given["cwd"]
    os.environ.clear()
    os.environ.update(given["environment"])
    return list(given["arguments"])


if __name__ == "__main__":
    orders = socket.socket(fileno=int(sys.argv[1]))
    _load()
    arguments = _serve(orders)
    if arguments is not None:
        option, what, *rest = arguments
        sys.argv[:] = [sys.argv[0] if option == "-m" else option, *rest]
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = ""
            exec(what, {"__name__": "__main__"})
