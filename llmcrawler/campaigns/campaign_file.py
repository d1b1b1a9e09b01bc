"""The file of a campaign: its bundles and sites, and what became of each. A kill at any moment leaves it whole."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from llmcrawler.campaigns.sites_file import Bundle, SiteRow, places_of
from llmcrawler.errors import ConfigError

CAMPAIGN_FILE: Final = "campaign.sqlite"
_APPLICATION_ID: Final = 0x6C6C6D73  # "llms"
_VERSION: Final = 1
_TABLES: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE campaign (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE bundles (
    number INTEGER PRIMARY KEY,
    arguments TEXT NOT NULL,
    max_pages INTEGER NOT NULL,
    is_rendered INTEGER NOT NULL,
    rounds INTEGER NOT NULL DEFAULT 0,
    is_over INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    starts INTEGER NOT NULL DEFAULT 0,
    exit_status INTEGER,
    reason TEXT,
    started REAL,
    ended REAL
);
CREATE TABLE sites (
    name TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    line INTEGER NOT NULL,
    bundle INTEGER NOT NULL,
    addresses TEXT NOT NULL,
    outcome TEXT,
    reason TEXT,
    pages INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0,
    errors INTEGER NOT NULL DEFAULT 0,
    calls REAL NOT NULL DEFAULT 0,
    cost_usd REAL,
    file TEXT,
    started REAL,
    ended REAL
) WITHOUT ROWID;
CREATE INDEX sites_by_bundle ON sites (bundle);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class StoredBundle:
    """`rounds`: times crawled to its end; `attempts`: runs since it last came further; `starts`: all runs."""

    number: int
    bundle: Bundle
    rounds: int
    attempts: int
    starts: int
    places: frozenset[str]


@dataclass(frozen=True, slots=True)
class SiteOutcome:
    """`outcome`: done, unreachable or failed; `file` is relative to the folder; moments are in Unix time."""

    name: str
    outcome: str
    reason: str
    pages: int
    records: int
    errors: int
    calls: float
    cost_usd: float | None
    file: str | None
    started: float | None
    ended: float | None


class CampaignFile:
    """The file, open to be written to: whoever opens it holds the campaign's lock."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CAMPAIGN_FILE
        self._connection = _connect(self._path)

    def close(self) -> None:
        self._connection.close()

    def value(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM campaign WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_value(self, name: str, value: str) -> None:
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO campaign VALUES (?, ?)", (name, value))

    def known_sites(self) -> dict[str, dict[str, str]]:
        """Return the arguments of all sites by their names."""
        rows = self._connection.execute("SELECT s.name, b.arguments FROM sites s JOIN bundles b ON b.number = s.bundle")
        return {name: json.loads(arguments) for name, arguments in rows}

    def add(self, bundles: Iterable[Bundle], addresses: Mapping[str, Sequence[str]]) -> None:
        """Add bundles, all or none."""
        with self._connection:
            for one in bundles:
                (number,) = self._connection.execute(
                    "INSERT INTO bundles (arguments, max_pages, is_rendered) VALUES (?, ?, ?) RETURNING number",
                    (json.dumps(dict(one.arguments)), one.max_pages, one.is_rendered),
                ).fetchone()
                self._connection.executemany(
                    "INSERT INTO sites (name, url, line, bundle, addresses) VALUES (?, ?, ?, ?, ?)",
                    [
                        (row.name, row.url, row.line, number, json.dumps([*addresses.get(row.name, ())]))
                        for row in one.sites
                    ],
                )

    def pending(self) -> list[StoredBundle]:
        """Return the bundles that are not over, in the order in which they are to begin."""
        pending = self._connection.execute(
            "SELECT number, arguments, max_pages, is_rendered, rounds, attempts, starts FROM bundles WHERE NOT is_over"
            " ORDER BY max_pages DESC, number"
        ).fetchall()
        bundles = []
        for number, arguments, max_pages, is_rendered, rounds, attempts, starts in pending:
            query = "SELECT line, name, url, addresses FROM sites WHERE bundle = ? ORDER BY line"
            rows = self._connection.execute(query, (number,)).fetchall()
            given = json.loads(arguments)
            sites = tuple(SiteRow(line, name, url, given) for line, name, url, _addresses in rows)
            places = places_of([one.name for one in sites], {name: json.loads(found) for _, name, _, found in rows})
            bundle = Bundle(sites, given, max_pages, bool(is_rendered))
            bundles.append(StoredBundle(number, bundle, rounds, attempts, starts, places))
        return bundles

    def begin_round(self) -> int:
        """Let the bundles whose sites are to be refreshed be crawled again; return how many these are."""
        numbers = [
            (number,)
            for number, arguments in self._connection.execute("SELECT number, arguments FROM bundles WHERE is_over")
            if Bundle((), json.loads(arguments), 0, False).refreshes
        ]
        with self._connection:
            self._connection.executemany("UPDATE bundles SET is_over = 0, attempts = 0 WHERE number = ?", numbers)
        return len(numbers)

    def not_done(self) -> dict[int, list[str]]:
        """Return the start urls of the sites that are over and not done, by their bundles."""
        query = (
            "SELECT s.bundle, s.url FROM sites s JOIN bundles b ON b.number = s.bundle"
            " WHERE b.is_over AND s.outcome != 'done' ORDER BY s.line"
        )
        found: dict[int, list[str]] = {}
        for number, url in self._connection.execute(query):
            found.setdefault(number, []).append(url)
        return found

    def reopen(self, numbers: Iterable[int]) -> None:
        """Let bundles be crawled again, as if their last round had not come to its end."""
        query = "UPDATE bundles SET is_over = 0, attempts = 0, rounds = rounds - 1 WHERE number = ?"
        with self._connection:
            self._connection.executemany(query, [(number,) for number in numbers])

    def note_start(self, number: int, now: float) -> None:
        query = "UPDATE bundles SET starts = starts + 1, started = coalesce(started, ?), ended = NULL WHERE number = ?"
        with self._connection:
            self._connection.execute(query, (now, number))

    def note_attempt(self, number: int, attempts: int, exit_status: int | None, reason: str) -> None:
        """Note a run that was not the bundle's last one; nobody knows its exit status where its machine is gone."""
        query = "UPDATE bundles SET attempts = ?, exit_status = ?, reason = ? WHERE number = ?"
        with self._connection:
            self._connection.execute(query, (attempts, exit_status, reason, number))

    def note_end(self, number: int, exit_status: int, reason: str, now: float, outcomes: Iterable[SiteOutcome]) -> None:
        """Note that a bundle is over, and what became of its sites, all at once."""
        with self._connection:
            self._connection.execute(
                "UPDATE bundles SET is_over = 1, rounds = rounds + 1, exit_status = ?, reason = ?, ended = ?"
                " WHERE number = ?",
                (exit_status, reason, now, number),
            )
            self._connection.executemany(
                "UPDATE sites SET outcome = :outcome, reason = :reason, pages = :pages, records = :records,"
                " errors = :errors, calls = :calls, cost_usd = :cost_usd, file = :file, started = :started,"
                " ended = :ended WHERE name = :name",
                map(asdict, outcomes),
            )


@contextmanager
def open_to_read(folder: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection to the file as it is now. Raises ConfigError where there is none, or it is none of ours."""
    path = folder / CAMPAIGN_FILE
    if not path.is_file():
        raise ConfigError(f"{folder}: there is no campaign in it")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            _check(connection, path)
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            yield connection
    except sqlite3.DatabaseError as error:
        raise _refusal(path, error) from error


def site_rows(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return what is known of each site, in the order of the list."""
    query = (
        "SELECT s.*, b.exit_status, b.starts, b.reason AS bundle_reason, b.is_over FROM sites s"
        " JOIN bundles b ON b.number = s.bundle ORDER BY s.line, s.name"
    )
    return [dict(row) for row in connection.execute(query)]


def bundle_rows(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    query = "SELECT b.*, count(*) AS sites FROM bundles b JOIN sites s ON s.bundle = b.number GROUP BY b.number"
    return [{**dict(row), "arguments": json.loads(row["arguments"])} for row in connection.execute(query)]


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a handful of writes a bundle
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            connection.executescript(_TABLES)
        _check(connection, path)
    except sqlite3.Error as error:
        raise _refusal(path, error) from error
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    pragmas = ("application_id", "user_version")
    application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas)
    if (application, version) != (_APPLICATION_ID, _VERSION):
        raise _refusal(path, f"it is of another program, or of version {version}")


def _refusal(path: Path, what: object) -> ConfigError:
    return ConfigError(f"{path} cannot be used ({what}): name another folder with -o")
