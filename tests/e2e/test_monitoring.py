"""One crawl that is watched in every way, and what the real clients read of it."""

import json
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.crawling import ROOT, Outcome, environment, explore, free_port
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite

PAGES = 25


@dataclass
class Watched:
    outcome: Outcome | None = None
    scraped: str = ""
    textfile: str = ""
    spans: list[dict[str, Any]] = field(default_factory=list)

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder, port, result = tmp_path_factory.mktemp("watched"), free_port(), Watched()

    async def look(_request):
        """A page of the site, during whose request somebody looks at the crawl that asks for it."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            result.scraped = await answer.text()
        return web.Response(text="<html><title>Watch</title></html>", content_type="text/html")

    label = label_by_url([("/product/", "product"), ("/category/", "listing")])
    with (
        FakeLLM(label, faults=["500"]).in_thread() as llm,
        MockSite({"/watch": look}).in_thread() as site,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SPANS_FILE", str(folder / "spans.jsonl"))
        settings = {
            "LLM_PROVIDER": "openai",
            "LLM_BASE_URL": llm.base_url,
            "LOG_FORMAT": "json",
            "METRICS_PORT": port,
            "METRICS_TEXTFILE": folder / "crawl.prom",
            "TRACES": "tests.e2e.spans_in_file.SpansInFile",
            "JOBDIR": folder / "shop",
        }
        urls = f"{site.url()},{site.url('/watch')},{site.url('/odd/missing')}"
        result.outcome = explore(folder, urls, settings, max_pages=PAGES)
    assert result.outcome.exit_status == 0, result.outcome.log
    result.textfile = (folder / "crawl.prom").read_text()
    result.spans = [json.loads(line) for line in (folder / "spans.jsonl").read_text().splitlines()]
    return result


def samples(text: str, name: str, **labels: str) -> list[float]:
    """Of the crawl that is watched, as Prometheus reads them."""
    wanted = {"spider": "explore", "crawl": "shop", **labels}.items()
    families = text_string_to_metric_families(text)
    return [
        sample.value
        for one in families
        for sample in one.samples
        if sample.name == name and wanted <= sample.labels.items()
    ]


def test_prometheus_reads_the_endpoint_while_the_crawl_runs(watched):
    assert samples(watched.scraped, "llmcrawler_running") == [1]
    assert samples(watched.scraped, "llmcrawler_requests_total")[0] >= 1
    assert samples(watched.scraped, "llmcrawler_exit_status") == []


def test_the_textfile_has_the_crawls_figures_when_it_has_ended(watched):
    lines = len(watched.outcome.pages)
    assert samples(watched.textfile, "llmcrawler_running") == [0]
    assert samples(watched.textfile, "llmcrawler_exit_status") == [ExitStatus.FINISHED]
    assert samples(watched.textfile, "llmcrawler_pages_total") == [lines]
    assert samples(watched.textfile, "llmcrawler_page_errors_total", stage="fetch", kind="http_404") == [1]
    assert samples(watched.textfile, "llmcrawler_llm_faults_total") == [1]
    assert samples(watched.textfile, "llmcrawler_llm_calls_total", task="classify")[0] >= 2
    assert samples(watched.textfile, "llmcrawler_fetch_seconds_count")[0] >= lines
    assert samples(watched.textfile, "llmcrawler_stage_seconds_count", stage="classify") == [lines - 1]
    (finished,) = samples(watched.textfile, "llmcrawler_finished_timestamp_seconds")
    assert finished >= samples(watched.textfile, "llmcrawler_started_timestamp_seconds")[0]


def test_each_page_is_a_trace_with_its_fetch_and_its_stages(watched):
    pages = {span["attributes"]["url.full"]: span for span in watched.named("page")}
    assert pages.keys() == {page["url"] for page in watched.outcome.pages}
    line = next(line for line in watched.outcome.pages if line["page_type"] == "product")
    page = pages[line["url"]]
    of_page = [span for span in watched.spans if span["parent_id"] == page["context"]["span_id"]]
    assert [span["name"] for span in of_page] == ["fetch", "stage content", "stage classify", "stage record"]
    assert {span["context"]["trace_id"] for span in of_page} == {page["context"]["trace_id"]}
    assert all(page["start_time"] <= span["start_time"] <= span["end_time"] for span in of_page)
    assert page["attributes"]["llmcrawler.page_type"] == "product"
    assert page["resource"]["attributes"]["llmcrawler.crawl"] == "shop"
    (crawl,) = watched.named("crawl explore")
    assert page["links"][0]["context"]["trace_id"] == crawl["context"]["trace_id"]


def test_a_page_that_failed_is_a_trace_with_an_error(watched):
    (page,) = (span for span in watched.named("page") if span["attributes"]["url.full"].endswith("/odd/missing"))
    assert page["status"]["status_code"] == "ERROR"
    assert page["attributes"]["error.type"] == "http_404"


def test_calls_of_the_llm_are_spans_of_the_crawl_with_their_tokens(watched):
    calls = watched.named("chat fake-model")
    (crawl,) = watched.named("crawl explore")
    assert {span["parent_id"] for span in calls} == {crawl["context"]["span_id"]}
    failed = [span for span in calls if span["status"]["status_code"] == "ERROR"]
    assert len(failed) == 1
    assert sum(span["attributes"]["gen_ai.usage.input_tokens"] for span in calls) > 0
    assert {span["attributes"]["llmcrawler.task"] for span in calls} >= {"classify"}


def test_each_line_of_the_log_is_json_from_the_first_one_on(watched):
    # The tests ask Python for all warnings; those that it gives at its very end go past the log.
    log = [line for line in watched.outcome.log.splitlines() if "ResourceWarning" not in line]
    lines = [json.loads(line) for line in log if not line.startswith("  ")]
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert [line["exit_status"] for line in lines if "exit_status" in line] == [0]


def test_what_is_off_is_not_even_loaded():
    code = (
        "import sys, llmcrawler.extensions.telemetry, llmcrawler.extensions.telemetry, llmcrawler.crawl.configuration;"
        "print([name for name in ('prometheus_client', 'opentelemetry') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_a_crawl_whose_port_or_folder_cannot_be_had_does_not_start(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        outcome = explore(tmp_path, "http://127.0.0.1:9/", {"METRICS_PORT": taken})
    assert outcome.exit_status == ExitStatus.USAGE
    assert f"METRICS_PORT={taken} is not available" in outcome.log
