"""Reads the list of a campaign's sites: a CSV file with a column url, and arguments of explore in the others."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from llmcrawler.core.urls import normalise_with_route, site_name
from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.render_choice import ALWAYS, NEVER
from llmcrawler.crawl.setting_checks import hint
from llmcrawler.crawl.task_lists import read_url, url_rows
from llmcrawler.errors import ConfigError

# What a row says of itself alone: the others are arguments that sites of one bundle have in common.
_NOT_OF_A_SITE: Final[Mapping[str, str]] = {
    "urls": "each row has one site; put its start in the column url",
    "max_pages_per_site": "max_pages of a row is its site's",
    "force": "run stages of a bundle's crawl again with its JOBDIR, as its log shows the command",
}
_MAX_TOLD = 50
_MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A row: `name` is host and port without "www.", `arguments` are those of explore as text, without the url."""

    line: int
    name: str
    url: str
    arguments: Mapping[str, str]


def read_sites(path: Path, common: Mapping[str, str], check: Callable[[ExploreOptions], None]) -> list[SiteRow]:
    """Return the rows; `common` are arguments of all sites. Raises ConfigError with all bad rows and their lines."""
    _check_names("-a", [*common], {"url": "it stands in the list"})
    found: dict[str, SiteRow] = {}
    faults: list[str] = []
    checked: dict[tuple[tuple[str, str], ...], str] = {}  # what is wrong with arguments
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line, cells in _cells(path, url_rows(file)):
                try:
                    row = _row(line, cells, common)
                    if row is None:
                        continue
                    _check_arguments(row, check, checked)
                    if row.name in found:
                        raise ValueError(
                            f"{row.name} has line {found[row.name].line} already: a site may have only one row"
                        )
                except ValueError as error:
                    faults.append(f"line {line}: {error}")
                    continue
                if len(found) >= _MAX_ROWS:
                    raise ConfigError(f"{path}: more than {_MAX_ROWS:,} sites: split them into several campaigns")
                found[row.name] = row
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: it is not CSV in UTF-8: {error}") from error
    if faults:
        raise ConfigError(told_faults(str(path), faults))
    if not found:
        raise ConfigError(f"{path}: there is no site in it")
    return [*found.values()]


def told_faults(where: str, faults: Sequence[str], cure: str = "") -> str:
    """Return the message about faults of a list, the first of them."""
    more = f"and {len(faults) - _MAX_TOLD:,} more" if len(faults) > _MAX_TOLD else ""
    return "\n  ".join(filter(None, [f"{where}:", *faults[:_MAX_TOLD], more, cure]))


def _row(line: int, cells: Mapping[str, str] | str, common: Mapping[str, str]) -> SiteRow | None:
    if isinstance(cells, str):
        raise ValueError(cells)
    given = {name: cell.strip() for name, cell in cells.items() if cell.strip()}
    if not given:
        return None
    url = read_url(given.pop("url", None), normalise_with_route)
    return SiteRow(line, site_name(url), url, dict(sorted({**common, **given}.items())))


def _check_arguments(
    row: SiteRow, check: Callable[[ExploreOptions], None], checked: dict[tuple[tuple[str, str], ...], str]
) -> None:
    """Raise ValueError where no crawl could be made of them, which is found out once for all rows that have them."""
    key = tuple(row.arguments.items())
    if key not in checked:
        try:
            options = ExploreOptions.of({**row.arguments, "url": row.url})
            # Of a first crawl there is nothing to go through again yet, so that is not looked at.
            check(options.model_copy(update={"refresh": False}))
            checked[key] = ""
        except ConfigError as error:
            checked[key] = str(error)
    if checked[key]:
        raise ValueError(checked[key])


def _cells(path: Path, rows: Any) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Yield each row's cells by their columns, or what is wrong with it, and its line."""
    names = [name.strip().lower() for name in next(rows, [])]
    if "url" not in names:
        raise ConfigError(f"{path}: line 1: there is no column url; there are: {', '.join(names)[:200] or 'none'}")
    if len({*names}) < len(names):
        raise ConfigError(f"{path}: line 1: a column occurs twice")
    _check_names(f"{path}: line 1", names)
    for row in rows:
        line = rows.line_num
        if len(row) > len(names):
            yield line, f"it has {len(row)} cells, and there are {len(names)} columns: put what has a comma in quotes"
        else:
            yield line, dict(zip(names, row, strict=False))


