"""`scrapy campaign --ray`: the machines of a cluster crawl, and one of them dies in the middle."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.campaigns.campaign_status import campaign_status
from llmcrawler.campaigns.campaign_storage import restore_job, storage_at
from llmcrawler.core.storage import State
from llmcrawler.core.storage.job_status import open_snapshot
from tests.e2e.killing import processes_below
from tests.e2e.test_campaign import Campaign, check_whole, look_for, place_of
from tests.servers.campaign_sites import FINE, SMALL_KINDS, CampaignSites

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.nightly]

# A machine that does not answer is given up after two seconds; Ray's own default is 15 and more.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2_000,
    "health_check_failure_threshold": 2,
}
SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20}

BUSY_SECONDS = 1_500  # for what hangs: a cluster and its crawls take some minutes on a machine that has much else to do


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    utils = pytest.importorskip("ray.cluster_utils", reason="an extra: 0.5 GB")
    before = os.environ.copy()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    one = utils.Cluster(
        initialize_head=True, head_node_args={**SMALL, "include_dashboard": False, "_system_config": QUICK}
    )
    yield one
    one.shutdown()
    os.environ.clear()
    os.environ.update(before)


def campaign_on(cluster: Any, folder: Path, **settings: Any) -> Campaign:
    given = {"CAMPAIGN_CRAWLS": 2, "CAMPAIGN_BUNDLE_SITES": 2, "CAMPAIGN_SAVE_SECONDS": 0.2, **settings}
    return Campaign(folder, ("--ray", cluster.address, "--work", str(folder / "work")), given)


def raylet_of(node: Any) -> int:
    ((raylet),) = node.all_processes["raylet"]
    return int(raylet.process.pid)


def test_what_a_machine_that_dies_has_crawled_goes_on_elsewhere_without_loss(tmp_path, cluster):
    campaign = campaign_on(cluster, tmp_path)
    storage = storage_at(campaign.out)
    node = cluster.add_node(**SMALL)
    machine = tmp_path / "work" / "machines" / node.node_id
    found: dict[int, set[tuple[str, str]]] = {}

    def saved(number: int) -> set[tuple[str, str]]:
        """The pages that a bundle's saved job has the lines of."""
        jobdir = tmp_path / "looked-at" / str(number)
        shutil.rmtree(jobdir, ignore_errors=True)
        jobdir.mkdir(parents=True)
        if not restore_job(storage, number, jobdir):
            return set()
        with open_snapshot(jobdir) as connection:
            urls = connection.execute("SELECT url FROM urls WHERE state = ?", (State.DONE,)).fetchall()
        return {place_of({"url": url}) for (url,) in urls}

    def crawled_there() -> set[int]:
        here = {int(path.name) for path in machine.glob("bundles/*")}
        known = campaign_status(tmp_path / "work", is_live=False)["bundles"] if here else []
        return here - {one["number"] for one in known if one["state"] == "over"}

    def has_come_far() -> bool:
        try:
            return any(len(saved(number)) >= 20 for number in crawled_there())
        except OSError:  # another one was saved just then
            return False

    with CampaignSites([FINE] * 6, latency_seconds=3.0, kinds=SMALL_KINDS).in_thread() as sites:
        campaign.write("url,max_pages", *(f"{url},500" for url in sites.urls))
        with campaign.running() as process:
            look_for(has_come_far, process)
            raylet = raylet_of(node)
            for pid in [raylet, *reversed(processes_below(raylet))]:
                os.kill(pid, signal.SIGKILL)
            cluster.remove_node(node, allow_graceful=False)
            died = len(sites.requested)
            found.update({number: saved(number) for number in crawled_there()})
            sites.latency_seconds = 0.1
            process.wait(BUSY_SECONDS)
        assert process.returncode == 0, campaign.log()
    assert max(map(len, found.values())) >= 20, "it had work, and had come far"
    for number, pages in found.items():
        assert f"Bundle {number} has lost its machine" in campaign.log()
        if pages:
            assert f"Bundle {number} goes on from its saved job" in campaign.log()
            assert pages.isdisjoint(sites.requested[died:]), "what was saved is not asked for again"
    check_whole(campaign, sites)
    statuses = {one["number"]: one["exit_status"] for one in campaign.status()["bundles"]}
    assert set(statuses.values()) <= {0, 6}, "half the links of some sites are broken"
