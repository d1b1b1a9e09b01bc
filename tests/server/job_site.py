"""A folder of jobs whose pages people look at: one ended crawl of a small shop, with texts that want to be markup."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from starlette.types import ASGIApp

from llmcrawler.core.storage import SiteState
from llmcrawler.core.understanding.extraction.learner import described_selectors
from llmcrawler.server.http_api import create_app
from llmcrawler.server.jobs import DEFAULT_BUDGET, JobLimits, Jobs, ServerJob
from tests.core.reporting.stored_jobs import (
    PRODUCT,
    learned_state,
    make_stored_job,
    product,
    product_html,
    template_entry,
)

TOKEN = "a token of the server"
ID = "a" * 24
HOSTILE = "</script><img src=x onerror=alert(1)> {{ 7*7 }} \u202e\ud800 <!--"


def make_jobs(folder: Path) -> Jobs:
    jobs = Jobs(folder, JobLimits())
    job = ServerJob(ID, folder / ID, "explore", {"url": "https://shop.example/"}, DEFAULT_BUDGET, "page", 1.0)
    ended = replace(job, state="finished", started=2.0, ended=9.0, cause=f"it was {HOSTILE}", exit_status=0)
    pages = [
        (product(1, title=HOSTILE, record={"name": HOSTILE, "price": 11, "stock": 3}), product_html(1)),
        (product(2, template="t0"), product_html(2)),
        *((product(number), product_html(number, price="<b>{} pounds</b>")) for number in range(3, 60)),
        ({"kind": "url", "url": "https://shop.example/of-a-map/", "title": None, "error": None}, None),
    ]
    described = template_entry("t1", "product", aliases=["t0"], selectors=described_selectors([PRODUCT]))
    make_stored_job(job.jobdir, pages, SiteState([described], learned_state({"t1": PRODUCT})))
    (job.jobdir / "templates.json").rename(jobs.templates_file)
    kept = {name: value for name, value in asdict(ended).items() if name != "folder"}
    (job.folder / "job.json").write_text(json.dumps(kept))
    return jobs


def app_of(jobs: Jobs) -> ASGIApp:
    return create_app(jobs, TOKEN)
