"""Decides how hard a host may be worked: a `HostPolicy` for each host, by which extensions/throttle.py drives slots."""

from llmcrawler.politeness.throttling.breaker import HostBreaker
from llmcrawler.politeness.throttling.hosts import HostPolicies
from llmcrawler.politeness.throttling.policy import HostPolicy, ThrottleDecision, ThrottleRules
from llmcrawler.politeness.throttling.retry_after import http_date, retry_after_seconds
from llmcrawler.politeness.throttling.start_gap import StartGap
