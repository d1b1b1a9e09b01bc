"""`scrapy campaign -o s3://...`: another machine goes on with what the bucket has."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from llmcrawler.campaigns.campaign_storage import CampaignStorage, storage_at
from tests.e2e.crawling import TIMEOUT_SECONDS
from tests.e2e.killing import processes_below
from tests.e2e.test_campaign import Campaign, look_for, place_of
from tests.servers.campaign_sites import FINE, SMALL_KINDS, CampaignSites
from tests.servers.s3_server import ENVIRONMENT, S3Server

pytestmark = pytest.mark.nightly


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[S3Server]:
    pytest.importorskip("moto.server")
    pytest.importorskip("pyarrow.fs")
    for name, value in {**ENVIRONMENT, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    with S3Server() as server:
        yield server


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lines_of(storage: CampaignStorage, names: list[str]) -> list[dict[str, object]]:
    return [json.loads(line) for name in names for line in (storage.read(name) or b"").splitlines()]


def check_whole(storage: CampaignStorage, campaign: Campaign, sites: CampaignSites) -> None:
    """Every site is done, every url that was asked for has one line, in the files that the manifest names."""
    status = campaign.status()
    assert status["is_over"]
    assert not status["is_running"]
    assert {site["state"] for site in status["sites"]} == {"done"}
    manifest = json.loads(storage.read("manifest.json") or b"")
    named = sorted(site["file"] for site in manifest["sites"])
    assert named == storage.names("pages")
    lines = Counter(map(place_of, lines_of(storage, named)))
    assert max(lines.values()) == 1
    assert {*sites.requested} <= {*lines}
    assert {host for host, _path in lines} == {*sites.sites}


def test_a_campaign_in_s3_goes_on_where_nothing_of_it_is_left(tmp_path, server, monkeypatch):
    campaign = Campaign(
        tmp_path,
        settings={"CAMPAIGN_BUNDLE_SITES": 2, "CAMPAIGN_CRAWLS": 3, "CAMPAIGN_SAVE_SECONDS": 0.1},
        elsewhere=server.place("shops"),
    )
    storage = storage_at(campaign.place)

    def is_in_the_middle() -> bool:
        """Some sites are over, and another's job was saved while it is crawled."""
        saved = [json.loads(storage.read(name) or b"{}") for name in storage.names("saved") if name.endswith(".json")]
        return len(storage.names("pages")) == 2 and any(one.get("lines", 0) >= 20 for one in saved)

    with CampaignSites([FINE] * 6, latency_seconds=0.8, kinds=SMALL_KINDS).in_thread() as sites:
        rows = [f"{url},{4 if number < 2 else 500}" for number, url in enumerate(sites.urls)]
        campaign.write("url,max_pages", *rows)
        with campaign.running() as process:
            look_for(is_in_the_middle, process)
            crawls = processes_below(process.pid)
            assert crawls
            process.send_signal(signal.SIGKILL)
            process.wait()
        wait_until_gone(crawls)
        before = len(sites.requested)
        done_before = {urlsplit(str(line["url"])).hostname for line in lines_of(storage, storage.names("pages"))}
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine's cache"))
        assert not campaign.status()["is_over"]
        done = campaign.run()
    assert done.returncode == 0, done.stderr
    assert "goes on from its saved job" in done.stderr
    assert str(tmp_path / "another machine's cache") in done.stderr
    assert done_before
    assert not done_before & {host for host, _path in sites.requested[before:]}, "these were done"
    check_whole(storage, campaign, sites)
    again = campaign.run()
    assert again.returncode == 0, again.stderr
    assert "0 bundles to crawl" in again.stderr
