"""Explores a site from Python: in a process of its own, so that it runs in notebooks and under any event loop.

import llmcrawler

for page in llmcrawler.explore("https://shop.example", max_pages=40):
    print(page["url"], page["page_type"])
products = llmcrawler.explore("https://shop.example", goal="product", fields=["title", "price:number"]).to_pandas()
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.core.storage.feeds.tables import Kind, columns_of
from llmcrawler.core.understanding.extraction.record_table import RecordTable, typed_cell
from llmcrawler.errors import ConfigError, CrawlFailed, JobBusy, install_command
from llmcrawler.items import Page

if TYPE_CHECKING:
    import pandas as pd

    from llmcrawler.crawl.arguments import ExploreOptions

_PROGRESS_LOGGER: Final = "llmcrawler.extensions.progress_reports"
_STATUS_LOGGER: Final = "llmcrawler.commands.crawl"
_CHILD: Final = "llmcrawler.commands.python_crawl_process"
_LINES, _LOG = "lines.jsonl", "log"
_POLL_SECONDS: Final = 0.1
_STOP_SECONDS: Final = 60.0  # for pages that are under way and what was learned; then the process is killed
QUIET_SETTINGS: Final = {"PROGRESS": "log", "PROGRESS_LOG_SECONDS": 5, "LOG_FORMAT": "json", "LOG_FILE": ""}
_DTYPES: Final[Mapping[Kind, str]] = {"number": "float64", "integer": "Int64", "flag": "boolean"}
_MOST_CHARS: Final = 500  # of a cause

logger = logging.getLogger(__name__)


def explore(  # noqa: PLR0913 - the arguments that most crawls have
    url: str | Sequence[str],
    *,
    fields: str | Sequence[str] | None = None,
    goal: str | Sequence[str] | None = None,
    max_pages: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | Callable[[str], None] = True,
    **arguments: Any,
) -> RunningCrawl:
    """Start a crawl in a process of its own, and return it: an iterable of its page lines, as dicts.

    `fields` are the records' ("price:number", "tags[]"), `settings` those of Scrapy and of llmcrawler.settings by name,
    `arguments` all others that `llmcrawler explore --help` shows, with "_" in the place of "-". `progress`: shown on
    stderr, or under a notebook's cell; a function gets its texts; False shows none.

    Raises llmcrawler.errors.ConfigError for a wrong argument, at once; all else is raised by the iteration.
    """
    from llmcrawler.crawl.arguments import ExploreOptions  # it loads Scrapy

    given = {"url": url, "fields": fields, "goal": goal, "max_pages": max_pages, **arguments}
    texts = {name: argument_text(value) for name, value in given.items() if value is not None}
    options = ExploreOptions.of(texts)
    argv = ["explore", *(part for name, value in texts.items() for part in ("-a", f"{name}={value}"))]
    for name, setting in {**QUIET_SETTINGS, **(settings or {})}.items():
        if setting is None:
            continue
        try:
            value = json.dumps(setting) if isinstance(setting, (dict, list, tuple)) else str(setting)
        except TypeError as error:
            raise ConfigError(f"settings: {name} has a value that another process cannot get: {error}") from error
        argv += ["-s", f"{name}={value}"]
    return RunningCrawl(options, argv, progress_output(progress))


class RunningCrawl:
    """A crawl in another process. Iterating gives its page lines as they come, and when it has ended those that came:
    they are kept on disk for as long as this object lives. An iteration that is left (break, Ctrl-C, an error) ends the
    crawl; so does the end of this process, of any kind.

    The first iteration that meets the crawl's end raises what was wrong with it: ConfigError for a wrong setting,
    JobBusy for a JOBDIR in use, and CrawlFailed with its `exit_status` for all else that is not 0. A budget that was
    reached is only said in the log.
    """

    def __init__(self, options: ExploreOptions, argv: Sequence[str], show: Callable[[str], None]) -> None:
        self._options = options
        self._show = show
        self._folder = Path(tempfile.mkdtemp(prefix="llmcrawler-"))
        self._log = CrawlLog(self._folder / _LOG)
        self._is_told = False
        self._first_error = ""
        self._process = crawl_process([*argv, "-O", f"{self._folder / _LINES}:jsonlines"], self._folder / _LOG)
        self._end = weakref.finalize(self, _clean_up, self._process, self._folder, self._log)

    @property
    def exit_status(self) -> int | None:
        """The exit status of the crawl, as of `scrapy crawl`; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End the crawl and wait for that: pages under way are finished. The lines that came are kept."""
        self._is_told = True
        _end(self._process)

    def to_pandas(self) -> pd.DataFrame:
        """Wait for the crawl's end and return a DataFrame: where fields were asked for a row for each record, with a
        typed column for each field (with a goal, of its page types), else a row for each page.

        Raises ImportError without pandas, and what the iteration raises.
        """
        try:
            import pandas as pd  # it is optional, and slow to load
        except ImportError as error:
            self.stop()
            raise ImportError(f"to_pandas needs pandas: {install_command('pandas')}") from error
        wanted, goal = self._options.wanted, self._options.goal
        if wanted is None:
            return pd.DataFrame(list(self), columns=[one.name for one in columns_of(Page) if one.name != "kind"])
        table = RecordTable(wanted.fields)
        rows = [
            (table.row_of(line), line["lang"] or "")
            for line in self
            if isinstance(line["record"], dict) and (not goal or line["page_type"] in goal)
        ]
        return pd.DataFrame(
            {
                column.name: pd.Series(
                    [typed_cell(column, row.get(column.name), lang) for row, lang in rows],
                    dtype="object" if column.many else _DTYPES.get(column.kind, "object"),
                )
                for column in table.columns
            }
        )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self._lines()
        finally:
            if self.exit_status is None:
                self.stop()
        self._raise_failure()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Iterate without holding up the event loop."""
        lines = iter(self)
        try:
            while (line := await asyncio.to_thread(next, lines, None)) is not None:
                yield line
        finally:
            if self.exit_status is None:
                await asyncio.to_thread(self.stop)

    def __repr__(self) -> str:
        status = self.exit_status
        state = "running" if status is None else f"ended with exit status {status}"
        return f"<RunningCrawl of {', '.join(self._options.urls)[:_MOST_CHARS]}: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _lines(self) -> Iterator[dict[str, Any]]:
        has_ended = False
        with closing(WholeLines(self._folder / _LINES)) as feed:
            while not has_ended:
                has_ended = self.exit_status is not None  # asked before reading: what is read after it is all there is
                for line in map(json.loads, feed.more()):
                    if line["kind"] == "page":
                        if line["error"] and not self._first_error:
                            self._first_error = f"{line['url']}: {line['error']['message']}"
                        yield line
                for text in self._log.progress():
                    self._show(text)
                if not has_ended:
                    with suppress(subprocess.TimeoutExpired):
                        self._process.wait(_POLL_SECONDS)

    def _raise_failure(self) -> None:
        status = self.exit_status
        if self._is_told or status in (None, ExitStatus.FINISHED):
            return
        self._is_told = True
        cause = self._log.cause
        if status == ExitStatus.UNREACHABLE and self._first_error:
            cause = f"{cause} ({self._first_error})"
        cause = cause[:_MOST_CHARS]
        match status:
            case ExitStatus.BUDGET:
                logger.warning("%s", cause)
            case ExitStatus.USAGE:
                raise ConfigError(cause)
            case ExitStatus.BUSY:
                raise JobBusy(cause)
            case _:
                raise CrawlFailed(status, cause or f"the crawl's process ended with {status}, and its log is elsewhere")