def _check_names(where: str, names: Iterable[str], refused: Mapping[str, str] | None = None) -> None:
    known = ExploreOptions.arguments().keys() - _NOT_OF_A_SITE.keys()
    for name in names:
        if why := {**_NOT_OF_A_SITE, **(refused or {})}.get(name):
            raise ConfigError(f"{where}: {name}: {why}")
        if name not in known:
            told = f"{where}: no argument of explore is called {name!r}"
            raise ConfigError(f"{told}: {hint(name, known)}there are {', '.join(sorted(known))}")


# In larger bundles the last sites, slow ones, keep more lines from the data set, and a crash takes more back, while a
# process costs little more for each site less in it (benchmarks/campaign.py).
MOST_SITES: Final = 50
_BUNDLES_OF_A_CORE: Final = 4  # so many at least, so that all cores have work until the end
_BIG_PAGES: Final = 2_000  # a site that may have more has its own bundle: it takes longer than those beside it


@dataclass(frozen=True, slots=True)
class Bundle:
    """Sites with the same arguments. `max_pages` are of each site; `is_rendered`: all pages go through a browser."""

    sites: tuple[SiteRow, ...]
    arguments: Mapping[str, str]
    max_pages: int
    is_rendered: bool

    @property
    def refreshes(self) -> bool:
        return ExploreOptions.reading({"refresh": self.arguments.get("refresh", False)}).refresh

    @property
    def may_render(self) -> bool:
        return self.arguments.get("render") != NEVER

    def crawl_arguments(self) -> dict[str, str]:
        """Return the arguments of the bundle's crawl, but for its list of urls and `refresh`."""
        given = {name: value for name, value in self.arguments.items() if name != "refresh"}
        pages = {"max_pages": str(self.max_pages * len(self.sites)), "max_pages_per_site": str(self.max_pages)}
        return {**given, **pages} if len(self.sites) > 1 else {**given, "max_pages": str(self.max_pages)}


def make_bundles(
    rows: Sequence[SiteRow], addresses: Mapping[str, Sequence[str]], cores: int, most_sites: int = 0
) -> list[Bundle]:
    """Return bundles, large ones first, with sites of one host or address side by side; `most_sites` 0: automatic."""
    most_sites = most_sites or min(MOST_SITES, math.ceil(len(rows) / (cores * _BUNDLES_OF_A_CORE)))
    groups: dict[tuple[tuple[str, str], ...], list[SiteRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.arguments.items()), []).append(row)
    bundles = [one for group in groups.values() for one in _bundles_of(group, addresses, most_sites)]
    return sorted(bundles, key=lambda one: -one.max_pages)


def _bundles_of(group: list[SiteRow], addresses: Mapping[str, Sequence[str]], most_sites: int) -> Iterator[Bundle]:
    arguments = group[0].arguments
    options = ExploreOptions.of({**arguments, "url": group[0].url})
    is_rendered = options.render == ALWAYS
    # A limit of records is the crawl's: for a site of its own it is the site's.
    is_alone = is_rendered or options.max_pages > _BIG_PAGES or options.max_records is not None
    ordered = sorted(group, key=lambda row: (*sorted(addresses.get(row.name, ()))[:1], host_of(row.name)))
    size = 1 if is_alone else most_sites
    for start in range(0, len(ordered), size):
        yield Bundle(tuple(ordered[start : start + size]), arguments, options.max_pages, is_rendered)


def host_of(site: str) -> str:
    """Return the host of a site's name, without its port."""
    return urlsplit(f"//{site}").hostname or site


def places_of(sites: Iterable[str], addresses: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return what no two crawls may have in common at one time: the hosts and addresses of the sites."""
    return frozenset(place for site in sites for place in (host_of(site), *addresses.get(site, ())))
