"""Keeps a place on each machine of a Ray cluster: an actor that has the machine's cores.

Ray says which machines there are, and carries turns to their places and back. It notices that a machine has gone after
some seconds, which its own settings say.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from llmcrawler.campaigns.bundle_crawls import Crawls
from llmcrawler.campaigns.cluster_crawls import Need, NodePlace, Order, PlaceLost, Turn
from llmcrawler.errors import ConfigError, require

_MAX_REASON: Final = 300


class RayCluster:
    """A Cluster. `make` is called on each machine, with its name, its cores, and what takes lines for people; it can be
    pickled. Raises ConfigError where there is no cluster at `address`, as `ray.init` takes it.
    """

    def __init__(self, address: str, make: Callable[[str, int, Callable[[str], None]], Crawls]) -> None:
        if address.startswith("ray://"):
            raise ConfigError(
                f"--ray {address}: start the campaign on a machine of the cluster, or by `ray job submit`"
            )
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        require("ray", "ray", "--ray")
        import ray  # noqa: PLC0415 - only those who have a cluster have it

        try:
            ray.init(address=address, logging_level=logging.WARNING, log_to_driver=False)
        except (OSError, ValueError, RuntimeError) as error:  # ConnectionError is the usual one
            hint = "by its address, a cluster that `ray start` has given a token wants RAY_AUTH_MODE=token"
            raise ConfigError(f"--ray {address}: there is no cluster to be reached: {error} ({hint})") from error
        self._ray: Any = ray
        self._make = make

    def machines(self) -> Mapping[str, int]:
        found = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]}
        return {name: cores for name, cores in found.items() if cores}

    def open(self, machine: str, cores: int) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415 - as above

        there = NodeAffinitySchedulingStrategy(node_id=machine, soft=False)
        # It is not restarted by itself: its crawls end with it, and what they were is known here.
        actor = self._ray.remote(NodePlace).options(num_cpus=cores, max_restarts=0, scheduling_strategy=there)
        return actor.remote(partial(self._make, machine, cores))

    def ask(self, place: Any, orders: Sequence[Order], needs: Sequence[Need]) -> Any:
        return place.turn.remote(orders, needs)

    def answered(self, calls: Sequence[Any], seconds: float) -> Sequence[Any]:
        if not calls:
            time.sleep(seconds)
            return ()
        self._ray.wait(calls, timeout=seconds)
        ready, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0)
        return tuple(ready)

    def answer(self, call: Any) -> Turn:
        errors = self._ray.exceptions
        try:
            turn: Turn = self._ray.get(call)
        except errors.RayTaskError as error:
            raise error.cause from error
        except errors.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            raise PlaceLost(f"{lines[0]} {lines[-1]}"[:_MAX_REASON] if lines[1:] else lines[0][:_MAX_REASON]) from error
        return turn

    def end(self, place: Any) -> None:
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(place)

    def close(self) -> None:
        self._ray.shutdown()
