"""Counts the calls of the model and their cost by task, and by template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcrawler.reporting.figures import read_figures
from llmcrawler.storage.job_runs import Run

_PREFIX = "llmcrawler/llm/"
TASKS: Mapping[str, str] = {
    "classify": "What kind of page is this?",
    "induce": "Where on the page are its fields?",
}


@dataclass(frozen=True, slots=True)
class TaskCost:
    """Calls for a task over all runs. `cost_usd` None: the price is not known."""

    task: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of all tasks over all runs, and sums. `faults` counts calls that failed."""

    tasks: tuple[TaskCost, ...]
    calls: int
    tokens: int
    cost_usd: float | None
    cached_answers: int
    pages_shown: int
    faults: int

    def of_template(self, asked_pages: int, learn_calls: int, all_asked: int, all_learn_calls: int) -> float | None:
        """Estimate a template's part of the tokens: of classifying by the pages that were asked about, of learning by
        calls. A call has pages of several templates, so there is no other measure.
        """
        parts = {"classify": asked_pages / max(1, all_asked), "induce": learn_calls / max(1, all_learn_calls)}
        return sum(task.tokens * parts.get(task.task, 0.0) for task in self.tasks) if self.tasks else None


def costs_of(runs: Sequence[Run]) -> Costs:
    stats = [run.figures.get("stats", {}) for run in runs]
    calls = f"{_PREFIX}calls/"
    names = {key.removeprefix(calls) for one in stats for key in one if key.startswith(calls)}
    tasks = tuple(_task(name, [one for one in stats if calls + name in one]) for name in sorted(names))
    llm = [read_figures(one).llm for one in stats]
    return Costs(
        tasks=tasks,
        calls=sum(task.calls for task in tasks),
        tokens=sum(task.tokens for task in tasks),
        cost_usd=_sum_if_known(task.cost_usd for task in tasks),
        cached_answers=sum(run.cached_answers for run in llm),
        pages_shown=sum(run.pages_shown for run in llm),
        faults=sum(run.faults.total() for run in llm),
    )


def _task(name: str, stats: Sequence[Mapping[str, Any]]) -> TaskCost:
    calls, prompt, completion = (
        sum(int(one.get(f"{_PREFIX}{kind}/{name}", 0)) for one in stats)
        for kind in ("calls", "prompt_tokens", "completion_tokens")
    )
    cost = _sum_if_known(one.get(f"{_PREFIX}cost_usd/{name}") for one in stats)
    return TaskCost(name, calls, prompt, completion, cost)


def _sum_if_known(costs: Iterable[float | None]) -> float | None:
    known = list(costs)
    return None if None in known else float(sum(cost for cost in known if cost is not None))
