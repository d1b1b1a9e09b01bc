"""Decides how hard a host may be worked: a `HostPolicy` for each host, by which extensions/throttle.py drives slots."""

from llmcrawler.core.politeness.throttling.breaker import HostBreaker
from llmcrawler.core.politeness.throttling.hosts import HostPolicies
from llmcrawler.core.politeness.throttling.policy import HostPolicy, ThrottleDecision, ThrottleRules
from llmcrawler.core.politeness.throttling.retry_after import http_date, retry_after_seconds
from llmcrawler.core.politeness.throttling.start_gap import StartGap
