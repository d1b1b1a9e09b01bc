"""What lines are counted for, and that a job's counts follow its lines."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from llmcrawler.core.storage import RightsCounts, marks_of, open_job_file
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.storage.job_spec import JobSpec
from llmcrawler.core.storage.job_status import job_status
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.crawl.job import begin_run
from tests.crawl.jobs import ALL_WELL, STARTED, Made, make_job

SIGNAL = {"name": "content-signal", "where": "https://a.example/robots.txt", "uses": {"ai-train": "no"}, "value": "…"}
RIGHTS = {
    "uses": {"ai-train": "no", "search": "yes"},
    "verdict": "forbidden",
    "signals": [SIGNAL, {**SIGNAL, "where": "header"}, {**SIGNAL, "name": "tdmrep"}],
    "conflicts": [],
}
HOSTILE: list[Any] = [None, 7, "text", [], {"signals": 5}, {"signals": [7, None, {"name": []}], "uses": []}]


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ({}, []),
        ({"rights": None, "robots": None}, []),
        ({"rights": {"uses": {}, "verdict": "unsaid", "signals": [], "conflicts": []}}, ["verdicts/unsaid"]),
        (
            {"rights": RIGHTS},
            ["verdicts/forbidden", "uses/search: yes", "uses/ai-train: no", "signals/content-signal", "signals/tdmrep"],
        ),
        ({"rights": {"signals": [], "conflicts": ["ai-train: no by …, yes by …"]}}, ["conflicts"]),
        ({"robots": ["nofollow", "noindex"]}, ["noindex"]),
        ({"robots": ["noarchive"]}, []),
        *(({"rights": one, "robots": "noindex"}, []) for one in HOSTILE),
        ({"rights": {"uses": {"made up": "no", "search": "perhaps"}, "signals": [{"name": "mine"}]}}, []),
        ({"rights": {"uses": {"search": ["yes"]}, "verdict": {"a": 1}}}, []),
    ],
)
def test_a_line_is_counted_for_what_is_said_once_and_for_no_names_of_others(line, marks):
    assert marks_of(line) == marks


def test_counts_are_by_kind_the_most_frequent_first():
    counts = RightsCounts.of({"signals/rsl": 1, "signals/noai": 3, "verdicts/unsaid": 2, "noindex": 4, "odd": 5})
    assert counts == RightsCounts(verdicts={"unsaid": 2}, signals={"noai": 3, "rsl": 1}, noindex=4)
    assert [*counts.signals] == ["noai", "rsl"]


@dataclass(eq=False)
class Said(Made):
    """A page of whose use something is said."""

    more: dict[str, Any] = field(default_factory=dict)

    def outcome(self):
        outcome = super().outcome()
        return replace(outcome, line={**(outcome.line or {}), **self.more})


SAID = (
    Said("https://a.example/1", ALL_WELL, page_type="article", more={"rights": RIGHTS}),
    Said("https://a.example/2", ALL_WELL, more={"rights": RIGHTS, "robots": ["noindex"]}),
    Said("https://a.example/3", {"fetch": "failed: http_503"}, ("fetch", "http_503"), more={"rights": RIGHTS}),
    Said("https://a.example/4", ALL_WELL),
)


async def test_status_counts_the_lines_that_the_job_has(tmp_path):
    job = await make_job(tmp_path / "job", SAID)
    assert job_status(job, STARTED).as_dict()["rights"] == {
        "verdicts": {"forbidden": 3},
        "uses": {"ai-train: no": 3, "search: yes": 3},
        "signals": {"content-signal": 3, "tdmrep": 3},
        "conflicts": 0,
        "noindex": 1,
    }
    requeue(job, RequeueChoice(dead=True))
    assert job_status(job, STARTED).rights.verdicts == {"forbidden": 2}


async def test_a_refresh_counts_anew(tmp_path):
    job = await make_job(tmp_path / "job", SAID)
    connection = open_job_file(job / JOB_FILE)
    begin_run(connection, JobSpec("explore", {}, refresh=True), is_forced=False)
    connection.close()
    assert job_status(job, STARTED).rights == RightsCounts()
