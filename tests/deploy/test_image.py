"""The Dockerfile's steps in a fresh folder, and what then runs in it: each command that deploy/ has for a worker."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.deploy.dockerfile_steps import Build, Image, requirements_in
from tests.deploy.manifests import DEPLOY, EXPORTED, arguments, composed, jobs
from tests.e2e.crawling import ROOT, free_port
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite
from tests.servers.redis_server import RedisServer

pytestmark = [pytest.mark.server, pytest.mark.slow]

PAGES = 8
FAST = ["-s", "DOWNLOAD_DELAY=0", "-s", "AUTOTHROTTLE_ENABLED=False", "-s", "RIGHTS_POLICY=off"]
WORKERS, KEDA, NIGHTLY = jobs()
TARGETS = ("worker", "chromium", "scrapyd")


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return Build(tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def site():
    with MockSite(ManyPages(PAGES).routes()).in_thread() as server:
        yield server.url("/")


@pytest.fixture
def redis_url(tmp_path):
    (tmp_path / "redis").mkdir()
    with RedisServer(tmp_path / "redis") as server:
        yield server.url


def crawl(image: Image, command: list[str], **environ: str) -> tuple[int, str]:
    """Run the image with arguments; nothing but its volumes and /tmp may be written to."""
    before = image.files()
    done = image.run([*image.entrypoint, *(image.here(part) for part in command), *FAST], **environ)
    assert image.files() == before
    return done.returncode, done.stderr


def lines_in(image: Image, feeds: str) -> list[dict[str, Any]]:
    files = sorted(image.root.glob(feeds))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


@pytest.mark.nightly
def test_the_image_has_what_is_always_needed_and_neither_a_browser_nor_a_model(build):
    image = build.image("packages")
    has = {requirement.name for requirement in requirements_in(image.path("packages.txt"))}
    assert has == {one.name for one in requirements_in(ROOT / "requirements.txt")} - {"scrapy-playwright"}


def test_the_context_has_no_more_than_the_steps_copy(build):
    build.image("worker")
    context = build.folder / "context"
    docker = {".dockerignore"}  # which Docker reads itself
    names = {path.name for path in context.iterdir()} - docker
    assert names == {"requirements.txt", "scrapy.cfg", "llmcrawler", "deploy"}
    assert not list(context.rglob("*.pyc"))


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_every_image_runs_as_a_number_that_is_not_roots_with_a_user_and_volumes_of_its_own(build, target):
    image = build.image(target)
    ((_useradd, *options),) = [command for command in image.noted if command[0] == "useradd"]
    (number,) = [options[place + 1] for place, one in enumerate(options) if one == "--uid"]
    assert image.user == f"{number}:{number}"
    assert image.entrypoint
    owned = {command[-1] for command in image.noted if command[:2] == ["chown", "crawler:crawler"]}
    assert all(any(path.endswith(volume) for path in owned) for volume in image.volumes)


@pytest.mark.nightly
def test_compose_starts_a_worker(build, site, redis_url):
    image = build.image("worker")
    service = composed(DEPLOY / "compose.yaml", EXPORTED | {"URL": site, "LLM_PROVIDER": "none"})["services"]["worker"]
    command = [part.replace("redis://redis:6379/0", redis_url) for part in service["command"]]
    assert crawl(image, command)[0] == ExitStatus.FINISHED
    assert len([line for line in lines_in(image, "feeds/pages-*.jsonl") if line["kind"] == "page"]) == PAGES
    (shown,) = re.findall(r"run .* worker (status .*)", (DEPLOY / "README.md").read_text("utf-8"))
    status = image.run([*image.entrypoint, *shown.replace("redis://redis:6379/0", redis_url).split()])
    assert status.returncode == 0, status.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("job", [WORKERS, KEDA], ids=["workers", "keda"])
def test_kubernetes_starts_a_worker_of_the_shared_crawl(build, site, redis_url, job):
    image = build.image("worker")
    place = "/feeds/pod-%(worker)s-%(batch_id)05d.jsonl"
    pod = job["template"]["spec"]
    given = arguments(pod, URL=site, REDIS_URL=redis_url, LLM_PROVIDER="none", FEED=place)
    command = [part.replace("METRICS_PORT=9410", f"METRICS_PORT={free_port()}") for part in given]
    command = [part.replace("METRICS_HOST=0.0.0.0", "METRICS_HOST=127.0.0.1") for part in command]
    for feed in image.root.glob("feeds/pod-*"):
        feed.unlink()
    assert crawl(image, command)[0] == ExitStatus.FINISHED
    assert len([line for line in lines_in(image, "feeds/pod-*.jsonl") if line["kind"] == "page"]) == PAGES


@pytest.mark.nightly
def test_kubernetes_crawls_every_night(build, site):
    image = build.image("worker")
    image.path("/data").mkdir()
    image.volumes.append("/data")
    command = arguments(NIGHTLY["template"]["spec"], URL=site, LLM_PROVIDER="none")
    for _night in range(2):
        assert crawl(image, command, XDG_CACHE_HOME="/data/cache")[0] == ExitStatus.FINISHED
    changes = [line["change"] for line in lines_in(image, "data/feeds/*.jsonl") if line["kind"] == "page"]
    assert sorted(changes) == ["new"] * PAGES + ["unchanged"] * PAGES


@pytest.mark.nightly
def test_without_the_key_that_the_manifests_ask_for_a_worker_ends_with_wrong_usage(build):
    status, log = crawl(build.image("worker"), arguments(WORKERS["template"]["spec"]))
    assert status == ExitStatus.USAGE
    assert "LLM_PROVIDER is 'openai', but neither LLM_API_KEY (or OPENAI_API_KEY)" in log


def test_the_image_with_a_browser_takes_it_from_debian(build):
    image = build.image("chromium")
    (installed,) = [command[2:] for command in image.noted if command[:2] == ["apt-get", "install"]]
    # That Debian has them was looked up: this test installs none.
    assert [name for name in installed if not name.startswith("-")] == ["chromium", "tini"]
    assert image.entrypoint == ["tini", "--", *build.image("worker").entrypoint]


@pytest.mark.nightly
def test_the_image_with_scrapyd_has_its_configuration_and_starts_it(build):
    image = build.image("scrapyd")
    assert image.path("/etc/scrapyd/scrapyd.conf").read_text() == (DEPLOY / "scrapyd.conf").read_text()
    assert not image.path("/app/llmcrawler").exists()
    done = image.run(["python", "-m", *image.entrypoint, "--help"])
    assert done.returncode == 0, done.stderr
