"""Where crawls run: how many at once, and how their ends are told. Their processes are real, and do nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmcrawler.campaigns import machine_crawls
from llmcrawler.campaigns.machine_crawls import KILLED, CrawlPool
from llmcrawler.core.processes import forking

ROOT = Path(__file__).parents[2]

# Stands in the place of a crawl: it ends with the number that it is given, or waits for its input's end.
CRAWL = """
import json, os, signal, sys

def main():
    line = os.read(0, 65536)
    (status,) = json.loads(line)
    print("began", status, flush=True)
    if status == "waits":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
        while os.read(0, 10):
            pass
        print("stopped", flush=True)
        sys.exit(9)
    sys.exit(int(status))
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    (tmp_path / "crawl_that_does_nothing.py").write_text(CRAWL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(machine_crawls, "_MODULES", ())
    monkeypatch.setattr(machine_crawls, "_ENTRY", "crawl_that_does_nothing")
    one = CrawlPool(most_crawls=9)
    yield one
    one.kill()
    one.close()


def ends(of: CrawlPool, count: int) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    while len(found) < count:
        found.update(of.wait(30.0))
    return found


@pytest.mark.server
def test_each_crawl_has_its_own_exit_status_and_adds_to_its_log(started, tmp_path):
    for key, status in enumerate(("0", "5", "5")):
        started.start(key, [status], tmp_path / f"{key % 2}.log", needs_browser=False)
    assert ends(started, 3) == {(0, 0), (1, 5), (2, 5)}
    assert not started._crawls
    assert (tmp_path / "0.log").read_text().count("began") == 2


@pytest.mark.server
def test_crawls_are_stopped_and_killed(started, tmp_path):
    log = tmp_path / "log"
    for key in range(3):
        started.start(key, ["waits"], log, needs_browser=False)
    while log.read_text().count("began") < 3:
        assert not started.wait(0.05)
    started.stop()
    started.stop()
    assert ends(started, 3) == {(key, 3) for key in range(3)}
    started.start(7, ["waits"], log, needs_browser=False)
    started.kill()
    assert ends(started, 1) == {(7, KILLED)}


@pytest.mark.server
def test_when_the_process_that_forks_crawls_dies_they_go_on_and_others_can_be_started(started, tmp_path):
    log = tmp_path / "log"
    started.start(1, ["waits"], log, needs_browser=False)
    (forker,) = forking._forkers
    forker.process.kill()
    forker.process.wait()
    started.start(2, ["0"], log, needs_browser=False)
    assert ends(started, 1) == {(2, 0)}
    while log.read_text().count("began") < 2:
        assert not started.wait(0.05)
    started.stop()
    assert ends(started, 1) == {(1, 3)}


@pytest.mark.server
def test_a_crawl_whose_watcher_dies_counts_as_killed_when_it_ends(started, tmp_path):
    started.start(1, ["waits"], tmp_path / "log", needs_browser=False)
    os.kill(parent_of(started._crawls[1].pid), signal.SIGKILL)
    started.stop()
    assert ends(started, 1) == {(1, KILLED)}


CAMPAIGN = """
import os, signal, sys
from pathlib import Path
from llmcrawler.campaigns import machine_crawls
machine_crawls._MODULES, machine_crawls._ENTRY = (), "crawl_that_does_nothing"
pool = machine_crawls.CrawlPool()
pool.start(1, ["waits"], Path(sys.argv[1]), needs_browser=False)
while "began" not in Path(sys.argv[1]).read_text():
    pool.wait(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.server
def test_a_crawl_stops_by_itself_when_the_campaigns_process_is_killed(tmp_path):
    (tmp_path / "crawl_that_does_nothing.py").write_text(CRAWL)
    log = tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    subprocess.run([sys.executable, "-c", CAMPAIGN, str(log)], env=environment, check=False, timeout=60)
    deadline = time.monotonic() + 30
    while "stopped" not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("running", "free_mb", "browser", "has_room"),
    [
        (0, 0, False, True),  # one crawl runs whatever there is
        (1, 2000, False, True),
        (1, 100, False, False),
        (1, 500, True, False),
        (1, None, False, True),  # nobody says how much is free
        (2, 2000, False, False),  # as many as cores, and nobody knows yet what they leave
    ],
)
def test_there_is_room_for_as_many_crawls_as_cores_and_memory_bear(running, free_mb, browser, has_room):
    bytes_ = None if free_mb is None else free_mb * 2**20
    one = CrawlPool(cores=2, free_bytes=lambda: bytes_)
    one._crawls = {key: machine_crawls._Crawl(0, None, None, False, 0.0) for key in range(running)}
    assert one.has_room(needs_browser=False, may_need_browser=browser) == has_room


def test_more_crawls_than_cores_run_where_these_leave_cores_idle():
    now, used = 100.0, 0.0
    one = CrawlPool(cores=2, free_bytes=lambda: None, cpu_seconds=lambda _pid: used, clock=lambda: now)
    one._crawls = {key: machine_crawls._Crawl(key, None, None, False, 90.0) for key in (1, 2)}

    def has_room(seconds: float, cpu: float) -> bool:
        nonlocal now, used
        now, used = now + seconds, used + cpu / 2
        return one.has_room(needs_browser=False, may_need_browser=False)

    assert not has_room(0.0, 2.0), "what they took before is not known"
    assert has_room(4.0, 4.0)
    assert not has_room(4.0, 7.9)
    assert not has_room(1.0, 0.0), "too soon to tell"
    one.most_crawls = 2
    assert not has_room(4.0, 0.0)


def test_crawls_with_a_browser_are_counted_apart():
    one = CrawlPool(most_crawls=5, most_browsers=1)
    one._crawls = {1: machine_crawls._Crawl(0, None, None, True, 0.0)}
    assert not one.has_room(needs_browser=True, may_need_browser=True)
    assert one.has_room(needs_browser=False, may_need_browser=True)
