"""`scrapy campaign`: many sites by one command, which goes on however it was ended."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from scrapy.exceptions import UsageError

from llmcrawler.commands.campaign import Command
from tests.adapters.commands.run_here import run_here
from tests.e2e import warm
from tests.e2e.crawling import FAST, TIMEOUT_SECONDS, environment
from tests.servers.campaign_sites import BROKEN, BUSY, DEAD, FINE, SMALL_KINDS, CampaignSites
from tests.servers.fake_llm import FakeLLM
from tests.servers.record_sites import SITES, make_site
from tests.servers.teacher import answer_from_truth

# A site that refuses is given up soon.
SETTINGS = {
    **FAST,
    "THROTTLE_PUT_BACKS": 2,
    "THROTTLE_BREAKER_FAILURES": 2,
    "THROTTLE_BREAKER_PROBES": 1,
    "THROTTLE_BREAKER_REST_SECONDS": 0.2,
    "RETRY_TIMES": 1,
    "CAMPAIGN_RETRY_SECONDS": 0.2,
}

BUDGET_REACHED = 5


@dataclass
class Campaign:
    """A list of sites and the folder that its campaign is kept in."""

    folder: Path
    options: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: str = ""  # a url

    @property
    def place(self) -> str:
        return self.elsewhere or str(self.out)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def write(self, *rows: str) -> None:
        (self.folder / "sites.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    def arguments(self) -> list[str]:
        settings = [f"-s{name}={value}" for name, value in {**SETTINGS, **self.settings}.items()]
        return ["campaign", str(self.folder / "sites.csv"), "-o", self.place, *self.options, *settings]

    def run(self) -> subprocess.CompletedProcess[str]:
        return warm.run(self.arguments(), environment(), TIMEOUT_SECONDS)

    @contextmanager
    def running(self) -> Iterator[warm.Process]:
        """The command in a process, for a test to do things to. Its log is in the file `log`."""
        with (self.folder / "log").open("w") as log:
            process = warm.start([*warm.SCRAPY, *self.arguments()], environment(), log=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8")

    def status(self) -> dict[str, Any]:
        done = warm.run(["campaign", "status", self.place, "--json"], environment(), TIMEOUT_SECONDS)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def states(self) -> dict[str, str]:
        """By host."""
        return {site["name"].partition(":")[0]: site["state"] for site in self.status()["sites"]}

    def lines(self) -> list[dict[str, Any]]:
        """Of the files that the manifest names."""
        manifest = json.loads((self.out / "manifest.json").read_text(encoding="utf-8"))
        named = [self.out / site["file"] for site in manifest["sites"] if site["file"]]
        assert sorted(named) == sorted((self.out / "pages").glob("*/*"))
        return [json.loads(line) for file in named for line in file.read_text(encoding="utf-8").splitlines()]


def place_of(line: Mapping[str, Any]) -> tuple[str, str]:
    """The host and path of a line's url."""
    parts = urlsplit(line["url"])
    return parts.hostname or "", f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"


def wait_for(claim: Callable[[], bool], sites: CampaignSites, process: warm.Process) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    with sites.changed:
        while not claim():
            assert process.poll() is None, "it has come to its end before"
            assert time.monotonic() < deadline
            sites.changed.wait(0.1)


