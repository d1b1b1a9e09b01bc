"""Counts the calls of the model and their cost by task, and by template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llmcrawler.core.storage.job_file import Run

_PREFIX = "llmcrawler/llm/"
TASKS: Mapping[str, str] = {
    "check": "to see beforehand that it answers",
    "classify": "to tell page types",
    "induce": "to learn records",
}


class TaskCost(NamedTuple):
    """Calls for a task over all runs. `cost_usd` None: the price is not known."""

    task: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of all tasks over all runs, and sums. `faults` counts calls that failed, `provider_cached_share` is the
    share of the prompts' tokens, in 0..1, that the provider had in its prompt cache.
    """

    tasks: tuple[TaskCost, ...]
    calls: int
    tokens: int
    cost_usd: float | None
    cached_answers: int
    pages_shown: int
    faults: int
    provider_cached_share: float


def costs_of(runs: Sequence[Run]) -> Costs:
    sums: Counter[str] = Counter()
    unpriced = set()
    for stats in (run.figures.get("stats", {}) for run in runs):
        of_model = {key.removeprefix(_PREFIX): value for key, value in stats.items() if key.startswith(_PREFIX)}
        sums.update(of_model)
        asked = {key.removeprefix("calls/") for key in of_model if key.startswith("calls/")}
        unpriced |= {name for name in asked if f"cost_usd/{name}" not in of_model}
    tasks = tuple(
        TaskCost(
            name,
            sums[f"calls/{name}"],
            sums[f"prompt_tokens/{name}"],
            sums[f"completion_tokens/{name}"],
            None if name in unpriced else float(sums[f"cost_usd/{name}"]),
        )
        for name in sorted(key.removeprefix("calls/") for key in sums if key.startswith("calls/"))
    )
    return Costs(
        tasks=tasks,
        calls=sum(task.calls for task in tasks),
        tokens=sum(task.prompt_tokens + task.completion_tokens for task in tasks),
        cost_usd=None if unpriced else sum(task.cost_usd or 0.0 for task in tasks),
        cached_answers=sums["cached_answers"],
        pages_shown=sums["pages_shown"],
        provider_cached_share=sums["provider_cached_tokens"] / max(1, sums["prompt_tokens"]),
        faults=sum(count for key, count in sums.items() if key.startswith("faults/")),
    )
