"""What a grouper has learned as small JSON: every feature's name once, a page as numbers of names."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llmcrawler.templates.splitting import Evidence, Rule
from llmcrawler.templates.url_tokens import url_tokens
from llmcrawler.templates.values import Clustering, Sample
from llmcrawler.urls import relative_url


class SampleTable:
    """Samples as [url, number of a feature's name, the next's, ...]; urls without scheme and host."""

    def __init__(self, samples: Mapping[str, Sample]) -> None:
        self._numbers = {url: number for number, url in enumerate(sorted(samples))}
        # Common names have small numbers, which take fewer digits.
        counts: dict[str, int] = {}
        for sample in samples.values():
            for name in sample.features:
                counts[name] = counts.get(name, 0) + 1
        self._names = {
            name: number for number, name in enumerate(sorted(counts, key=lambda name: (-counts[name], name)))
        }
        self._rows = [
            [relative_url(url), *sorted(self._names[name] for name in samples[url].features)] for url in self._numbers
        ]

    def number(self, url: str) -> int:
        return self._numbers[url]

    def to_json(self) -> dict[str, Any]:
        return {"names": list(self._names), "rows": self._rows}


def samples_from_json(value: Mapping[str, Any], origin: str) -> list[Sample]:
    names = value["names"]
    samples = []
    for path, *numbers in value["rows"]:
        url = origin + path
        samples.append(Sample(url, frozenset(names[number] for number in numbers), url_tokens(url)))
    return samples


def clustering_to_json(clustering: Clustering | None) -> dict[str, Any] | None:
    """What matching needs of a clustering: how it weighed, not whom it saw."""
    if clustering is None:
        return None
    weights = sorted(clustering.weights.items())
    numbers = np.array([weight for _, weight in weights], dtype="<f4")  # as they were measured: nothing is rounded
    return {
        "names": [name for name, _ in weights],
        "weights": base64.b64encode(numbers.tobytes()).decode("ascii"),
        "unknown_weight": clustering.unknown_weight,
        "unknown_url_weight": clustering.unknown_url_weight,
        "url_share": clustering.url_share,
        "threshold": clustering.threshold,
    }


def clustering_from_json(value: Mapping[str, Any] | None) -> Clustering | None:
    if value is None:
        return None
    weights = np.frombuffer(base64.b64decode(value["weights"]), dtype="<f4").tolist()
    return Clustering(
        samples=(),
        groups=(),
        clusters=(),
        weights=dict(zip(value["names"], weights, strict=True)),
        unknown_weight=float(value["unknown_weight"]),
        unknown_url_weight=float(value["unknown_url_weight"]),
        url_share=float(value["url_share"]),
        threshold=float(value["threshold"]),
        floors=(),
    )


def rules_to_json(rules: Sequence[Rule]) -> list[Any]:
    return [
        {"shares": {name: dict(shares) for name, shares in rule.evidence.shares.items()}, "groups": dict(rule.groups)}
        for rule in rules
    ]


def rules_from_json(value: Sequence[Mapping[str, Any]]) -> list[Rule]:
    return [
        Rule(
            Evidence(
                {
                    name: {label: float(share) for label, share in shares.items()}
                    for name, shares in rule["shares"].items()
                }
            ),
            dict(rule["groups"]),
        )
        for rule in value
    ]
