"""The files of deploy/ that start containers: read, with their variables put in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from podman_compose import rec_subs

from tests.e2e.crawling import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
COMPOSE = sorted(DEPLOY.glob("compose*.yaml"))
# What deploy/README.md exports before it calls Compose.
EXPORTED = {"URL": "https://shop.example", "CRAWL_ID": "shop"}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "mb": 2**20, "gb": 2**30}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for path in sorted(KUBERNETES.glob("*.yaml")) for one in documents(path) if one["kind"] == kind]


def composed(path: Path, environ: dict[str, str]) -> dict[str, Any]:
    """A file as Compose sees it, by another implementation. Raises ValueError for a variable that has to be set."""
    (text,) = documents(path)
    result: dict[str, Any] = rec_subs(text, dict(environ))
    return result


def jobs() -> list[dict[str, Any]]:
    """The specs of all Jobs: of that itself, of KEDA's, and of the one of each night."""
    return [
        *(one["spec"] for one in of_kind("Job")),
        *(one["spec"]["jobTargetRef"] for one in of_kind("ScaledJob")),
        *(one["spec"]["jobTemplate"]["spec"] for one in of_kind("CronJob")),
    ]


def pods() -> list[dict[str, Any]]:
    return [one["template"]["spec"] for one in [*jobs(), *(each["spec"] for each in of_kind("StatefulSet"))]]


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["containers"]
    return dict(found)


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """Those of a container that stand in a ConfigMap."""
    maps = {one["metadata"]["name"]: one["data"] for one in of_kind("ConfigMap")}
    (source,) = container(pod)["envFrom"]
    return dict(maps[source["configMapRef"]["name"]])


def arguments(pod: dict[str, Any], **others: str) -> list[str]:
    """Those of a container, as Kubernetes puts variables in; `others` are in place of its own."""
    known = variables(pod) | others
    return [re.sub(r"\$\((\w+)\)", lambda found: known[found[1]], part) for part in container(pod)["args"]]


def size_bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()
    return int(number) * _BYTES[unit]


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]
