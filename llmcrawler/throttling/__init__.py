"""How hard a host may be worked: pure policy, one `HostPolicy` per host; extensions/throttle.py drives slots by it."""

from llmcrawler.throttling.breaker import CircuitBreaker
from llmcrawler.throttling.hosts import HostPolicies
from llmcrawler.throttling.latency import LatencyWatch
from llmcrawler.throttling.meter import HostFigures, HostMeter
from llmcrawler.throttling.policy import HostPolicy
from llmcrawler.throttling.retry_after import http_date, retry_after_seconds
from llmcrawler.throttling.rules import Decision, Gap, Rules

__all__ = [
    "CircuitBreaker",
    "Decision",
    "Gap",
    "HostFigures",
    "HostMeter",
    "HostPolicies",
    "HostPolicy",
    "LatencyWatch",
    "Rules",
    "http_date",
    "retry_after_seconds",
]
