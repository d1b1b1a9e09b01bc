"""The images as the Dockerfile makes them, and what each command that deploy/ has for a worker does in this checkout.

Docker is not asked, nothing is installed: the steps are read, and Python's packages are those of the tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docker.utils import exclude_paths

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.deploy.dockerfile import entrypoint_of, stages, values
from tests.deploy.manifests import DEPLOY, EXPORTED, arguments, composed, jobs
from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, environment, free_port
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite
from tests.servers.redis_server import RedisServer

pytestmark = [pytest.mark.server, pytest.mark.slow]

PAGES = 8
FAST = ["-s", "DOWNLOAD_DELAY=0", "-s", "AUTOTHROTTLE_ENABLED=False", "-s", "RIGHTS_POLICY=off"]
WORKERS, KEDA, NIGHTLY = jobs()
# Paths from the root, in a command: not those in a relative path, an address or a pattern.
ABSOLUTE = re.compile(r"(?<![\w./:@$*-])/(?=[a-z])")


@pytest.fixture(scope="module")
def site():
    with MockSite(ManyPages(PAGES).routes()).in_thread() as server:
        yield server.url("/")


@pytest.fixture
def redis_url(tmp_path):
    (tmp_path / "redis").mkdir()
    with RedisServer(tmp_path / "redis") as server:
        yield server.url


def crawl(root: Path, command: list[str], **environ: str) -> tuple[int, str]:
    """Run the worker's entrypoint with arguments, where `root` stands for the image's root folder."""
    python, *entry = entrypoint_of("worker")
    assert python == "python"
    here = [ABSOLUTE.sub(f"{root}/", part) for part in command]
    done = subprocess.run(
        [sys.executable, *entry, *here, *FAST],
        cwd=ROOT,
        env={**environment(), "HOME": str(root), **environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return done.returncode, done.stderr


def pages_in(root: Path, feeds: str) -> list[dict[str, Any]]:
    lines = (line for file in sorted(root.glob(feeds)) for line in file.read_text("utf-8").splitlines())
    return [line for line in map(json.loads, lines) if line["kind"] == "page"]


def test_docker_is_sent_what_the_steps_copy_and_no_more():
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    sent = {name for name in exclude_paths(str(ROOT), rules) if (ROOT / name).is_file()}
    copied = {source for name, _base, _steps in stages() for one in values(name, "COPY") for source in one.split()[:-1]}
    assert copied == {source for source in copied if any(f"{name}/".startswith(f"{source}/") for name in sent)}
    assert {name.partition(os.sep)[0] for name in sent} == {one.partition("/")[0] for one in copied} | {".dockerignore"}
    assert not [name for name in sent if name.endswith(".pyc")]


@pytest.mark.parametrize("target", ["worker", "chromium", "scrapyd"])
def test_every_image_runs_as_a_number_that_is_not_roots_with_a_user_and_volumes_of_its_own(target):
    runs = " && ".join(values(target, "RUN"))
    (number,) = re.findall(r"useradd --uid (\d+)", runs)
    assert values(target, "USER")[-1] == f"{number}:{number}"
    assert entrypoint_of(target)
    assert all(f"chown crawler:crawler {volume}" in runs for volume in values(target, "VOLUME"))


@pytest.mark.nightly
def test_compose_starts_a_worker(tmp_path, site, redis_url):
    service = composed(DEPLOY / "compose.yaml", EXPORTED | {"URL": site, "LLM_PROVIDER": "none"})["services"]["worker"]
    command = [part.replace("redis://redis:6379/0", redis_url) for part in service["command"]]
    assert crawl(tmp_path, command)[0] == ExitStatus.FINISHED
    assert len(pages_in(tmp_path, "feeds/pages-*.jsonl")) == PAGES
    (shown,) = re.findall(r"run .* worker (status .*)", (DEPLOY / "README.md").read_text("utf-8"))
    status, log = crawl(tmp_path, shown.replace("redis://redis:6379/0", redis_url).split())
    assert status == 0, log


@pytest.mark.nightly
@pytest.mark.parametrize("job", [WORKERS, KEDA], ids=["workers", "keda"])
def test_kubernetes_starts_a_worker_of_the_shared_crawl(tmp_path, site, redis_url, job):
    place = "/feeds/pod-%(worker)s-%(batch_id)05d.jsonl"
    pod = job["template"]["spec"]
    given = arguments(pod, URL=site, REDIS_URL=redis_url, LLM_PROVIDER="none", FEED=place)
    command = [part.replace("METRICS_PORT=9410", f"METRICS_PORT={free_port()}") for part in given]
    command = [part.replace("METRICS_HOST=0.0.0.0", "METRICS_HOST=127.0.0.1") for part in command]
    assert crawl(tmp_path, command)[0] == ExitStatus.FINISHED
    assert len(pages_in(tmp_path, "feeds/pod-*.jsonl")) == PAGES


@pytest.mark.nightly
def test_kubernetes_crawls_every_night(tmp_path, site):
    command = arguments(NIGHTLY["template"]["spec"], URL=site, LLM_PROVIDER="none")
    for _night in range(2):
        assert crawl(tmp_path, command, XDG_CACHE_HOME=str(tmp_path / "cache"))[0] == ExitStatus.FINISHED
    changes = [line["change"] for line in pages_in(tmp_path, "data/feeds/*.jsonl")]
    assert sorted(changes) == ["new"] * PAGES + ["unchanged"] * PAGES


@pytest.mark.nightly
def test_without_the_key_that_the_manifests_ask_for_a_worker_ends_with_wrong_usage(tmp_path):
    status, log = crawl(tmp_path, arguments(WORKERS["template"]["spec"]))
    assert status == ExitStatus.USAGE
    assert "LLM_PROVIDER is 'openai', but neither LLM_API_KEY (or OPENAI_API_KEY)" in log


def test_the_image_with_a_browser_takes_it_from_debian():
    (installed,) = re.findall(r"apt-get install (?:--\S+ )*([^&]*)", " ".join(values("chromium", "RUN")))
    # That Debian has them was looked up: this test installs none.
    assert installed.split() == ["chromium", "tini"]
    assert entrypoint_of("chromium") == ["tini", "--", *entrypoint_of("worker")]
