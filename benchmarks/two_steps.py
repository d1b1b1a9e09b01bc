"""Trains trees in two steps: the second sees what the first says of the other rows, by models that have not seen their
fold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import lightgbm
import numpy as np
from numpy.typing import NDArray

from benchmarks.model_arrays import Arrays, pack_trees

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TwoSteps:
    first: lightgbm.Booster
    second: lightgbm.Booster

    def arrays(self) -> Arrays:
        steps = {"first": self.first, "second": self.second}
        return {
            f"{step} {name}": array
            for step, booster in steps.items()
            for name, array in pack_trees(
                [tree["tree_structure"] for tree in booster.dump_model()["tree_info"]]
            ).items()
        }


@dataclass(frozen=True, slots=True)
class TrainingRows(ABC):
    """All examples as one table: what is known of each, whether it is right, what it weighs (0: not learned from), and
    its fold."""

    PARAMETERS: ClassVar[dict[str, Any]]
    ROUNDS: ClassVar[int]

    table: NDArray[np.float32]
    right: Floats
    weight: Floats
    fold: NDArray[np.int64]

    @abstractmethod
    def compared(self, odds: Floats) -> NDArray[np.float32]:
        """Return the columns that the second step sees besides, from the log odds of the first."""

    def fit_both(self, inside: NDArray[np.bool_]) -> TwoSteps:
        first = self._fit(self.table, inside)
        odds = np.zeros(len(self.table))
        for fold in np.unique(self.fold[inside]):
            held = inside & (self.fold == fold)
            odds[held] = self._fit(self.table, inside & ~held).predict(self.table[held], raw_score=True)
        return TwoSteps(first, self._fit(self._second(odds), inside))

    def held_out(self) -> Floats:
        """Return the log odds of all rows, each by a model that has seen nothing of its fold."""
        odds = np.zeros(len(self.table))
        for fold in np.unique(self.fold):
            held = self.fold == fold
            model = self.fit_both(~held)
            first = np.where(held, model.first.predict(self.table, raw_score=True), 0)
            odds[held] = model.second.predict(self._second(first)[held], raw_score=True)
        return odds

    def _second(self, odds: Floats) -> NDArray[np.float32]:
        return np.concatenate([self.table, self.compared(odds)], 1)

    def _fit(self, table: NDArray[np.float32], kept: NDArray[np.bool_]) -> lightgbm.Booster:
        kept = kept & (self.weight > 0)
        data = lightgbm.Dataset(table[kept], self.right[kept], weight=self.weight[kept])
        parameters = dict(self.PARAMETERS)
        if rising := parameters.get("monotone_constraints"):
            parameters["monotone_constraints"] = rising + [0] * (table.shape[1] - len(rising))
        return lightgbm.train(parameters, data, self.ROUNDS)
