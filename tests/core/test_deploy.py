"""What deploy/ says, as far as it can be read."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmcrawler import settings
from llmcrawler.distributed.connection import key_prefix
from llmcrawler.spiders.explore import ExploreSpider

DEPLOY = Path(__file__).parents[2] / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def commands() -> list[list[str]]:
    """Of all workers."""
    pods = [one["spec"]["template"]["spec"] for one in documents(KUBERNETES / "workers.yaml")[1:]]
    (compose,) = documents(DEPLOY / "compose.yaml")
    return [compose["services"]["worker"]["command"], *(pod["containers"][0]["args"] for pod in pods)]


@pytest.mark.parametrize("path", sorted(KUBERNETES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_kubernetes_object_says_what_it_is(path):
    for document in documents(path):
        assert document["apiVersion"]
        assert document["kind"]
        assert document["metadata"]["name"]
        template = document.get("spec", {}).get("template")
        if document["kind"] in ("Deployment", "StatefulSet"):
            assert document["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_workers_are_started_with_a_spider_and_settings_that_there_are():
    for command in commands():
        assert command[:2] == ["crawl", ExploreSpider.name]
        given = [part.partition("=")[0] for flag, part in pairwise(command) if flag == "-s"]
        assert {"REDIS_URL", "CRAWL_ID"} <= set(given)
        assert all(hasattr(settings, name) or name.startswith("FEED_EXPORT") for name in given)


def test_each_worker_has_a_feed_of_its_own():
    config = documents(KUBERNETES / "workers.yaml")[0]["data"]
    feeds = [command[command.index("-O") + 1] for command in commands()]
    assert all("%(worker)s" in re.sub(r"\$\((\w+)\)", lambda found: config[found[1]], feed) for feed in feeds)


def test_the_autoscaler_looks_at_the_queue_of_the_crawl():
    (scaled,) = documents(KUBERNETES / "keda.yaml")
    config, *workers = documents(KUBERNETES / "workers.yaml")
    metadata = scaled["spec"]["triggers"][0]["metadata"]
    assert metadata["listName"] == f"{key_prefix(config['data']['CRAWL_ID'])}:depth"
    assert scaled["spec"]["scaleTargetRef"]["name"] in {one["metadata"]["name"] for one in workers}
    assert all(isinstance(value, str) for value in metadata.values())
    assert json.dumps(metadata["address"]).strip('"') in config["data"]["REDIS_URL"]
