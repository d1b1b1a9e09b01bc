"""What a person sees of a crawl, on a real terminal and without one."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte
import pytest
from aiohttp import web

from llmcrawler.core.reporting.timeline import Timeline
from llmcrawler.core.storage.job_file import read_runs
from llmcrawler.core.storage.job_status import open_snapshot
from tests.e2e.crawling import FAST, ROOT, command, environment, explore
from tests.servers.mock_site import MockSite, html

COLUMNS, LINES = 200, 40
HOSTILE = "\x1b[2J\x1b]0;owned\x07\x1b[31m"
LINKS = [f"/page/{n}/" for n in range(5)] + [f"/{HOSTILE}/", "/%1b%5b2J/"]
PROGRESS_LINE = re.compile(
    r"\[llmcrawler.extensions.progress_reports\] INFO: \d+ (?:pages|fetched) \(max_pages 500\) in .* queued"
)
PAGE = "<html><title>Page {0}</title><h1>{0}</h1><p>Words of a page, a few of them.</p>{1}</html>"


@pytest.fixture
def may_end() -> list[Callable[[], bool]]:
    """What the last page waits for."""
    return [lambda: True]


@pytest.fixture
def hanging() -> threading.Event:
    """Whether the page that never answers was asked for."""
    return threading.Event()


@pytest.fixture
def site(may_end: list[Callable[[], bool]], hanging: threading.Event) -> Iterator[MockSite]:
    """A home page, some pages, links with escape sequences in them, and a page that never answers."""

    async def home(request: web.Request) -> web.Response:
        links = "".join(f'<a href="{link}">{HOSTILE}</a>' for link in LINKS) if request.path == "/" else ""
        return html(PAGE.format(HOSTILE, links))

    async def last(request: web.Request) -> web.Response:
        while not may_end[0]():  # noqa: ASYNC110 - it looks at a file
            await asyncio.sleep(0.05)
        return await home(request)

    async def hang(_: web.Request) -> web.Response:
        hanging.set()
        await asyncio.Event().wait()
        raise AssertionError

    routes = dict.fromkeys(("/", "/page/*"), home) | {LINKS[0]: last, "/hang": hang}
    with MockSite({**routes, "/robots.txt": "", "/sitemap.xml": ""}).in_thread() as site:
        yield site


class Terminal:
    """A crawl on a pseudo-terminal: `raw` is what came out, `frames` the screens with a panel on them."""

    def __init__(self, parts: list[str]) -> None:
        self.raw = b""
        self.frames: list[str] = []
        self._screen = pyte.HistoryScreen(COLUMNS, LINES, history=5000)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            parts,
            cwd=ROOT,
            env={**environment(), "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def read_until(self, text: str) -> None:
        while text.encode() not in self.raw:
            self.read_more(f" without {text!r}")

    def read_more(self, without: str = "") -> None:
        assert self._read(), f"ended{without}:\n{self.lines()}"

    def read_all(self) -> None:
        while self._read():
            pass
        self.process.wait()

    def lines(self) -> list[str]:
        """All lines that stand on the terminal or ran out at its top."""
        past = ["".join(row[n].data for n in range(COLUMNS)) for row in self._screen.history.top]
        return [line.rstrip() for line in [*past, *self._screen.display]]

    @property
    def cursor_is_shown(self) -> bool:
        return not self._screen.cursor.hidden

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> bool:
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            return False
        self.raw += data
        self._stream.feed(data)
        shown = "\n".join(self._screen.display)
        if "╰" in shown:
            self.frames.append(shown)
        return bool(data)


@contextlib.contextmanager
def terminal(url: str, tmp_path: Path, **settings: object) -> Iterator[Terminal]:
    screen = Terminal(command({"url": url}, settings, tmp_path / "feed.jsonl"))
    try:
        yield screen
    finally:
        screen.close()


def test_a_terminal_shows_a_live_panel_with_whole_log_lines_above_it(site: MockSite, tmp_path: Path) -> None:
    with terminal(site.url("/"), tmp_path, LOG_LEVEL="DEBUG", DOWNLOAD_DELAY=0.1) as screen:
        screen.read_all()
    assert screen.process.returncode == 0
    assert any("llmcrawler explore" in frame and "queued" in frame for frame in screen.frames)
    lines = screen.lines()
    crawled = [line for line in lines if "Crawled (200)" in line and "robots.txt" not in line]
    assert len(crawled) == 6
    assert all(
        re.fullmatch(r"\S+ \S+ \[\S+\] DEBUG: Crawled \(200\) <GET \S+> \(referer: \S+\)", line) for line in crawled
    )
    assert not any(mark in line for line in lines for mark in "╭│╰")
    assert any("Overridden settings" in line for line in lines)
    said = [line for line in lines if line]
    end = " ".join(" ".join(said[-8:]).split())  # a long path is folded
    assert "6 pages and 1 failed url in " in end
    assert f"Feed: {tmp_path / 'feed.jsonl'}, 9 lines (jsonl)" in end
    assert said[-1].endswith("Exit status 0: finished")
    assert screen.cursor_is_shown


def test_who_gives_an_address_alone_sees_the_progress_and_the_summary_and_no_log(
    site: MockSite, tmp_path: Path
) -> None:
    settings = [f"-s{name}={value}" for name, value in FAST.items()]
    console = "from llmcrawler.commands.console import main; main()"
    screen = Terminal([sys.executable, "-c", console, site.url("/"), "-O", str(tmp_path / "feed.jsonl"), *settings])
    with contextlib.closing(screen):
        screen.read_all()
    assert screen.process.returncode == 0
    assert any("llmcrawler explore" in frame for frame in screen.frames)
    said = [line for line in screen.lines() if line]
    assert said[0].startswith(f"explore {site.url('/')}")
    assert not any("INFO" in line for line in said)
    assert "lines (jsonl)" in " ".join(" ".join(said[-3:]).split())  # a long path is folded


def test_ctrl_c_takes_the_panel_away_and_leaves_the_summary_wherever_the_log_goes(
    site: MockSite, hanging: threading.Event, tmp_path: Path
) -> None:
    with terminal(site.url("/hang"), tmp_path, STOP_SECONDS=1, LOG_FILE=tmp_path / "log.txt") as screen:
        screen.read_until("╰")
        assert hanging.wait(60)
        screen.process.send_signal(signal.SIGINT)
        screen.read_all()
    assert any(line.startswith("Ended: stopped by Ctrl-C or SIGTERM") for line in screen.lines())
    assert "Ended: stopped by Ctrl-C or SIGTERM" in (tmp_path / "log.txt").read_text()
    assert not any(mark in line for line in screen.lines() for mark in "╭│╰")
    assert screen.cursor_is_shown


@pytest.mark.nightly
def test_a_second_ctrl_c_gives_the_cursor_back_too(site: MockSite, hanging: threading.Event, tmp_path: Path) -> None:
    with terminal(site.url("/hang"), tmp_path, STOP_SECONDS=3600) as screen:
        screen.read_until("╰")
        assert hanging.wait(60)
        screen.process.send_signal(signal.SIGINT)
        screen.read_until("Stopping: waiting for")
        while b"forcing unclean shutdown" not in screen.raw:  # two at once count as one
            screen.process.send_signal(signal.SIGINT)
            screen.read_more()
        screen.read_all()
    assert screen.cursor_is_shown


def test_without_a_terminal_there_are_log_lines_and_the_summary(
    site: MockSite, may_end: list[Callable[[], bool]], tmp_path: Path
) -> None:
    file = tmp_path / "log.txt"
    may_end[0] = lambda: PROGRESS_LINE.search(file.read_text()) is not None
    explore(tmp_path, site.url("/"), {"PROGRESS_LOG_SECONDS": 0.1, "LOG_FILE": file})
    log = file.read_text()
    first = next(line for line in log.splitlines() if " INFO: " in line or " WARNING: " in line)
    assert first.partition("INFO: ")[2].startswith(
        f"explore {site.url('/')} | at most 500 pages (max_pages, the default)"
    )
    assert not re.search(r"Enabled|Disabled|Versions:|Overridden|Spider opened", log)
    assert PROGRESS_LINE.search(log)
    assert "Page type" in log
    assert re.search(r"fetch/http_404 +1\n +http://\S+\n +404 Not Found\n", log)
    assert log.index("Dumping Scrapy stats") < log.index("INFO: Summary")
    assert "\x1b" not in log


def test_progress_off_shows_nothing_and_a_job_keeps_how_it_went(site: MockSite, tmp_path: Path) -> None:
    settings = {"PROGRESS": "off", "PROGRESS_LOG_SECONDS": 0.1, "DOWNLOAD_DELAY": 0.3, "JOBDIR": tmp_path / "job"}
    outcome = explore(tmp_path, site.url("/"), settings)
    assert "extensions.progress_reports]" not in outcome.log
    with open_snapshot(tmp_path / "job") as connection:
        (run,) = read_runs(connection)
    total = Timeline.of_json(run.timeline).total()
    assert (run.reason, total.pages) == ("finished", len(outcome.pages))
    assert total.samples > 0
