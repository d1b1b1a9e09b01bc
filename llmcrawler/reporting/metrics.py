"""A crawl's stats as metrics: which of them, under which names and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from llmcrawler.reporting.exit_status import judge

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`samples` are label values, in the order of `labels`, with their value."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A star in `stat` is a label's value, the last one with what slashes it has."""

    stat: str
    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def expression(self) -> re.Pattern[str]:
        *firsts, last = re.escape(self.stat).replace(r"\*", "*").rpartition("*")
        return re.compile("".join(firsts).replace("*", "([^/]+)") + last if "*" in self.stat else last)


_COUNTERS: Final = (
    _Rule("llmcrawler/pages", "pages", "counter", "Page lines of this run, failed ones included"),
    _Rule("llmcrawler/errors/*/*", "page_errors", "counter", "Page lines with an error", ("stage", "kind")),
    _Rule("llmcrawler/page_types/*", "page_types", "counter", "Pages by type", ("page_type",)),
    _Rule("llmcrawler/decided_by/*", "decisions", "counter", "Pages by what decided their type", ("decided_by",)),
    _Rule("llmcrawler/stages/*/*", "stage_runs", "counter", "Runs of stages", ("stage", "status")),
    _Rule("llmcrawler/internal_errors", "internal_errors", "counter", "Exceptions in the crawler's own code"),
    _Rule("llmcrawler/loop/holds", "loop_holds", "counter", "Turns of the event loop over LOOP_WATCHDOG_MS"),
    _Rule("log_count/*", "log_messages", "counter", "Lines of the log", ("level",)),
    _Rule("downloader/request_count", "requests", "counter", "Requests that went out, repeats included"),
    _Rule("downloader/response_bytes", "response_bytes", "counter", "Bytes of the answers"),
    _Rule("downloader/response_status_count/*", "responses", "counter", "Answers by HTTP status", ("status",)),
    _Rule("downloader/exception_type_count/*", "download_faults", "counter", "Requests without an answer", ("fault",)),
    _Rule("llmcrawler/llm/calls/*", "llm_calls", "counter", "Requests to the LLM", ("task",)),
    _Rule("llmcrawler/llm/faults/*", "llm_faults", "counter", "Requests to the LLM that failed", ("kind",)),
    _Rule("llmcrawler/llm/prompt_tokens", "llm_prompt_tokens", "counter", "Tokens that the LLM was shown"),
    _Rule("llmcrawler/llm/completion_tokens", "llm_completion_tokens", "counter", "Tokens that the LLM answered"),
    _Rule("llmcrawler/llm/cached_answers", "llm_cached_answers", "counter", "Answers taken from the cache"),
    _Rule("llmcrawler/llm/cost_usd", "llm_cost_usd", "counter", "US dollars, where the model's price is known"),
    _Rule("llmcrawler/throttle/decisions/*", "throttle_decisions", "counter", "Changes of pace by reason", ("reason",)),
    _Rule("llmcrawler/throttle/host/*/requests", "host_requests", "counter", "Requests to a host", ("host",)),
)
_GAUGES: Final = (
    _Rule("llmcrawler/llm/budget_reached", "llm_budget_reached", "gauge", "1 when the LLM's budget was reached"),
    _Rule("llmcrawler/templates", "templates", "gauge", "Templates that are known"),
    _Rule("llmcrawler/frontier/*", "urls", "gauge", "Urls by their state in the frontier", ("state",)),
    _Rule("llmcrawler/throttle/host/*/concurrency", "host_concurrency", "gauge", "Most in flight to a host", ("host",)),
    _Rule("llmcrawler/throttle/host/*/throughput", "host_throughput", "gauge", "Requests per second", ("host",)),
    _Rule("llmcrawler/throttle/host/*/in_flight_mean", "host_in_flight", "gauge", "Mean in flight", ("host",)),
    _Rule("llmcrawler/throttle/host/*/latency_p50", "host_latency_p50_seconds", "gauge", "Median latency", ("host",)),
    _Rule(
        "llmcrawler/throttle/host/*/latency_p95", "host_latency_p95_seconds", "gauge", "Its 95th percentile", ("host",)
    ),
    _Rule("llmcrawler/throttle/host/*/refused_share", "host_refused_share", "gauge", "Share of 429 and 503", ("host",)),
    _Rule("llmcrawler/loop/max_hold_seconds", "loop_hold_seconds_max", "gauge", "The longest turn of the event loop"),
    _Rule("memusage/max", "memory_max_bytes", "gauge", "Most memory that the crawl has had"),
)
_RULES: Final = tuple((rule, rule.expression()) for rule in _COUNTERS + _GAUGES)


def metrics_of(stats: Mapping[str, Any]) -> Iterator[Metric]:
    """Those of which there is something to say."""
    for rule, expression in _RULES:
        metric = Metric(rule.name, rule.kind, rule.help, rule.labels)
        for name, value in stats.items():
            if isinstance(value, (int, float)) and (match := expression.fullmatch(name)):
                metric.samples.append((match.groups(), float(value)))
        if metric.samples:
            yield metric


def ending_of(stats: Mapping[str, Any], max_errors_share: float) -> Iterator[Metric]:
    """What an alert goes by: did it run, when did it end, and how."""
    started, finished = stats.get("start_time"), stats.get("finish_time")
    running = 1.0 if finished is None else 0.0
    yield Metric("running", "gauge", "1 while the crawl runs", samples=[((), running)])
    if started is not None:
        when = "Unix time of its start"
        yield Metric("started_timestamp_seconds", "gauge", when, samples=[((), started.timestamp())])
    if finished is not None:
        when = "Unix time of its end"
        yield Metric("finished_timestamp_seconds", "gauge", when, samples=[((), finished.timestamp())])
        status = float(judge(stats, max_errors_share)[0])
        yield Metric("exit_status", "gauge", "0: it finished; README tells the others", samples=[((), status)])
