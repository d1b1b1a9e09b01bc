"""A folder of Markdown files over several runs: what is of a crawl goes or stays, what is the user's stays."""

from __future__ import annotations

import json

import pytest

from llmcrawler.core.storage.feeds.markdown_files import (
    INDEX,
    JOURNAL,
    MarkdownFolder,
    file_name,
    markdown_file_of,
    sweep,
)
from llmcrawler.core.storage.job_file import open_job_file
from llmcrawler.crawl.job import note_feed_file, truncate_feeds
from llmcrawler.errors import ConfigError
from llmcrawler.items import Page, PageError


def page(number: int, text: str | None = "Text.", **facts) -> Page:
    return Page(url=f"https://a.test/{number}", title=f"Page {number}", text=text, **facts)


def write(path, numbers, *, overwrite=True, text="Text."):
    folder = MarkdownFolder(path, overwrite=overwrite)
    for number in numbers:
        folder.add(*markdown_file_of(page(number, text).as_line()))
    folder.close()


def notes(path) -> set[str]:
    return {file.name for file in path.iterdir()} - {INDEX, JOURNAL}


def names(*numbers) -> set[str]:
    return {file_name(f"https://a.test/{number}") for number in numbers}


def test_a_folder_has_an_index(tmp_path):
    folder = MarkdownFolder(tmp_path / "new" / "site", overwrite=True)
    folder.add(*markdown_file_of(page(1, page_type="product").as_line()))
    folder.add(*markdown_file_of(page(2, None, error=PageError("fetch", "http_404", "404 [Not] Found")).as_line()))
    folder.close()
    lines = [json.loads(line) for line in (tmp_path / "new/site" / INDEX).read_text().splitlines()]
    assert [(line["file"], line["title"]) for line in lines] == [(*names(1), "Page 1"), (None, "Page 2")]
    assert lines[1]["error"]["kind"] == "http_404"


def test_writing_anew_removes_what_a_run_before_has_written_and_nothing_else(tmp_path):
    write(tmp_path, range(5))
    (tmp_path / "my notes.md").write_text("mine")
    write(tmp_path, (3, 9))
    assert notes(tmp_path) == names(3, 9) | {"my notes.md"}


def test_adding_keeps_what_is_there_and_replaces_pages_that_come_again(tmp_path):
    write(tmp_path, (1, 2))
    write(tmp_path, (2, 3), overwrite=False, text="New.")
    assert notes(tmp_path) == names(1, 2, 3)
    assert (tmp_path / names(2).pop()).read_text().endswith("New.\n")


@pytest.mark.parametrize("before", [(), (1, 2)])
def test_a_job_takes_back_what_an_interrupted_run_has_added(tmp_path, before):
    path, job = tmp_path / "site", open_job_file(tmp_path / "crawl.sqlite")
    if before:
        write(path, before)
    folder = MarkdownFolder(path, overwrite=False)
    place = (path / INDEX).stat()
    note_feed_file(job, path / INDEX, place.st_size, place)
    for number in (2, 3, 4):
        folder.add(*markdown_file_of(page(number, "Interrupted.").as_line()))
    folder.close()
    truncate_feeds(job)
    job.close()
    if before:
        assert notes(path) == names(1, 2)
    else:
        assert not path.exists()


@pytest.mark.parametrize(
    ("uri", "stays"),
    [("{}/second.jsonl", True), ("{}/first.jsonl", False), ("file://{}/%(name)s.jsonl", False), ("s3://a/first", True)],
)
def test_what_a_finished_run_has_written_stays_unless_the_next_one_writes_there(tmp_path, uri, stays):
    path, job = tmp_path / "first.jsonl", open_job_file(tmp_path / "crawl.sqlite")
    path.write_text("{}")
    note_feed_file(job, path, 0, path.stat())
    truncate_feeds(job, [uri.format(tmp_path)])
    job.close()
    assert path.exists() is stays


def test_half_a_page_and_half_a_line_of_the_index_are_gone_after_the_next_run(tmp_path):
    write(tmp_path, (1,))
    with (tmp_path / JOURNAL).open("a") as journal:
        journal.write(f"{names(2).pop()}\nhalf-a-na")
    (tmp_path / names(2).pop()).write_text("ha")
    with (tmp_path / INDEX).open("a") as index:
        index.write('{"file": "half')
    write(tmp_path, (3,), overwrite=False)
    assert notes(tmp_path) == names(1, 3)
    assert len((tmp_path / INDEX).read_text().splitlines()) == 2


@pytest.mark.parametrize("name", ["../outside.md", "/etc/x.md", "my.txt", "..", "", "\0\0x.md"])
def test_a_journal_can_remove_nothing_but_markdown_of_its_folder(tmp_path, name):
    folder = tmp_path / "site"
    write(folder, (1,))
    for file in (tmp_path / "outside.md", folder / "my.txt"):
        file.write_text("mine")
    with (folder / JOURNAL).open("a") as journal:
        journal.write(f"{name}\n")
    sweep(folder)
    assert (tmp_path / "outside.md").exists()
    assert (folder / "my.txt").exists()


def test_a_folder_with_an_index_of_its_own_is_refused_and_stays_as_it_is(tmp_path):
    (tmp_path / INDEX).write_text("mine")
    with pytest.raises(ConfigError, match="not from a crawl"):
        MarkdownFolder(tmp_path, overwrite=True)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(INDEX, "mine")]


def test_a_damaged_index_is_told_and_removes_nothing(tmp_path):
    write(tmp_path, (1, 2))
    (tmp_path / INDEX).write_bytes(b"[1]}\n")
    with pytest.raises(ConfigError, match="no longer an index of pages"):
        MarkdownFolder(tmp_path, overwrite=False)
    assert notes(tmp_path) == names(1, 2)
