from __future__ import annotations

import pytest

from llmcrawler.core.reporting import ModelWait

FETCHING = ModelWait(for_learning=1, calls_due=3, is_starting=True, fetched_bytes=(340_000_000, 1_117_320_768))


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (ModelWait(), ""),
        (ModelWait(for_template=1), "1 page waits for more pages of its template"),
        (ModelWait(for_verdict=3), "3 pages wait for the model"),
        (ModelWait(0, 5, 0, 2, 3, 40.0), "5 pages wait for the model: 2 of 3 calls, about 40 s"),
        (
            ModelWait(2, 5, 4, 0, 3),
            "7 pages wait for the model: 0 of 3 calls; 4 pages wait for more pages of their template",
        ),
        (ModelWait(0, 5, 0, 0, 3, is_starting=True), "5 pages wait for the model, which is being started"),
        (FETCHING, "1 page waits for the model, which is being fetched: 340 of 1,117 MB"),
    ],
)
def test_a_line_says_what_pages_wait_for(waiting: ModelWait, words: str) -> None:
    assert "; ".join(waiting.parts()) == words
