"""A real Redis Cluster of three masters, and a real Sentinel, on free ports."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from tests.servers.redis_server import RedisServer, redis_server

_SLOTS = 16384


class ClusterOfMasters:
    """`url` names one of the nodes. They have no replicas: the slots of one that is stopped are away."""

    def __init__(self, folder: Path, masters: int = 3) -> None:
        self.nodes: list[RedisServer] = []
        for number in range(masters):
            place = folder / f"node{number}"
            place.mkdir()
            options = ("--cluster-enabled", "yes", "--cluster-port", str(_free_port()))
            timing = ("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000")
            self.nodes.append(RedisServer(place, *options, *timing))
        self.url = f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for number, node in enumerate(self.nodes):
                stack.enter_context(node)
                self._let_in(number, node)
            _wait_until(self._is_whole)
            self._stack = stack.pop_all()
        return self

    def _let_in(self, number: int, node: RedisServer) -> None:
        first, behind = (_SLOTS * at // len(self.nodes) for at in (number, number + 1))
        with node.client() as client, self.nodes[0].client() as met:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, behind - 1)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number:
                bus = client.config_get("cluster-port")["cluster-port"]
                met.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _is_whole(self) -> bool:
        for node in self.nodes:
            with node.client() as client:
                said = client.execute_command("CLUSTER", "INFO")
                if b"cluster_state:ok" not in said or b"cluster_slots_ok:%d" % _SLOTS not in said:
                    return False
        return True


@contextmanager
def sentinel_of(master: RedisServer, folder: Path) -> Iterator[str]:
    """Start a Sentinel that watches a master as "mymaster"; yields the address of both."""
    port, configuration = _free_port(), folder / "sentinel.conf"
    configuration.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {master.port} 1\n")
    parts = [redis_server(), str(configuration), "--sentinel"]
    process = subprocess.Popen(parts, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _wait_until(lambda: _listens(port))
        yield f"redis+sentinel://127.0.0.1:{port}/mymaster"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "Redis does not come up"
        time.sleep(0.05)
