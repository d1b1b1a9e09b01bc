"""An extension that stops the engine's heartbeat: what nobody wakes the engine for does not happen."""

from scrapy.core.engine import ExecutionEngine


class NoHeartbeat:
    def __init__(self) -> None:
        ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 1e6
