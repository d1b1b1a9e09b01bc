"""What a job's runs came to."""

from __future__ import annotations

from dataclasses import replace

from llmcrawler.core.storage.job_file import Run, open_job_file, read_runs, write_run

RUN = Run(1, 100.0, 160.0, None, {"stats": {"llmcrawler/pages": 3}}, {"width_seconds": 1.0, "buckets": []})


def test_the_last_word_on_a_run_stands_and_the_oldest_are_forgotten(tmp_path):
    connection = open_job_file(tmp_path / "crawl.sqlite")
    write_run(connection, RUN)
    write_run(connection, replace(RUN, reason="finished"))
    assert read_runs(connection) == [replace(RUN, reason="finished")]
    for number in range(2, 100):
        write_run(connection, replace(RUN, number=number))
    assert [run.number for run in read_runs(connection)] == list(range(40, 100))
    connection.close()
