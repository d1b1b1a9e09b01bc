"""How hard a host may be worked: one `HostPolicy` per host decides, and extensions/throttle.py drives slots by it."""

from llmcrawler.politeness.throttling.breaker import HostBreaker
from llmcrawler.politeness.throttling.hosts import HostPolicies
from llmcrawler.politeness.throttling.policy import HostPolicy, StartGap, ThrottleDecision, ThrottleRules
from llmcrawler.politeness.throttling.retry_after import http_date, retry_after_seconds

__all__ = [
    "HostBreaker",
    "HostPolicies",
    "HostPolicy",
    "StartGap",
    "ThrottleDecision",
    "ThrottleRules",
    "http_date",
    "retry_after_seconds",
]
