"""Says what a job is asked for, and checks that a folder's earlier runs were asked for the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmcrawler.core.storage import JobConnection, read_value
from llmcrawler.errors import ConfigError


@dataclass(frozen=True, slots=True)
class JobRules:
    """Settings of a job directory."""

    keep_bodies: bool = True
    max_leases: int = 5


@dataclass(frozen=True, slots=True)
class SessionRules:
    """Settings of a crawl in Redis. A worker that is silent for `lease_seconds` loses its sites to others."""

    url: str
    crawl_id: str
    lease_seconds: float = 30.0
    max_leases: int = 5


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The name and arguments of the spider that a crawl is asked for, and what it is to do again.

    `stages` (-a force=...) run again, in their order. `refresh` looks for what has changed since the crawl was
    finished. `any_arguments` allows arguments that differ from those of earlier runs. `retries` repeats in every run
    the pages of which anything failed. `feeds` are the URIs that the lines go to. `given`: the arguments as they were
    typed, for commands that are shown.
    """

    spider: str
    arguments: Mapping[str, Any]
    stages: tuple[str, ...] = ()
    refresh: bool = False
    any_arguments: bool = False
    retries: bool = False
    feeds: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)


def check_arguments(connection: JobConnection, folder: Path, spec: JobSpec) -> None:
    """Raise ConfigError where the job was started by another spider or with other arguments."""
    spider = read_value(connection, "spider")
    if spider is not None:
        arguments = read_value(connection, "arguments", spec.arguments)  # which `scrapy recover` may not have saved
        check_same(spider, arguments, spec, f"JOBDIR={folder}", ("resume it", "go on"))


def check_same(spider: str, arguments: Mapping[str, Any], spec: JobSpec, where: str, verbs: tuple[str, str]) -> None:
    """Raise ConfigError where what `where` (SETTING=VALUE) holds was started by another spider, or with other arguments
    than `spec` has and does not allow. `verbs` say what the user is about to do, in both of its ways.
    """
    if spec.any_arguments:
        return
    setting = where.partition("=")[0]
    if spider != spec.spider:
        raise ConfigError(f"{where} belongs to the spider {spider!r}, not {spec.spider!r}: name another {setting}")
    known, given = arguments, spec.arguments
    differing = [
        f"{name} was {_shown(known.get(name))} and is {_shown(given.get(name))}"
        for name in sorted({*known, *given})
        if known.get(name) != given.get(name)
    ]
    if differing:
        raise ConfigError(
            f"{where} was started with other arguments: {'; '.join(differing)}. Give those to {verbs[0]}, "
            f"name another {setting}, or add --force (or -s JOBDIR_FORCE=1) to {verbs[1]} with the new ones"
        )


def _shown(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return "not given" if value in (None, [], "") else text[:200]


def check_bodies(connection: JobConnection, folder: Path, spec: JobSpec) -> None:
    """Raise ConfigError where stages are to run again on stored bodies and there are none."""
    if not spec.stages or "fetch" in spec.stages:
        return
    if connection.execute("SELECT 1 FROM bodies WHERE body IS NOT NULL LIMIT 1").fetchone() is None:
        raise ConfigError(
            f"force={','.join(spec.stages)}: {folder} has no stored bodies that stages could run on (STORE_BODIES was "
            "off, or nothing was fetched); force=fetch fetches the pages again"
        )
