from __future__ import annotations

import socket
from contextlib import asynccontextmanager

import pytest

from llmcrawler.api import python_crawl
from llmcrawler.core.urls.private_addresses import NameLookup
from llmcrawler.server.jobs import JobLimits, Jobs

NAMES = {"shop.test": "93.184.216.34", "inside.test": "10.0.0.7"}


def resolve(host, *_args, **_more):
    if host[:1].isdigit() or ":" in host:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0))]
    if host not in NAMES:
        raise socket.gaierror("unknown")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (NAMES[host], 0))]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    """What a server looks at now and then it looks at at once."""
    monkeypatch.setattr("llmcrawler.server.jobs._TICK_SECONDS", 0.02)
    monkeypatch.setattr("llmcrawler.server.webhooks._LOOK_SECONDS", 0.02)


@pytest.fixture
def pretended(monkeypatch):
    """Jobs are processes that only pretend to crawl (pretended_job.py)."""
    monkeypatch.setattr(python_crawl, "_CHILD", "tests.server.pretended_job")


@asynccontextmanager
async def open_jobs(folder, **limits):
    jobs = Jobs(folder, JobLimits(**limits), NameLookup(resolve=resolve))
    await jobs.open()
    try:
        yield jobs
    finally:
        await jobs.close()
