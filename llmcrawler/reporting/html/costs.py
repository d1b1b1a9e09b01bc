"""What the model was asked, and what that cost: by task, and by template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmcrawler.reporting.figures import LLMFigures, read_figures
from llmcrawler.storage.runs import Run

_PREFIX = "llmcrawler/llm/"
TASKS: Mapping[str, str] = {
    "classify": "What kind of page is this?",
    "induce": "Where on the page are its fields?",
}


@dataclass(frozen=True, slots=True)
class TaskCost:
    """Over all runs. `cost_usd` None: the price is not known."""

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
    tasks: tuple[TaskCost, ...]
    runs: tuple[LLMFigures, ...]

    @property
    def calls(self) -> int:
        return sum(task.calls for task in self.tasks)

    @property
    def tokens(self) -> int:
        return sum(task.tokens for task in self.tasks)

    @property
    def cost_usd(self) -> float | None:
        costs = [task.cost_usd for task in self.tasks]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def cached_answers(self) -> int:
        return sum(run.cached_answers for run in self.runs)

    @property
    def pages_shown(self) -> int:
        return sum(run.pages_shown for run in self.runs)

    @property
    def faults(self) -> int:
        return sum(run.faults.total() for run in self.runs)

    def of_template(self, asked_pages: int, learn_calls: int, all_asked: int, all_learn_calls: int) -> float | None:
        """The template's part of the tokens: of classifying by the pages that were asked about, of learning by calls.
        A call has pages of several templates, so there is no other measure.
        """
        shares = {
            "classify": asked_pages / all_asked if all_asked else 0.0,
            "induce": learn_calls / all_learn_calls if all_learn_calls else 0.0,
        }
        tokens = [task.tokens * shares.get(task.task, 0.0) for task in self.tasks]
        return sum(tokens) if self.tasks else None


def costs_of(runs: Sequence[Run]) -> Costs:
    stats = [run.figures.get("stats", {}) for run in runs]
    names = {key.removeprefix(f"{_PREFIX}calls/") for one in stats for key in one if key.startswith(f"{_PREFIX}calls/")}
    return Costs(
        tasks=tuple(_task(name, stats) for name in sorted(names)),
        runs=tuple(read_figures(one).llm for one in stats),
    )


def _task(name: str, stats: Sequence[Mapping[str, Any]]) -> TaskCost:
    asked = [one for one in stats if f"{_PREFIX}calls/{name}" in one]
    costs = [one.get(f"{_PREFIX}cost_usd/{name}") for one in asked]
    return TaskCost(
        task=name,
        calls=_sum(asked, f"calls/{name}"),
        prompt_tokens=_sum(asked, f"prompt_tokens/{name}"),
        completion_tokens=_sum(asked, f"completion_tokens/{name}"),
        cost_usd=None if None in costs else float(sum(cost for cost in costs if cost is not None)),
    )


def _sum(stats: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(int(one.get(_PREFIX + name, 0)) for one in stats)
