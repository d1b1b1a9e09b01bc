"""Reads the list of a campaign's sites: a CSV file with a column url, and arguments of explore in the others."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from llmcrawler.core.urls import normalise_with_route, site_name
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.setting_checks import near_name
from llmcrawler.crawl.task_lists import read_url
from llmcrawler.errors import ConfigError

# What a row says of itself alone: the others are arguments that sites of one bundle have in common.
_NOT_OF_A_SITE: Final[Mapping[str, str]] = {
    "urls": "each row has one site; put its start in the column url",
    "max_pages_per_site": "max_pages of a row is its site's",
    "force": "run stages of a bundle's crawl again with its JOBDIR, as its log shows the command",
}
_MAX_TOLD = 50
_MAX_ROWS = 1_000_000
_MAX_HEAD = 10_000  # characters of the first line


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A row: `name` is host and port without "www.", `arguments` are those of explore as text, without the url."""

    line: int
    name: str
    url: str
    arguments: Mapping[str, str]


@dataclass
class _SitesReading:
    path: Path
    common: Mapping[str, str]
    check: Callable[[ExploreOptions], None]
    rows: dict[str, SiteRow] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    checked: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)  # what is wrong with arguments

    def take(self, line: int, cells: Mapping[str, str]) -> None:
        given = {name: cell.strip() for name, cell in cells.items() if cell.strip()}
        if not given:
            return
        try:
            url = read_url(given.pop("url", None), normalise_with_route)
        except ValueError as error:
            self.faults.append(f"line {line}: {error}")
            return
        arguments = dict(sorted({**self.common, **given}.items()))
        name = site_name(url)
        if fault := self._fault_of(arguments, url):
            self.faults.append(f"line {line}: {fault}")
        elif name in self.rows:
            self.faults.append(f"line {line}: {name} has line {self.rows[name].line} already: a site has one row")
        elif len(self.rows) >= _MAX_ROWS:
            raise ConfigError(f"{self.path}: more than {_MAX_ROWS:,} sites: make several campaigns of them")
        else:
            self.rows[name] = SiteRow(line, name, url, arguments)

    def _fault_of(self, arguments: Mapping[str, str], url: str) -> str:
        key = tuple(arguments.items())
        if key not in self.checked:
            try:
                options = ExploreOptions.of({**arguments, "url": url})
                # Of a first crawl there is nothing to go through again yet, so that is not looked at.
                self.check(options.model_copy(update={"refresh": False}))
                self.checked[key] = ""
            except ConfigError as error:
                self.checked[key] = str(error)
        return self.checked[key]


def read_sites(path: Path, common: Mapping[str, str], check: Callable[[ExploreOptions], None]) -> list[SiteRow]:
    """Return the rows. `common` are arguments of all sites, which a row may say otherwise; `check` raises ConfigError
    for those that no crawl could be made of. Raises ConfigError with all bad rows and their lines.
    """
    reading = _SitesReading(path, common, check)
    _check_names("-a", [*common], {"url": "it stands in the list"})
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True, delimiter=_delimiter(file))
            for line, cells in _cells(path, rows):
                if isinstance(cells, str):
                    reading.faults.append(f"line {line}: {cells}")
                else:
                    reading.take(line, cells)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: it is no CSV in UTF-8: {error}") from error
    if reading.faults:
        told = reading.faults[:_MAX_TOLD]
        more = len(reading.faults) - len(told)
        raise ConfigError("\n  ".join([f"{path}:", *told, *([f"and {more:,} more"] if more else [])]))
    if not reading.rows:
        raise ConfigError(f"{path}: there is no site in it")
    return [*reading.rows.values()]


def _cells(path: Path, rows: Iterator[list[str]]) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Yield each row's cells by their columns, or what is wrong with it, and its line."""
    names = [name.strip().lower() for name in next(rows, [])]
    if "url" not in names:
        raise ConfigError(f"{path}: line 1: there is no column url; there are: {', '.join(names)[:200] or 'none'}")
    if len({*names}) < len(names):
        raise ConfigError(f"{path}: line 1: a column stands there twice")
    _check_names(f"{path}: line 1", names)
    for row in rows:
        line = rows.line_num  # type: ignore[attr-defined] # csv.reader has it
        if len(row) > len(names):
            yield line, f"it has {len(row)} cells, and there are {len(names)} columns: put what has a comma in quotes"
        else:
            yield line, dict(zip(names, row, strict=False))


def _delimiter(file: TextIO) -> str:
    """Return what stands between cells: spreadsheets put there what their country's numbers leave free."""
    head = file.readline(_MAX_HEAD).lower()
    file.seek(0)
    return next((mark for mark in ",;\t" if "url" in [name.strip('" \r\n') for name in head.split(mark)]), ",")


def _check_names(where: str, names: Iterable[str], refused: Mapping[str, str] | None = None) -> None:
    known = ExploreOptions.arguments().keys() - _NOT_OF_A_SITE.keys()
    for name in names:
        if why := {**_NOT_OF_A_SITE, **(refused or {})}.get(name):
            raise ConfigError(f"{where}: {name}: {why}")
        if name not in known:
            near = near_name(name, known)
            meant = f": did you mean {near}?" if near else f"; there are: {', '.join(sorted(known))}"
            raise ConfigError(f"{where}: no argument of explore is called {name!r}{meant}")
