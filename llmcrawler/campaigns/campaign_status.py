"""Tells how far a campaign is: for people, for its manifest, and also while it runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout
from rich.console import RenderableType
from rich.text import Text

from llmcrawler.campaigns.campaign_file import bundle_rows, open_to_read, site_rows
from llmcrawler.core.reporting.terminal_tables import more, table
from llmcrawler.core.reporting.text import duration, many
from llmcrawler.core.storage.job_file import is_locked
from llmcrawler.core.storage.job_status import open_snapshot
from llmcrawler.core.storage.shared_file import replace_file
from llmcrawler.errors import ConfigError, JobBusy

MANIFEST: Final = "manifest.json"
_LOCK: Final = "campaign.lock"
_MANIFEST_VERSION: Final = 1
_PATIENCE_SECONDS: Final = 0.3


def bundle_folder(folder: Path, number: int) -> Path:
    """Return the JOBDIR of a bundle."""
    return folder / "bundles" / f"{number:05}"


def bundle_log(folder: Path, number: int) -> Path:
    return bundle_folder(folder, number) / "crawl.log"


def lock_campaign(folder: Path) -> FileLock:
    """Lock the campaign until the lock is released. Raises JobBusy where another process runs it."""
    lock = FileLock(folder / _LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=_PATIENCE_SECONDS)
    except Timeout:
        raise JobBusy(
            f"{folder}: this campaign is running already; `scrapy campaign status {folder}` shows it"
        ) from None
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror or error}") from error
    return lock


def campaign_status(folder: Path, *, is_live: bool = True, is_running: bool | None = None) -> dict[str, Any]:
    """Return the status as JSON has it, `is_live`: with figures so far. Raises ConfigError where there is none."""
    with open_to_read(folder) as connection:
        sites, bundles = site_rows(connection), bundle_rows(connection)
        form = dict(connection.execute("SELECT name, value FROM campaign").fetchall()).get("form")
    begun = [one["number"] for one in bundles if not one["is_over"] and one["starts"]]
    running = {number for number in begun if is_locked(bundle_folder(folder, number)) or is_running}
    for one in bundles:
        one["state"] = "over" if one["is_over"] else "running" if one["number"] in running else "waiting"
    for site in sites:
        site["state"] = site["outcome"] or ("running" if site["bundle"] in running else "waiting")
    if is_live:
        _add_live(folder, sites, {*begun})
    totals: Counter[str] = Counter()
    for site in sites:
        totals.update({name: site[name] for name in ("pages", "records", "errors", "calls")})
    costs = [site["cost_usd"] for site in sites if site["cost_usd"] is not None]
    return {
        "folder": str(folder),
        "form": form,
        "is_over": all(one["is_over"] for one in bundles),
        "is_running": is_locked(folder, _LOCK) is not False if is_running is None else is_running,
        "states": dict(Counter(site["state"] for site in sites).most_common()),
        "totals": {
            **{name: totals[name] for name in ("pages", "records", "errors")},
            "calls": round(totals["calls"], 3),
            "cost_usd": round(sum(costs), 9) if costs else None,
        },
        "started": min((one["started"] for one in bundles if one["started"]), default=None),
        "ended": max((one["ended"] for one in bundles if one["ended"]), default=None),
        "sites": [_public(site) for site in sites],
        "bundles": [_public(one) for one in bundles],
    }


def write_manifest(folder: Path, now: float) -> None:
    """Write the manifest: what stands in it is in the data set already."""
    status = campaign_status(folder, is_live=False)
    del status["folder"], status["is_running"]
    written = {"version": _MANIFEST_VERSION, "written": now, **status}
    replace_file(folder / MANIFEST, json.dumps(written, indent=1, ensure_ascii=False).encode() + b"\n")


def _public(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("addresses", "outcome", "is_over")}


def _add_live(folder: Path, sites: list[dict[str, Any]], numbers: set[int]) -> None:
    for number in numbers:
        found: dict[str, tuple[int, int]] = {}
        with suppress(ConfigError), open_snapshot(bundle_folder(folder, number)) as connection:
            found = {
                host.removeprefix("www."): (done, dead)
                for host, done, dead in connection.execute(
                    "SELECT h.name, sum(u.state = 2), sum(u.state = 3) FROM urls u JOIN hosts h ON h.id = u.host"
                    " GROUP BY u.host"
                )
            }
        for site in sites:
            if site["bundle"] == number and site["name"] in found:
                site["pages"], site["errors"] = found[site["name"]]


_ROWS: Final = 1_000
_BRIEF_ROWS: Final = 20
_SHOWN_WIDTH: Final = 120
# What a person looks for comes first.
_ORDER: Final = ("failed", "unreachable", "running", "waiting", "done")
_BAD: Final = ("failed", "unreachable")


def campaign_tables(status: Mapping[str, Any], now: float, *, is_brief: bool) -> Iterator[RenderableType]:
    """Yield the sums, then the sites; with `is_brief` those that something is wrong with. `now` is in Unix time."""
    states, totals = status["states"], status["totals"]
    sites = sum(states.values())
    counts = ", ".join(f"{states[name]:,} {name}" for name in _ORDER if name in states)
    yield Text(f"{status['folder']}: {many(sites, 'site')}: {counts}", style="bold")
    cost = "" if totals["cost_usd"] is None else f", ${totals['cost_usd']:.4f}"
    calls = f", {totals['calls']:,.0f} LLM calls{cost}" if totals["calls"] else ""
    took = ""
    if status["started"] is not None:
        end = status["ended"] if status["is_over"] and status["ended"] else now
        took = f", {duration(max(0.0, end - status['started']))}"
    pages, records = many(totals["pages"], "page"), many(totals["records"], "record")
    yield Text(f"{pages}, {records}, {totals['errors']:,} with errors{calls}{took}")
    ordered = sorted(status["sites"], key=lambda site: _ORDER.index(site["state"]))
    shown = [site for site in ordered if not is_brief or site["state"] in _BAD]
    rows = [
        (
            site["name"],
            site["state"],
            *(f"{site[name]:,}" for name in ("pages", "records", "errors")),
            str(site["bundle"]),
            (site["reason"] or "")[:_SHOWN_WIDTH],
        )
        for site in shown
    ]
    limit = _BRIEF_ROWS if is_brief else _ROWS
    if rows:
        yield Text()
        yield table(("site", "state", ">pages", ">records", ">errors", ">bundle", "why"), rows[:limit])
        yield from more(len(rows), limit)
