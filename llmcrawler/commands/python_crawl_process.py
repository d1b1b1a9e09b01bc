"""Runs a crawl for `llmcrawler.explore` or a campaign, in the process that it starts.

Reads one line from stdin, the arguments of the command `llmcrawler` as a JSON list. The crawl is stopped when stdin
ends: by that it is told to stop, and it stops when the process that started it has ended, however that was. One that
hangs, so that nothing could stop it, is ended by the kernel.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time

# A regular expression, which strangers may have given, can hold the interpreter for years: then no thread runs, and no
# signal's handler stops it. While this process is well, it puts off the signal that the kernel ends it with.
_HUNG_SECONDS = 120.0
_HAS_ALARM = hasattr(signal, "setitimer")  # not on Windows


def main() -> None:
    line = b""
    while not line.endswith(b"\n"):
        got = os.read(0, 65536)
        if not got:
            return
        line += got
    if _HAS_ALARM:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # Named as core/processes/forking.py knows it, which would take half a second to load here.
    threading.Thread(target=_stop_with_parent, name="only-waits", daemon=True).start()
    from llmcrawler.commands import console

    sys.argv[0] = "llmcrawler"
    console.main(json.loads(line))


def _stop_with_parent() -> None:
    while not _can_read() or os.read(0, 4096):
        pass
    # Windows has no SIGTERM for handlers of Python.
    signal.raise_signal(getattr(signal, "SIGBREAK", signal.SIGTERM))
    while _HAS_ALARM:
        signal.setitimer(signal.ITIMER_REAL, _HUNG_SECONDS)
        time.sleep(_HUNG_SECONDS / 4)


def _can_read() -> bool:
    if not _HAS_ALARM:
        return True
    signal.setitimer(signal.ITIMER_REAL, _HUNG_SECONDS)
    return bool(select.select([0], [], [], _HUNG_SECONDS / 4)[0])


if __name__ == "__main__":
    main()
