"""Helpers of a crawl are forks of one process, which ends with it and keeps nothing of it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from llmcrawler.core.processes import forking
from llmcrawler.core.processes.forking import fork_python

pytestmark = [pytest.mark.server, pytest.mark.skipif(sys.platform != "linux", reason="it is forked nowhere else")]

ROOT = Path(__file__).parents[3]


def tell_parent(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as connection:
        logging.getLogger(__name__).error("a word of a helper")
        connection.sendall(b"%d" % os.getppid())
        connection.recv(1)


def fail(descriptor: int) -> None:
    raise LookupError(descriptor)


def test_helpers_are_forks_of_one_process_which_ends_with_the_last_of_them() -> None:
    parents = set()
    helpers = [fork_python(tell_parent) for _ in range(3)]
    for _, connection in helpers:
        parents.add(int(connection.recv(100)))
    (forker,) = forking._forkers
    assert forker.process is not None
    assert parents == {forker.process.pid}
    for helper, connection in helpers:
        helper.end()
        assert connection.recv(1) == b""
        connection.close()
    assert forker.process.wait(60) == 0
    assert not forking._forkers


def test_a_forker_that_was_ended_is_replaced_by_another_one() -> None:
    first, connection = fork_python(tell_parent)
    before = int(connection.recv(100))
    os.kill(before, signal.SIGKILL)
    forking._forkers[0].process.wait(60)
    second, other = fork_python(tell_parent)
    assert int(other.recv(100)) != before
    for helper in (first, second):
        helper.end()
    for one in (connection, other):
        one.close()


def test_what_cannot_run_closes_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    helper, connection = fork_python(fail, modules=["no.such.module"])
    with connection:
        assert connection.recv(1) == b""
    helper.end()
    assert "LookupError" in capfd.readouterr().err


EARLY = """
import fcntl, logging, os, signal, subprocess, sys, threading
from llmcrawler.core.processes import forking
from tests.core.processes.test_forking import tell_parent
lock = open(sys.argv[1], "w")
logging.basicConfig(handlers=[logging.StreamHandler(lock)])
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
if "thread" in sys.argv:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if "waits" in sys.argv:
    threading.Thread(target=threading.Event().wait, daemon=True, name=forking.ONLY_WAITS).start()
forking.fork_early()
is_early = bool(forking._forkers)
helper, connection = forking.fork_python(tell_parent)
forker = int(connection.recv(100))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # as a service manager does to all of a service
    os.kill(forker, number)
assert os.getpgid(forker) == forker
lock.close()
taken = subprocess.run([sys.executable, "-c", "import fcntl, sys; fcntl.flock(open(sys.argv[1]), 6)", sys.argv[1]])
again, other = forking.fork_python(tell_parent)
print(is_early, int(other.recv(100)) == forker, taken.returncode, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("threads", "is_early"), [("", True), ("waits", True), ("thread", False)])
def test_a_process_without_threads_shares_what_it_has_loaded_and_none_of_its_files(
    tmp_path: Path, threads: str, is_early: bool
) -> None:
    """The output is read to its end, which is there when the last process that was forked has gone."""
    command = [sys.executable, "-c", EARLY, str(tmp_path / "lock"), threads]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT)
    assert done.stdout.split() == [str(is_early), "True", "0"], done.stderr
    assert done.returncode == -signal.SIGKILL
    assert "a word of a helper" in done.stderr
    assert not (tmp_path / "lock").read_text()
