from collections import Counter

import pytest

from llmcrawler.core.reporting.exit_status import (
    BUDGET_REACHED,
    LLM_FAILURE,
    LLM_IS_OPTIONAL,
    ExitStatus,
    count_item,
    exit_status_of,
)
from llmcrawler.items import PageError

NOT_THERE = PageError("fetch", "refused", "")
NOT_UNDERSTOOD = PageError("classify", "bad_answer", "")
NOT_JUDGED = PageError("classify", "llm_unavailable", "")
FORBIDDEN = PageError("fetch", "robots", "")
NOT_ASKED = PageError("classify", "budget", "")
FINE = (0, None), (1, None), (1, None), (1, NOT_THERE)


def stats_of(lines, **stats):
    counted: Counter[str] = Counter()
    for depth, error in lines:
        count_item(lambda name: counted.update([name]), depth, error)
    return {"finish_reason": "finished", **counted, **stats}


@pytest.mark.parametrize(
    ("lines", "stats", "share", "status"),
    [
        (FINE, {}, 1.0, ExitStatus.FINISHED),
        (FINE, {}, 0.25, ExitStatus.FINISHED),
        (FINE, {}, 0.24, ExitStatus.ERRORS_SHARE),
        ([*FINE, (1, FORBIDDEN), (1, FORBIDDEN)], {}, 0.25, ExitStatus.FINISHED),
        ([(0, None), (1, FORBIDDEN)], {}, 0.0, ExitStatus.FINISHED),
        (FINE, {"finish_reason": "closespider_pagecount"}, 1.0, ExitStatus.FINISHED),
        (FINE, {"finish_reason": "shutdown"}, 0.0, ExitStatus.INTERRUPTED),
        (FINE, {"finish_reason": None}, 1.0, ExitStatus.INTERRUPTED),
        (FINE, {"log_count/ERROR": 1}, 1.0, ExitStatus.ERROR),
        (FINE, {"feedexport/failed_count/S3FeedStorage": 1}, 1.0, ExitStatus.ERROR),
        (FINE, {"feedexport/success_count/S3FeedStorage": 1}, 1.0, ExitStatus.FINISHED),
        (FINE, {"llmcrawler/internal_errors": 1, "finish_reason": "shutdown"}, 1.0, ExitStatus.ERROR),
        (FINE, {LLM_FAILURE: "unreached"}, 1.0, ExitStatus.ERROR),
        (FINE, {BUDGET_REACHED: True}, 0.0, ExitStatus.BUDGET),
        ([*FINE, (1, NOT_ASKED)], {}, 0.0, ExitStatus.BUDGET),  # a line of an earlier run
        ([(0, NOT_THERE)], {}, 0.0, ExitStatus.UNREACHABLE),
        ([(0, NOT_THERE), (0, None)], {}, 1.0, ExitStatus.FINISHED),
        ([(0, NOT_UNDERSTOOD)], {}, 1.0, ExitStatus.FINISHED),
        ([(0, NOT_UNDERSTOOD)], {}, 0.0, ExitStatus.ERRORS_SHARE),
        ([(0, NOT_JUDGED)], {}, 0.5, ExitStatus.ERRORS_SHARE),
        ([(0, NOT_JUDGED)], {LLM_IS_OPTIONAL: True}, 0.5, ExitStatus.FINISHED),
        ([], {}, 0.0, ExitStatus.FINISHED),
    ],
)
def test_the_lowest_status_that_applies_is_given(lines, stats, share, status):
    assert exit_status_of(stats_of(lines, **stats), share)[0] is status


def test_a_person_reads_why():
    assert (
        exit_status_of(stats_of(FINE), 0.1)[1]
        == "1 of 4 pages have errors, 25.0%: more than CRAWL_MAX_ERRORS_SHARE=0.1"
    )
