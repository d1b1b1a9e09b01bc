"""Runs a crawl for `llmcrawler.explore` or a campaign, in the process that it starts.

Reads one line from stdin, the arguments of the command `llmcrawler` as a JSON list. The crawl is stopped when stdin
ends: by that it is told to stop, and it stops when the process that started it has ended, however that was.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading


def main() -> None:
    line = b""
    while not line.endswith(b"\n"):
        got = os.read(0, 65536)
        if not got:
            return
        line += got
    # Named as core/processes/forking.py knows it, which would take half a second to load here.
    threading.Thread(target=_stop_with_parent, name="only-waits", daemon=True).start()
    from llmcrawler.commands import console

    sys.argv[0] = "llmcrawler"
    console.main(json.loads(line))


def _stop_with_parent() -> None:
    while os.read(0, 4096):
        pass
    # Windows has no SIGTERM for handlers of Python.
    signal.raise_signal(getattr(signal, "SIGBREAK", signal.SIGTERM))


if __name__ == "__main__":
    main()