def look_for(claim: Callable[[], bool], process: warm.Process) -> None:
    """As `wait_for`, for a claim that costs more than a page: it holds no site up, and is looked at now and then."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not claim():
        assert process.poll() is None, "it has come to its end before"
        assert time.monotonic() < deadline
        time.sleep(0.2)


def check_whole(campaign: Campaign, sites: CampaignSites) -> None:
    """Every site has an outcome, and every url that was asked for has one line."""
    assert campaign.status()["is_over"]
    assert set(campaign.states().values()) == {"done"}
    lines = Counter(map(place_of, campaign.lines()))
    assert max(lines.values()) == 1
    assert {*sites.requested} <= {*lines}
    for host, site in sites.sites.items():
        assert (host, "/") in lines
        assert len(site.pages) / 2 < sum(one == host for one, _path in lines)


def test_each_site_has_an_outcome_and_each_url_one_line(tmp_path):
    campaign = Campaign(tmp_path, settings={"CAMPAIGN_BUNDLE_SITES": 4})
    manners = [FINE, DEAD, FINE, BUSY, FINE, BROKEN, FINE, FINE]
    with CampaignSites(manners).in_thread() as sites:
        rows = [f"{url},{8 if number else 5},{'never' if number % 2 else ''}" for number, url in enumerate(sites.urls)]
        campaign.write("url,max_pages,render", *rows)
        done = campaign.run()
    assert done.returncode == 0, done.stderr
    assert list(campaign.states().values()) == ["done" if one == FINE else "unreachable" for one in manners]
    status = campaign.status()
    reasons = [site["reason"] for site in status["sites"] if site["reason"]]
    assert [word in reason for word, reason in zip(("refused", "429", "500"), reasons, strict=True)] == [True] * 3
    assert [site["pages"] for site in status["sites"]] == [5, 0, 8, 0, 8, 0, 8, 8]
    assert {one["sites"] for one in status["bundles"]} == {1, 3, 4}, "sites with the same arguments share a crawl"
    lines = campaign.lines()
    assert max(Counter(map(place_of, lines)).values()) == 1
    assert Counter(place_of(line)[0] for line in lines if not line["error"]) == {
        site["name"].partition(":")[0]: site["pages"] for site in status["sites"] if site["pages"]
    }
    assert "8 sites: 3 unreachable, 5 done" in done.stdout
    assert "3 bundles to crawl" in done.stderr


@pytest.mark.nightly
def test_a_campaign_whose_driver_is_killed_goes_on_with_the_same_command(tmp_path):
    campaign = Campaign(tmp_path, settings={"CAMPAIGN_BUNDLE_SITES": 3, "CAMPAIGN_CRAWLS": 2})
    with CampaignSites([FINE] * 5, latency_seconds=0.02, kinds=SMALL_KINDS).in_thread() as sites:
        campaign.write("url,max_pages", *(f"{url},500" for url in sites.urls))
        for count in (20, 80):
            with campaign.running() as process:
                before = len(sites.requested)
                wait_for(lambda: len(sites.requested) >= before + count, sites, process)  # noqa: B023
                process.send_signal(signal.SIGKILL)
                process.wait()
        assert not campaign.status()["is_over"]
        done = campaign.run()
    assert done.returncode == 0, done.stderr
    check_whole(campaign, sites)


@pytest.mark.nightly
def test_what_is_new_in_the_list_is_added_and_what_is_over_is_refreshed_where_it_says_so(tmp_path):
    campaign = Campaign(tmp_path, options=("-a", "max_pages=6"))
    with CampaignSites([FINE] * 3).in_thread() as sites:
        urls = list(sites.urls)
        campaign.write("url,refresh", f"{urls[0]},1", f"{urls[1]},")
        assert campaign.run().returncode == 0
        campaign.write("url,refresh", f"{urls[0]},1", f"{urls[1]},", f"{urls[2]},")
        first = len(sites.requested)
        again = campaign.run()
        assert again.returncode == 0, again.stderr
        assert "1 new sites, 2 bundles to crawl, 1 of them again" in again.stderr
        hosts = {host for host, _path in sites.requested[first:]}
        campaign.write("url,refresh,depth", f"{urls[0]},1,", f"{urls[1]},,2", f"{urls[2]},,")
        refused = campaign.run()
    assert hosts == {urlsplit(urls[0]).hostname, urlsplit(urls[2]).hostname}
    lines = campaign.lines()
    assert Counter(place_of(line)[0] for line in lines) == dict.fromkeys(sites.sites, 6)
    changes = {line["url"]: line["change"] for line in lines if place_of(line)[0] == urlsplit(urls[0]).hostname}
    logs = [path.read_text(encoding="utf-8") for path in campaign.out.glob("bundles/*/crawl.log")]
    assert set(changes.values()) == {"unchanged"}, (changes, *logs)
    assert refused.returncode == 2
    assert "line 3" in refused.stderr


@pytest.mark.nightly
def test_sites_that_are_not_done_are_tried_again_where_that_is_asked_for(tmp_path):
    campaign = Campaign(tmp_path, options=("-a", "max_pages=6"))
    with CampaignSites([FINE, BROKEN]).in_thread() as sites:
        campaign.write("url", *sites.urls)
        assert campaign.run().returncode == 0
        assert list(campaign.states().values()) == ["done", "unreachable"]
        (broken,) = (host for host, site in sites.sites.items() if site.manner == BROKEN)
        sites.sites[broken] = replace(sites.sites[broken], manner=FINE)
        before = len(sites.requested)
        assert campaign.run().returncode == 0
        assert len(sites.requested) == before, "all is over"
        campaign.options += ("--retry",)
        assert campaign.run().returncode == 0
    assert list(campaign.states().values()) == ["done", "done"]
    lines = campaign.lines()
    assert max(Counter(map(place_of, lines)).values()) == 1
    assert Counter(place_of(line)[0] for line in lines) == dict.fromkeys(sites.sites, 6)


@pytest.mark.nightly
def test_lines_as_parquet_are_one_data_set_by_sites(tmp_path):
    dataset = pytest.importorskip("pyarrow.dataset")
    campaign = Campaign(tmp_path, options=("-a", "max_pages=4", "--format", "parquet"))
    with CampaignSites([FINE] * 2).in_thread() as sites:
        campaign.write("url", *sites.urls)
        assert campaign.run().returncode == 0
    table = dataset.dataset(campaign.out / "pages", partitioning="hive").to_table(columns=["site", "url", "error"])
    rows = [row for row in table.to_pylist() if row["error"] is None]
    assert Counter(row["site"] for row in rows) == {f"{host}:{sites.port}": 4 for host in sites.sites}
    assert all(row["site"] in row["url"] for row in rows)


@pytest.mark.nightly
def test_the_crawls_of_a_campaign_have_one_budget_of_the_model(tmp_path):
    tokens = 20_000  # a call holds up to 5,000, and four sites would use 50,000
    kinds = [make_site(SITES[number % len(SITES)], number) for number in range(4)]
    truth = {path: row for site in kinds for path, row in site.truth().items()}
    with ExitStack() as servers:
        sites = servers.enter_context(CampaignSites([FINE] * 4).in_thread())
        llm = servers.enter_context(FakeLLM(answer_from_truth(truth)).in_thread())
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "LLM_MAX_TOKENS": tokens}
        settings |= {"CAMPAIGN_BUNDLE_SITES": 1, "CAMPAIGN_CRAWLS": 4}
        campaign = Campaign(tmp_path, ("-a", "max_pages=25"), settings)
        campaign.write("url", *sites.urls)
        done = campaign.run()
    assert done.returncode == 0, done.stderr
    assert tokens / 2 < llm.tokens <= tokens
    assert BUDGET_REACHED in {site["exit_status"] for site in campaign.status()["sites"]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--ray", "auto", "-sLLM_MAX_TOKENS=9"), "LLM_MAX_TOKENS: to apply it to many machines, add LLM_BUDGET_URL="),
        (("--ray", "auto", "-sLLM_BUDGET_FILE=FOLDER/x"), "LLM_BUDGET_FILE is a file on one machine"),
        (("--ray", "ray://host:10001"), "start the campaign on a machine of the cluster"),
        (("-sLLM_BUDGET_FILE=FOLDER/x", "-sLLM_BUDGET_URL=redis://127.0.0.1:1/0"), "leave one out"),
    ],
)
def test_what_many_machines_cannot_do_is_refused(tmp_path, given, said):
    given = [one.replace("FOLDER", str(tmp_path)) for one in given]
    campaign = Campaign(tmp_path, (*given, "--work", str(tmp_path / "work")))
    campaign.write("url", "https://a.example")
    with pytest.raises(UsageError, match=re.escape(said)):
        run_here(Command(), *campaign.arguments()[1:])
