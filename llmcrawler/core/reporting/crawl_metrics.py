"""Turns a crawl's stats into metrics: which of them, under which names and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from llmcrawler.core.reporting.exit_status import exit_status_of


class Metric(NamedTuple):
    """A metric with its values. `samples` are label values, in the order of `labels`, with their value."""

    name: str
    kind: str  # counter or gauge
    help: str
    samples: Sequence[tuple[tuple[str, ...], float]]
    labels: tuple[str, ...] = ()


# A star in the stat is a label's value, the last one with what slashes it has.
_COUNTERS: Final[tuple[tuple[str, ...], ...]] = (
    ("llmcrawler/pages", "pages", "Page lines of this run, failed ones included"),
    ("llmcrawler/errors/*/*", "page_errors", "Page lines with an error", "stage", "kind"),
    ("llmcrawler/page_types/*", "page_types", "Pages by type", "page_type"),
    ("llmcrawler/rights/*", "page_rights", "Pages by what is said of their use", "said"),
    ("llmcrawler/decided_by/*", "decisions", "Pages by what decided their type", "decided_by"),
    ("llmcrawler/stages/*/*", "stage_runs", "Runs of stages", "stage", "status"),
    ("llmcrawler/internal_errors", "internal_errors", "Exceptions in the crawler's own code"),
    ("log_count/*", "log_messages", "Lines of the log", "level"),
    ("downloader/request_count", "requests", "Requests that went out, repeats included"),
    ("downloader/response_bytes", "response_bytes", "Bytes of the answers"),
    ("downloader/response_status_count/*", "responses", "Answers by HTTP status", "status"),
    ("downloader/exception_type_count/*", "download_faults", "Requests without an answer", "fault"),
    ("llmcrawler/llm/calls/*", "llm_calls", "Requests to the LLM", "task"),
    ("llmcrawler/llm/faults/*", "llm_faults", "Requests to the LLM that failed", "kind"),
    ("llmcrawler/llm/prompt_tokens", "llm_prompt_tokens", "Tokens that the LLM was shown"),
    ("llmcrawler/llm/provider_cached_tokens", "llm_provider_cached_tokens", "Of them, in the provider's prompt cache"),
    ("llmcrawler/llm/provider_cache_write_tokens", "llm_provider_cache_write_tokens", "Of them, put there"),
    ("llmcrawler/llm/completion_tokens", "llm_completion_tokens", "Tokens that the LLM answered"),
    ("llmcrawler/llm/cached_answers", "llm_cached_answers", "Answers taken from the cache"),
    ("llmcrawler/llm/cost_usd", "llm_cost_usd", "US dollars, where the model's price is known"),
    ("llmcrawler/throttle/decisions/*", "throttle_decisions", "Changes of pace by reason", "reason"),
    ("llmcrawler/sites/*", "sites", "Sites that this worker took, of them from another one, and gave up", "event"),
    ("llmcrawler/throttle/host/*/requests", "host_requests", "Requests to a host", "host"),
)
_GAUGES: Final[tuple[tuple[str, ...], ...]] = (
    ("llmcrawler/llm/budget_reached", "llm_budget_reached", "1 when the LLM's budget was reached"),
    ("llmcrawler/sites_owned", "sites_owned", "Sites that are this worker's"),
    ("llmcrawler/paused", "paused", "1 while the crawl that workers share is paused"),
    ("llmcrawler/templates", "templates", "Templates that are known"),
    ("llmcrawler/frontier/*", "urls", "Urls by their state in the frontier", "state"),
    ("llmcrawler/throttle/host/*/concurrency", "host_concurrency", "Most in flight to a host", "host"),
    ("llmcrawler/throttle/host/*/throughput", "host_throughput", "Requests per second", "host"),
    ("llmcrawler/throttle/host/*/in_flight_mean", "host_in_flight", "Mean in flight", "host"),
    ("llmcrawler/throttle/host/*/latency_p50", "host_latency_p50_seconds", "Median latency", "host"),
    ("llmcrawler/throttle/host/*/latency_p95", "host_latency_p95_seconds", "Its 95th percentile", "host"),
    ("llmcrawler/throttle/host/*/refused_share", "host_refused_share", "Share of 429 and 503", "host"),
    ("memusage/max", "memory_max_bytes", "Most memory that the crawl has had"),
)


def _expression(stat: str) -> re.Pattern[str]:
    *firsts, last = re.escape(stat).replace(r"\*", "*").rpartition("*")
    return re.compile("".join(firsts).replace("*", "([^/]+)") + last if "*" in stat else last)


_RULES: Final = tuple(
    (_expression(stat), name, kind, text, tuple(labels))
    for kind, rules in (("counter", _COUNTERS), ("gauge", _GAUGES))
    for stat, name, text, *labels in rules
)


def metrics_of(stats: Mapping[str, Any], max_errors_share: float) -> Iterator[Metric]:
    """Yield the metrics that have a value, then those for alerts: whether the crawl runs, when it ended, and how."""
    for expression, name, kind, text, labels in _RULES:
        samples = [
            (match.groups(), float(value))
            for stat, value in stats.items()
            if isinstance(value, (int, float)) and (match := expression.fullmatch(stat))
        ]
        if samples:
            yield Metric(name, kind, text, samples, labels)
    started, finished = stats.get("start_time"), stats.get("finish_time")
    status = [("running", "1 while the crawl is running", float(finished is None))]
    if started is not None:
        status.append(("started_timestamp_seconds", "Unix time of its start", started.timestamp()))
    if finished is not None:
        status.append(("finished_timestamp_seconds", "Unix time of its end", finished.timestamp()))
        exit_status = float(exit_status_of(stats, max_errors_share)[0])
        status.append(("exit_status", "0: finished; the README lists the others", exit_status))
    for name, text, value in status:
        yield Metric(name, "gauge", text, [((), value)])
