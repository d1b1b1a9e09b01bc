"""Jobs that damage has come over: what is lost is told and fetched again, and `scrapy recover` saves the rest."""

from __future__ import annotations

import logging
import shutil
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from llmcrawler.core.reporting.html import make_report
from llmcrawler.core.storage.job_file import JOB_FILE, read_value
from llmcrawler.core.storage.job_spec import JobRules, JobSpec
from llmcrawler.core.storage.job_status import job_status, open_snapshot
from llmcrawler.core.storage.ledger import read_lines
from llmcrawler.core.storage.recovery import recover
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.core.storage.templates_file import TemplatesFile
from llmcrawler.crawl.job import Job, check_job
from llmcrawler.errors import ConfigError
from tests.e2e.killing import JobCrawl, lines_of, paths_of
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite

COUNT = 60
DAMAGES = 200
RESUMED = 10  # each of so many damages is followed by a crawl
TABLES = "job urls pages bodies stages hosts groups referers runs feeds marks mark_sets keys".split()
VALUES = (None, -1, 0, 1, 2, 3, 4, 5, 99, 2**40, 0.5, "", "x", "{", "[]", b"", b"\xff\0")


@dataclass
class Damaged:
    """A site, and jobs of it: one that is finished and one that was killed."""

    site: MockSite
    pages: ManyPages
    folders: tuple[Path, ...]

    def crawl(self, folder: Path) -> JobCrawl:
        return JobCrawl(folder, self.site.url(), {"LLM_PROVIDER": "none"}, feeds=["-O", folder / "pages.jsonl"])


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    pages = ManyPages(COUNT, latency_seconds=0.02)
    with MockSite(pages.routes()).in_thread() as site:
        jobs = Damaged(site, pages, tuple(tmp_path_factory.mktemp(name) for name in ("finished", "killed")))
        finished, killed = map(jobs.crawl, jobs.folders)
        assert finished.run() == 0, finished.logs[-1]
        assert killed.run_until(pages, len(pages.requested) + COUNT // 2) == -signal.SIGKILL
        yield jobs


def harm(jobdir: Path, random: Random) -> str:
    """Damage one file of a job in one of many ways; say how."""
    names = (JOB_FILE, JOB_FILE, JOB_FILE, f"{JOB_FILE}-wal", "templates.json")
    files = [jobdir / name for name in names]
    path = random.choice([file for file in files if file.exists() and file.stat().st_size])
    data = bytearray(path.read_bytes())
    how = random.choice(["bit", "bytes", "page", "zeros", "head", "cut", "column"])
    at = random.randrange(len(data))
    if how == "column":
        path = jobdir / JOB_FILE
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            while True:
                table = random.choice(TABLES)
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
                column, value = random.choice(columns), random.choice(VALUES)
                key = "rowid" if table not in ("job", "stages", "feeds") else columns[0]
                if count:
                    row = connection.execute(f"SELECT {key} FROM {table} LIMIT 1 OFFSET ?", (random.randrange(count),))
                    try:
                        query = f'UPDATE {table} SET "{column}" = ? WHERE {key} = ?'
                        connection.execute(query, (value, *row.fetchone()))
                    except sqlite3.IntegrityError:
                        continue
                    return f"{table}.{column} = {value!r}"
    if how == "bit":
        data[at] ^= 1 << random.randrange(8)
    elif how == "bytes":
        for _ in range(random.randint(1, 20)):
            data[random.randrange(len(data))] = random.randrange(256)
    elif how == "cut":
        del data[at:]
    else:
        first = 0 if how == "head" else at - at % 4096
        last = min(len(data), first + (100 if how == "head" else 4096))
        data[first:last] = bytes(last - first) if how == "zeros" else random.randbytes(last - first)
    path.write_bytes(data)
    return f"{path.name}: {how} at {at}"


def spec_of(jobdir: Path) -> JobSpec:
    with open_snapshot(jobdir) as connection:
        return JobSpec(read_value(connection, "spider"), read_value(connection, "arguments"))


def check(jobdir: Path, spec: JobSpec) -> str:
    """What a start says before its first request, "" where nothing is wrong."""
    try:
        check_job(jobdir, spec)
        for site in TemplatesFile(jobdir / "templates.json", "JOBDIR").load().values():
            site.state()
    except ConfigError as error:
        return str(error)
    except ValueError:
        return "scrapy recover"  # tests/core/understanding/test_template_store.py
    return ""


def look_at(jobdir: Path) -> None:
    """Whatever is damaged: each of these works, or ends with an error that is for the user."""
    for look in (
        lambda: job_status(jobdir, time.time()),
        lambda: make_report(jobdir, 100, "0", time.time()),
        lambda: requeue(jobdir, RequeueChoice(failed=True)),
    ):
        with suppress(ConfigError):
            look()


async def left_to_do(jobdir: Path, spec: JobSpec) -> tuple[Counter[str], set[str]]:
    """The paths that have a line, and those that wait, when the next run begins."""
    job = Job(jobdir, spec, JobRules())
    await job.open()
    lines = Counter([urlsplit(line["url"]).path async for _seq, line in job.earlier_lines()])
    await job.close("shutdown")
    with open_snapshot(jobdir) as connection:
        waiting = connection.execute("SELECT url FROM urls WHERE state IN (0, 1)").fetchall()
        assert not read_lines(connection, job.last_earlier_seq, 2**62, 1)
    return lines, {urlsplit(url).path for (url,) in waiting}


@pytest.mark.nightly
async def test_whatever_is_damaged_is_told_and_each_url_has_its_line_once_in_the_end(jobs, tmp_path):
    outcomes: Counter[str] = Counter()
    known = {}
    for folder in jobs.folders:
        copy = tmp_path / f"whole-{folder.name}"
        shutil.copytree(folder / "job", copy / "job")
        lines, waiting = await left_to_do(copy / "job", spec_of(copy / "job"))
        known[folder] = {*lines} | waiting
    specs = {folder: spec_of(folder / "job") for folder in jobs.folders}
    for number in range(DAMAGES):
        random, folder = Random(number), jobs.folders[number % 2]
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        jobdir = copy / "job"
        what = f"{number} {folder.name} {harm(jobdir, random)}"
        said = check(jobdir, specs[folder])
        shutil.copytree(jobdir, copy / "looked-at")
        look_at(copy / "looked-at")
        repeats = False
        if said:
            assert "scrapy recover" in said, (what, said)
            recovered = recover(jobdir)
            repeats = recovered.is_repeated or recovered.lines == 0
            assert not check(jobdir, specs[folder]), what
        shutil.copytree(jobdir, copy / "begun")
        lines, waiting = await left_to_do(copy / "begun", specs[folder])
        outcomes["recovered" if said else "harmless"] += 1
        outcomes["lines lost"] += len(known[folder] - {*lines}) if said else 0
        assert not set(lines.values()) - {1}, what
        assert not {*lines} & waiting, what
        is_older = not said and "-wal" in what  # its last commits are lost, as in a power cut
        assert repeats or is_older or known[folder] <= {*lines} | waiting, what
        if is_older or number % (DAMAGES // RESUMED) == 0:
            crawl = jobs.crawl(copy)
            assert crawl.run() == 0, (what, crawl.logs[-1])
            assert paths_of(lines_of(copy / "pages.jsonl")) == Counter(jobs.pages.paths), what
            assert "Traceback" not in crawl.logs[-1]
            outcomes["resumed"] += 1
        shutil.rmtree(copy)
    logging.getLogger(__name__).warning("%s", dict(outcomes))
    assert outcomes["recovered"] > DAMAGES // 4
