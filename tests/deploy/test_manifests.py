"""The manifests and Compose's files: as their schemas ask, and as llmcrawler is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import kubernetes_validate
import pytest

import llmcrawler
from llmcrawler import settings
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.setting_checks import check_names
from llmcrawler.fleet.connection import key_prefix
from llmcrawler.spiders.explore import ExploreSpider
from tests.deploy.dockerfile import pinned_versions, stages
from tests.deploy.manifests import (
    COMPOSE,
    DEPLOY,
    EXPORTED,
    KUBERNETES,
    arguments,
    composed,
    container,
    documents,
    jobs,
    of_kind,
    option,
    pods,
    size_bytes,
    variables,
)

KUBERNETES_VERSION = "1.31"  # the oldest that podFailurePolicy is final in


def ray_groups(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


JOB_PODS = [job["template"]["spec"] for job in jobs()]
README = (DEPLOY / "README.md").read_text(encoding="utf-8")
MANIFESTS = [(path.name, one) for path in sorted(KUBERNETES.glob("*.yaml")) for one in documents(path)]


@pytest.mark.parametrize(
    "manifest", [one for _name, one in MANIFESTS], ids=[f"{name}-{one['kind']}" for name, one in MANIFESTS]
)
def test_a_manifest_is_as_kubernetes_schema_asks(manifest: dict[str, Any]) -> None:
    if manifest["kind"] == "RayJob":  # KubeRay's; pods are inside
        for one in ray_groups(manifest["spec"]["rayClusterSpec"]):
            pods_of_group = {"apiVersion": "v1", "kind": "PodTemplate", "template": one["template"]}
            kubernetes_validate.validate(pods_of_group, KUBERNETES_VERSION, strict=True)
        return
    if manifest["kind"] == "ScaledJob":  # KEDA's; a Job is inside
        manifest = {**manifest, "apiVersion": "batch/v1", "kind": "Job", "spec": manifest["spec"]["jobTargetRef"]}
    kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


def test_keda_scales_by_the_hosts_that_wait_in_the_crawl_that_the_workers_join() -> None:
    """KEDA has no schema in a package: fields and types are those of its documents (ScaledJob, Redis lists scaler)."""
    (scaled,) = of_kind("ScaledJob")
    spec = scaled["spec"]
    assert scaled["apiVersion"] == "keda.sh/v1alpha1"
    assert spec.keys() <= {"pollingInterval", "maxReplicaCount", "scalingStrategy", "triggers", "jobTargetRef"}
    (trigger,) = spec["triggers"]
    metadata = trigger["metadata"]
    assert trigger["type"] == "redis"
    assert metadata.keys() <= {"address", "databaseIndex", "listName", "listLength"}
    assert all(isinstance(value, str) for value in metadata.values())
    config = variables(jobs()[0]["template"]["spec"])
    assert metadata["listName"] == f"{key_prefix(config['CRAWL_ID'])}:busy_sites"
    assert json.dumps(metadata["address"]).strip('"') in config["REDIS_URL"]


def test_kuberay_runs_the_campaign_on_machines_of_one_image() -> None:
    """No package has KubeRay's schema: fields and types are those of its API ray.io/v1, which the manifest was once
    checked against.
    """
    (job,) = of_kind("RayJob")
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    assert job["apiVersion"] == "ray.io/v1"
    fields = {"entrypoint", "submissionMode", "backoffLimit", "shutdownAfterJobFinishes", "rayClusterSpec"}
    assert spec.keys() == fields
    assert spec["submissionMode"] in ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode")
    assert cluster.keys() == {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
    assert cluster["headGroupSpec"].keys() == {"rayStartParams", "template"}
    counts = {"replicas", "minReplicas", "maxReplicas"}
    for group in cluster["workerGroupSpecs"]:
        assert group.keys() == {"groupName", "rayStartParams", "template", *counts}
        assert all(isinstance(group[name], int) for name in counts)
    for group in ray_groups(cluster):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        one = container(group["template"]["spec"])
        assert one["image"].endswith("-ray")
        assert "/dev/shm" in {mount["mountPath"] for mount in one["volumeMounts"]}
    pins = pinned_versions()
    assert cluster["rayVersion"] == str(pins["ray"]), "Ray refuses machines of another version"
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_the_campaign_of_the_cluster_is_one_that_there_is() -> None:
    (job,) = of_kind("RayJob")
    pod = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    command = job["spec"]["entrypoint"].partition("&& python -m scrapy campaign ")[2].split()
    assert option(command, "--ray") == "auto"
    assert {part[1:] for part in (option(command, "-o"),)} | {"LLM_PROVIDER"} <= variables(pod).keys()
    check_names({option(command, "-s").partition("=")[0]})
    folder, name = command[0].rsplit("/", 1)
    assert folder in {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
    header, *rows = variables(pod)[name].splitlines()
    assert {*header.split(",")} <= {"url", *ExploreOptions.model_fields}
    assert rows


def test_workers_are_started_with_a_spider_and_settings_that_there_are() -> None:
    service = composed(DEPLOY / "compose.yaml", EXPORTED)["services"]["worker"]
    for command in (service["command"], *(arguments(one["template"]["spec"]) for one in jobs())):
        assert command[:2] == ["crawl", ExploreSpider.name]
        given = [command[place + 1].partition("=")[0] for place, part in enumerate(command) if part == "-s"]
        check_names({*given})
        assert {"REDIS_URL", "CRAWL_ID"} <= {*given} or "JOBDIR" in given
        assert "%(worker)s" in option(command, "-O") or "JOBDIR" in given


def test_wrong_usage_is_not_tried_again_and_a_drained_node_is_no_fault() -> None:
    for job in jobs():
        ignored, failed = job["podFailurePolicy"]["rules"]
        assert (ignored["action"], failed["action"]) == ("Ignore", "FailJob")
        on_exit = failed["onExitCodes"]
        assert on_exit["containerName"] == container(job["template"]["spec"])["name"]
        assert 2 in on_exit["values"]
        assert not {3, 7} & {*on_exit["values"]}  # stopped, or the JOBDIR is in use: the same command continues it


def test_no_image_is_a_latest_one_of_some_registry() -> None:
    images = {container(pod)["image"] for pod in pods()}
    assert all(re.fullmatch(r"[^:]+:[^:]+", image) and not image.endswith(":latest") for image in images)
    targets = {name for name, _base, _steps in stages()}
    for path in COMPOSE:
        for service in composed(path, EXPORTED)["services"].values():
            if "build" in service:
                assert service["pull_policy"] == "build"
                assert service["build"]["target"] in targets
            else:
                assert ":" in service["image"]


def test_redis_keeps_its_data_and_has_room_to_write_it_anew() -> None:
    (redis,) = of_kind("StatefulSet")
    pod = container(redis["spec"]["template"]["spec"])
    service = composed(DEPLOY / "compose.yaml", EXPORTED)["services"]["redis"]
    for command, limit in (
        (pod["args"], pod["resources"]["limits"]["memory"]),
        (service["command"], service["mem_limit"]),
    ):
        assert option(command, "--appendonly") == "yes"
        assert option(command, "--maxmemory-policy") == "noeviction"
        assert 2 * size_bytes(option(command, "--maxmemory")) <= size_bytes(limit)


def test_a_worker_that_is_stopped_has_time_to_end() -> None:
    for pod in (one["template"]["spec"] for one in jobs()):
        assert pod["terminationGracePeriodSeconds"] >= 3 * settings.STOP_SECONDS


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_a_file_of_compose_is_as_its_schema_asks(path: Any) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("missing", "said"), [("URL", "name a site"), ("CRAWL_ID", "name the crawl")])
def test_compose_says_which_variable_is_missing(missing: str, said: str) -> None:
    environ = {name: value for name, value in EXPORTED.items() if name != missing}
    with pytest.raises(ValueError, match=said):
        composed(DEPLOY / "compose.yaml", environ)


def test_scrapyd_needs_no_variable_of_other_services() -> None:
    service = composed(DEPLOY / "compose.scrapyd.yaml", {})["services"]["scrapyd"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])  # who reaches it can run code in it


@pytest.mark.parametrize("pod", pods(), ids=lambda pod: container(pod)["image"])
def test_a_pod_has_no_rights_and_writes_to_volumes_alone(pod):
    user, one = pod["securityContext"], container(pod)
    assert (user["runAsNonRoot"], user["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert isinstance(user["runAsUser"], int)
    assert user["fsGroup"] == user["runAsGroup"]
    assert pod["automountServiceAccountToken"] is False
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    asked, allowed = one["resources"]["requests"], one["resources"]["limits"]
    assert size_bytes(asked["memory"]) <= size_bytes(allowed["memory"])


def test_all_images_have_one_tag_which_is_the_version():
    assert {container(pod)["image"] for pod in JOB_PODS} == {f"registry.example/llmcrawler:{llmcrawler.__version__}"}


@pytest.mark.parametrize("pod", JOB_PODS, ids=["workers", "keda", "nightly"])
def test_a_worker_is_the_images_user_and_has_its_writable_places(pod):
    users = {value for _name, _base, steps in stages() for instruction, value in steps if instruction == "USER"} - {"0"}
    assert users == {
        f"{pod['securityContext'][name]}:{pod['securityContext']['runAsGroup']}" for name in ("runAsUser",)
    }
    mounts = {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
    assert "/tmp" in mounts
    written = [part.partition("=")[2] or part for part in container(pod)["args"] if re.match(r"(JOBDIR=)?/", part)]
    written += [one["value"] for one in container(pod)["env"] if one["name"] == "XDG_CACHE_HOME"]
    assert {f"/{path.split('/')[1]}" for path in written} <= mounts
    assert {mount["name"] for mount in container(pod)["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    claims = {one["metadata"]["name"] for one in of_kind("PersistentVolumeClaim")}
    claimed = {one["persistentVolumeClaim"]["claimName"] for one in pod["volumes"] if "persistentVolumeClaim" in one}
    assert claimed <= claims


@pytest.mark.parametrize("pod", JOB_PODS, ids=["workers", "keda", "nightly"])
def test_a_key_comes_from_the_secret_that_the_readme_makes(pod):
    (made,) = re.findall(r"create secret generic (\S+) (.*)", README)
    keys = {one["valueFrom"]["secretKeyRef"]["key"] for one in container(pod)["env"] if "valueFrom" in one}
    names = {one["valueFrom"]["secretKeyRef"]["name"] for one in container(pod)["env"] if "valueFrom" in one}
    assert names == {made[0]}
    assert "OPENAI_API_KEY" in keys
    assert keys <= set(re.findall(r"--from-literal=(\w+)=", made[1]))
    assert not keys & set(variables(pod))


def test_workers_reach_redis_by_its_name_and_through_its_policy():
    (service,), (stateful,), (policy,) = of_kind("Service"), of_kind("StatefulSet"), of_kind("NetworkPolicy")
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == stateful["spec"]["selector"]["matchLabels"] == labels
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    (rule,) = policy["spec"]["ingress"]
    (allowed,) = [peer["podSelector"]["matchLabels"] for peer in rule["from"] if "podSelector" in peer]
    for job in jobs():
        if "REDIS_URL" in (known := variables(job["template"]["spec"])):
            assert (
                known["REDIS_URL"] == f"redis://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}/0"
            )
            assert job["template"]["metadata"]["labels"] == allowed


def test_workers_that_keda_starts_are_the_same_as_the_first_one():
    (scaled,), (job,) = of_kind("ScaledJob"), of_kind("Job")
    assert scaled["spec"]["jobTargetRef"]["template"] == job["spec"]["template"]
