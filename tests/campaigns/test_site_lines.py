"""The lines of a bundle's job, by its sites, and what became of each."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmcrawler.campaigns.campaign_file import SiteOutcome
from llmcrawler.campaigns.campaign_storage import storage_at
from llmcrawler.campaigns.site_lines import file_of, take_lines
from llmcrawler.campaigns.sites_file import Bundle, SiteRow
from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.frontier.sqlite import SqliteFrontier
from llmcrawler.core.storage import SPENT, Ledger, Outcome, open_job_file, write_value
from llmcrawler.core.storage.job_file import JOB_FILE
from tests.crawl.jobs import JOB, with_frontier

SITES = ("a.example", "b.example")
BUNDLE = Bundle(tuple(SiteRow(2, name, f"https://{name}/", {}) for name in SITES), {}, 3, False)


def line(url: str, **more: Any) -> dict[str, Any]:
    return {"kind": "page", "url": url, "depth": 1, "record": None, "error": None, "final_url": None, **more}


def start(url: str, **more: Any) -> dict[str, Any]:
    return line(url, depth=0, **more)


def error(kind: str) -> dict[str, Any]:
    return {"stage": "fetch", "kind": kind, "message": "so it is", "attempts": 1}


async def make_job(folder: Path, lines: list[dict[str, Any]], queued: tuple[str, ...] = (), spent: Any = None) -> None:
    open_job_file(folder / JOB_FILE).close()  # which makes the folder

    async def crawl(frontier: SqliteFrontier, _ledger: Ledger) -> None:
        for one in lines:
            url, is_start = one["url"], one["depth"] == 0
            referer = None if is_start else "https://x.example/"
            await frontier.add([UrlTask(url, url.split("/")[2], one["depth"], referer)])
            await frontier.lease(1, {}, 1)
            await frontier.ack(url, Outcome(one, {}, is_dead=one["error"] is not None))
        await frontier.add([UrlTask(url, url.split("/")[2], 1, "https://x.example/") for url in queued])

    await with_frontier(folder, crawl)
    connection = open_job_file(folder / JOB_FILE)
    for name, value in {**JOB, SPENT: spent or {}}.items():
        write_value(connection, name, value)
    connection.close()


def taken(tmp_path: Path, failure: str = "", max_pages: int = 3) -> dict[str, SiteOutcome]:
    bundle = replace(BUNDLE, max_pages=max_pages)
    storage = storage_at(tmp_path)
    outcomes = take_lines(tmp_path / "job", bundle, tmp_path, storage, form="jsonl", failure=failure)
    return {one.name: one for one in outcomes}


def urls_of(tmp_path: Path, name: str) -> list[str]:
    path = tmp_path / file_of(name, "jsonl")
    return [json.loads(text)["url"] for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


async def test_each_site_has_its_lines_and_its_outcome(tmp_path):
    lines = [
        start("https://a.example/"),
        start("https://b.example/", error=error("timeout")),
        line("https://www.a.example/x", record={"name": "x"}),
        line("https://a.example/gone", error=error("http_404")),
    ]
    await make_job(tmp_path / "job", lines)
    found = taken(tmp_path)
    assert urls_of(tmp_path, "a.example") == [lines[at]["url"] for at in (0, 2, 3)]
    assert urls_of(tmp_path, "b.example") == ["https://b.example/"]
    one = found["a.example"]
    assert (one.outcome, one.pages, one.records, one.errors) == ("done", 2, 1, 1)
    assert (found["b.example"].outcome, found["b.example"].reason) == ("unreachable", "timeout: so it is")


async def test_a_start_that_leads_to_another_host_takes_it_in_though_its_line_came_last(tmp_path):
    lines = [line("https://new.example/x"), start("https://b.example/", final_url="https://new.example/")]
    await make_job(tmp_path / "job", [start("https://a.example/"), *lines])
    taken(tmp_path)
    assert urls_of(tmp_path, "b.example") == ["https://new.example/x", "https://b.example/"]


async def test_of_a_bundle_that_was_given_up_sites_at_their_end_are_done(tmp_path):
    lines = [start("https://a.example/"), start("https://b.example/"), line("https://b.example/x")]
    await make_job(tmp_path / "job", lines, queued=("https://b.example/y",))
    assert {name: (one.outcome, one.reason) for name, one in taken(tmp_path, "it died").items()} == {
        "a.example": ("done", ""),
        "b.example": ("failed", "it died"),
    }
    assert taken(tmp_path, "it died", max_pages=2)["b.example"].outcome == "done", "it has max_pages"


async def test_calls_and_cost_are_shared_by_the_templates_and_pages_that_the_model_was_asked_about(tmp_path):
    lines = [
        start("https://a.example/", decided_by="llm"),
        line("https://a.example/x", decided_by="template", template="t1"),
        line("https://a.example/y", decided_by="template", template="t1"),
        line("https://a.example/z", decided_by="rule", template="t2"),
        start("https://b.example/", decided_by="structured-data", record_by="template", template="t3"),
    ]
    await make_job(tmp_path / "job", lines, spent={"tokens": 900, "calls": 3, "cost_usd": 0.6})
    found = taken(tmp_path)
    assert [(one.calls, one.cost_usd) for one in found.values()] == [(2.0, 0.4), (1.0, 0.2)]


async def test_lines_are_taken_again_without_a_change_and_none_are_left_of_what_failed(tmp_path, monkeypatch):
    await make_job(tmp_path / "job", [start("https://a.example/"), start("https://b.example/")])
    first = taken(tmp_path)
    assert taken(tmp_path) == first
    monkeypatch.setattr("llmcrawler.campaigns.site_lines.os.fsync", _full)
    with pytest.raises(OSError, match="full"):
        taken(tmp_path)
    assert {path.name for path in (tmp_path / "pages").glob("*/*")} == {"pages.jsonl"}
    assert urls_of(tmp_path, "b.example") == ["https://b.example/"]


def _full(_file: int) -> None:
    raise OSError("the disk is full")


def test_a_crawl_that_never_began_has_no_lines(tmp_path):
    assert {one.outcome for one in taken(tmp_path, "no process").values()} == {"failed"}
    assert not (tmp_path / "pages").exists()


async def test_a_damaged_job_leaves_the_lines_of_an_earlier_round(tmp_path):
    await make_job(tmp_path / "job", [start("https://a.example/"), start("https://b.example/")])
    taken(tmp_path)
    (tmp_path / "job" / JOB_FILE).write_bytes(b"something else" * 1000)
    assert "is not a job file" in taken(tmp_path, "exit status 2")["a.example"].reason
    assert urls_of(tmp_path, "a.example") == ["https://a.example/"]