class WholeLines:
    """Reads a file that another process writes, line by line; half a line waits for its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def more(self) -> Iterator[str]:
        if self._file is None:
            with suppress(FileNotFoundError):
                self._file = self._path.open("rb")
        while self._file is not None:
            start = self._file.tell()
            line = self._file.readline()
            if not line.endswith(b"\n"):
                self._file.seek(start)
                return
            yield line.decode("utf-8", "replace")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class CrawlLog:
    """Takes from the crawl's log what its user is to see. `cause` is why it ended as it did, in one line."""

    def __init__(self, path: Path) -> None:
        self._lines = WholeLines(path)
        self.close = self._lines.close
        self._last = self._reason = self._error = ""

    @property
    def cause(self) -> str:
        return self._error or self._reason or self._last

    def progress(self) -> Iterator[str]:
        """Yield texts of the progress that have come since the last time; log warnings here."""
        for text in self._lines.more():
            try:
                said = json.loads(text)
                name, level, message = said["logger"], said["level"], said["message"]
            except (ValueError, TypeError, KeyError):  # argparse's, or that of a process that died
                self._last = text.strip().rpartition("error: ")[2] or self._last
                continue
            if name == _PROGRESS_LOGGER:
                yield message
            elif name == _STATUS_LOGGER and "exit_status" in said:
                self._reason = message
            elif level in ("ERROR", "CRITICAL"):
                self._error = self._error or message.partition("\n")[0]
                logger.error("%s", message)
            elif level == "WARNING" and name.startswith("llmcrawler."):
                logger.warning("%s", message)


def argument_text(value: Any) -> str:
    """Return a value as the text of a spider's argument."""
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{kind}" for name, kind in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(int(value)) if isinstance(value, bool) else str(value)


def crawl_process(argv: Sequence[str], log: Path, *, umask: int = -1) -> subprocess.Popen[bytes]:
    """Start the crawl's process. What it is to do comes by stdin, as every user of the machine can read a command line,
    which may have a key in it; that stdin ends is its sign to stop.
    """
    around = str(Path(__file__).parents[2])
    paths = [around, *filter(None, [os.environ.get("PYTHONPATH")])]
    with log.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603 - this Python, and a module of ours
            [sys.executable, "-m", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            # Ctrl-C in a terminal or a notebook is for this process, which then tells the crawl to end, once.
            start_new_session=True,
            umask=umask,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    assert process.stdin is not None
    with suppress(OSError):  # it has ended already, and its log says why
        process.stdin.write(json.dumps(argv).encode() + b"\n")
        process.stdin.flush()
    return process


def close_crawl_process(process: subprocess.Popen[bytes]) -> None:
    """Tell the crawl to stop in an orderly way, without waiting."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    close_crawl_process(process)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
    finally:  # it takes too long, or Ctrl-C again
        if process.poll() is None:
            process.kill()
            process.wait()


def _clean_up(process: subprocess.Popen[bytes], folder: Path, log: CrawlLog) -> None:
    _end(process)
    log.close()
    shutil.rmtree(folder, ignore_errors=True)


def progress_output(asked: bool | Callable[[str], None]) -> Callable[[str], None]:
    """Return what shows a text: the function that was given, or one for the place where this process runs."""
    if callable(asked):
        return asked
    if not asked:
        return lambda _text: None
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    handle: Any = None

    def show_in_cell(text: str) -> None:
        nonlocal handle
        content = {"text/plain": text}
        if handle is None:
            handle = import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            handle.update(content, raw=True)

    is_notebook = getattr(shell, "kernel", None) is not None  # IPython in a terminal has none
    return show_in_cell if is_notebook else lambda text: print(text, file=sys.stderr, flush=True)  # noqa: T201
