"""The table of what sites say of the use of their pages."""

from typing import Any

import pytest

from llmcrawler.core.storage.feeds.rights_table import RIGHTS_COLUMNS, rights_row

ROBOTS_TXT = "https://a.example/robots.txt"
LINE: dict[str, Any] = {
    "kind": "page",
    "url": "https://a.example/lamp",
    "final_url": "https://a.example/lamp/",
    "status": 200,
    "fetched_at": "2026-11-21T06:21:12+00:00",
    "content_hash": "22d0",
    "error": None,
    "robots": ["noindex", "noarchive"],
    "duplicate_of": "https://a.example/",
    "rights": {
        "uses": {"search": "yes", "ai-train": "no", "made up": "no"},
        "verdict": "forbidden",
        "signals": [
            {"name": "content-signal", "where": ROBOTS_TXT, "uses": {}, "value": "search=yes, ai-train=no"},
            {"name": "content-signal", "where": "header", "uses": {}, "value": "ai-train=yes\r\n\t=1+1"},
            {"name": "licence", "where": "link", "uses": {}, "value": "https://creativecommons.org/licenses/by/4.0/"},
        ],
        "conflicts": ["ai-train: no by content-signal, yes by content-signal", "search: one more"],
    },
}
BARE = {"kind": "page", "url": "https://a.example/bare", "status": 404, "rights": None}


def test_a_row_has_each_use_and_each_signal_where_it_stands_and_as_it_stands():
    row = {name: cell for name, cell in rights_row(LINE, "ai-train").items() if cell}
    assert row == {
        "host": "a.example",
        "url": "https://a.example/lamp",
        "final_url": "https://a.example/lamp/",
        "fetched_at": "2026-11-21T06:21:12+00:00",
        "status": "200",
        "content_hash": "22d0",
        "purpose": "ai-train",
        "verdict": "forbidden",
        "conflicts": "ai-train: no by content-signal, yes by content-signal\nsearch: one more",
        "search": "yes",
        "ai-train": "no",
        "content-signal": f"{ROBOTS_TXT}: search=yes, ai-train=no\nheader: ai-train=yes =1+1",
        "licence": "link: https://creativecommons.org/licenses/by/4.0/",
        "robots": "noindex\nnoarchive",
        "duplicate_of": "https://a.example/",
    }


@pytest.mark.parametrize(("neutralises", "shown"), [(True, "'=1+1"), (False, "=1+1")])
def test_what_a_spreadsheet_would_work_out_is_text(neutralises, shown):
    line = {**BARE, "error": {"kind": "rights", "message": "=1+1"}, "rights": {"conflicts": ["=1+1"]}}
    row = rights_row(line, neutralises=neutralises)
    assert (row["error.kind"], row["error.message"], row["conflicts"]) == ("rights", shown, shown)


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"url": "http://["},
        {"url": 7, "rights": [], "robots": 7, "error": "no"},
        {"url": "x", "rights": {"signals": 5, "uses": "no", "conflicts": "none"}},
        {"url": "x\ud800", "rights": {"signals": [{"name": "rsl", "where": None, "value": {"a": "\ud800"}}]}},
        {"url": "x", "rights": {"signals": [{"name": ["rsl"], "value": "y" * 100_000}]}},
        {"url": "x", "rights": {"signals": [{"name": "rsl", "value": "y" * 100_000}]}},
    ],
)
def test_a_line_of_anyones_file_is_a_row_that_a_spreadsheet_can_take(line):
    row = rights_row(line)
    assert row.keys() == {*RIGHTS_COLUMNS}
    assert max(map(len, row.values())) < 32_767
    "".join(row.values()).encode()
