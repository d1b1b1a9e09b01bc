"""How hard a host may be worked: one `HostPolicy` per host decides, and extensions/throttle.py drives slots by it."""

from llmcrawler.throttling.breaker import CircuitBreaker
from llmcrawler.throttling.hosts import HostPolicies
from llmcrawler.throttling.policy import Decision, Gap, HostPolicy, Rules
from llmcrawler.throttling.retry_after import http_date, retry_after_seconds

__all__ = [
    "CircuitBreaker",
    "Decision",
    "Gap",
    "HostPolicies",
    "HostPolicy",
    "Rules",
    "http_date",
    "retry_after_seconds",
]
