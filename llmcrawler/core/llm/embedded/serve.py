"""Runs as the server's own process: a script that `EmbeddedServer` starts, and that imports nothing of this project.

Reads one JSON line from stdin (model_path, port, api_key, context_tokens, threads), answers one on stdout
({"address": ...}) when the model is loaded, and ends when stdin ends: that is when the crawl ends, also by kill -9. The
key comes by stdin because every user of the machine can read a command line.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from typing import Any

_NICENESS = 5  # the crawl goes first: it needs little, and the model all that is left


def main() -> None:
    os.nice(_NICENESS)
    config = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer = os.dup(1)
    os.dup2(2, 1)  # llama.cpp may print to stdout, which is the answer's channel
    # Two OpenMP threads that spin between the steps of a model slow the crawl beside them; read when the library loads.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    server = _start(importlib.import_module("xllamacpp"), config)
    with os.fdopen(answer, "w", encoding="utf-8") as channel:
        channel.write(json.dumps({"address": server.listening_address}) + "\n")
    threading.Event().wait()


def _start(xllamacpp: Any, config: dict[str, Any]) -> Any:
    """Load the model, which blocks; raises RuntimeError when llama.cpp cannot load it."""
    params = xllamacpp.CommonParams()
    params.model.path = config["model_path"]
    params.hostnames = ["127.0.0.1"]
    params.port = config["port"]
    # Any web page in the user's browser can reach a loopback port.
    params.api_keys = [config["api_key"]]
    params.ui = False
    params.endpoint_slots = False
    params.n_ctx = config["context_tokens"]
    params.n_parallel = 1  # more slots share the context and the same cores, and lose the common prefix
    params.cache_ram_mib = 0  # else up to 8 GB of old prompts are kept
    params.n_threads_http = 2
    for pool in (params.cpuparams, params.cpuparams_batch):
        pool.n_threads = config["threads"]
    return xllamacpp.Server(params)


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)  # at once: a running answer has nobody left to read it


if __name__ == "__main__":
    main()
