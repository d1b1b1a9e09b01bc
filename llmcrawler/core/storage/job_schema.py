"""The tables of a job's file."""

from __future__ import annotations

import sqlite3
from typing import Final

APPLICATION_ID: Final = 0x6C6C6D6A  # "llmj"; "llmc" in files that no release has written
SCHEMA_VERSION: Final = 1

# groups: of urls that go out together, with their present priority; urls of the group 0 have no name
# urls:   one row for each url while it waits; a million of them is nothing unusual
# keys:   hashes by which urls are found, but for the newest ones (keys.py)
# pages:  the ends of urls. `seq`: the order of the ends; null while the page is on its way
#         `ends`: an index by which status need not read all lines
# bodies: responses, for stages that run again. `generation` counts the refreshes of the job
# stages: one row for each stage that a page went through
# tasks:  for urls that are no plain GET: the rest of the request as JSON, and the user's name for it
# found:  for the urls of a map: where each was found, with its date and title there
# runs:   figures of each run of the job, for the report
# feeds:  files that this job writes its lines to, and their size before
# dictionaries: by which bodies are packed (body_packer.py); `digest` tells a damaged one
# marks:  what status counts the ends of urls for (rights_marks.py), each combination once; urls without any have no row
_TABLES = """
CREATE TABLE job (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE referers (id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE);
CREATE TABLE groups (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, rank INTEGER NOT NULL DEFAULT 0);
CREATE TABLE urls (
    id INTEGER PRIMARY KEY,
    url TEXT NOT NULL,
    host INTEGER NOT NULL,
    depth INTEGER NOT NULL DEFAULT 0,
    referer INTEGER,
    rank INTEGER NOT NULL DEFAULT 0,
    "group" INTEGER NOT NULL DEFAULT 0,
    state INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE keys (key INTEGER PRIMARY KEY, url INTEGER NOT NULL);
CREATE INDEX queue ON urls (host, "group", rank, id) WHERE state = 0;
CREATE TABLE pages (
    url INTEGER PRIMARY KEY,
    seq INTEGER UNIQUE,
    line BLOB,
    status INTEGER,
    page_type TEXT,
    error_stage TEXT,
    error_kind TEXT,
    error TEXT,
    finished REAL
);
CREATE INDEX ends ON pages (error_stage, error_kind, page_type) WHERE seq IS NOT NULL;
CREATE TABLE bodies (
    url INTEGER PRIMARY KEY,
    final_url TEXT,
    status INTEGER NOT NULL,
    headers TEXT NOT NULL,
    body BLOB,
    body_hash BLOB NOT NULL,
    fetched_at TEXT NOT NULL,
    latency REAL NOT NULL,
    change TEXT,
    generation INTEGER NOT NULL
);
CREATE TABLE stages (
    url INTEGER NOT NULL,
    stage TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    attempts INTEGER NOT NULL DEFAULT 1,
    started REAL NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (url, stage)
) WITHOUT ROWID;
CREATE TABLE tasks (url INTEGER PRIMARY KEY, name TEXT, payload TEXT NOT NULL);
CREATE TABLE found (url INTEGER PRIMARY KEY, source INTEGER NOT NULL, lastmod TEXT, title TEXT);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    started REAL NOT NULL,
    ended REAL NOT NULL,
    reason TEXT,
    figures TEXT NOT NULL,
    timeline TEXT NOT NULL
);
CREATE TABLE feeds (path TEXT PRIMARY KEY, offset INTEGER NOT NULL, device INTEGER, inode INTEGER) WITHOUT ROWID;
CREATE TABLE mark_sets (id INTEGER PRIMARY KEY, marks TEXT NOT NULL UNIQUE);
CREATE TABLE marks (url INTEGER PRIMARY KEY, mark_set INTEGER NOT NULL);
CREATE TABLE dictionaries (id INTEGER PRIMARY KEY, site TEXT NOT NULL, content BLOB NOT NULL, digest BLOB NOT NULL);
CREATE INDEX dictionaries_by_site ON dictionaries (site);
"""


def prepare_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new file in one transaction: whatever ends the process, the file is blank or whole."""
    if connection.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):
        pragmas = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
        connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} {pragmas} COMMIT;")
