"""The manifests: what has to agree between them, with the image and with the project."""

from __future__ import annotations

import re

import pytest

import llmcrawler
from tests.deploy.dockerfile_steps import stages
from tests.deploy.manifests import DEPLOY, container, jobs, of_kind, pods, size_bytes, variables

JOB_PODS = [job["template"]["spec"] for job in jobs()]


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
    (made,) = re.findall(r"create secret generic (\S+) (.*)", (DEPLOY / "README.md").read_text("utf-8"))
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


@pytest.mark.parametrize(("hosts", "running", "started"), [(0, 0, 0), (1, 0, 0), (8, 0, 0), (9, 0, 1), (40, 1, 3)])
def test_one_host_starts_no_further_worker(hosts, running, started):
    """By KEDA's formula for its strategy `custom`, the first worker running beside."""
    (scaled,) = of_kind("ScaledJob")
    strategy = scaled["spec"]["scalingStrategy"]
    wanted = -(-hosts // int(scaled["spec"]["triggers"][0]["metadata"]["listLength"]))
    share = float(strategy["customScalingRunningJobPercentage"])
    assert max(0, wanted - strategy["customScalingQueueLengthDeduction"] - int(running * share)) == started
