"""Prepares a campaign's run: what its list has that the folder does not know yet is added to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from llmcrawler.campaigns.bundles import host_of, make_bundles
from llmcrawler.campaigns.campaign_file import CampaignFile
from llmcrawler.campaigns.campaign_status import bundle_folder
from llmcrawler.campaigns.campaign_storage import CampaignStorage
from llmcrawler.campaigns.saved_jobs import restore_job, save_job
from llmcrawler.campaigns.sites_file import SiteRow
from llmcrawler.core.storage.requeueing import RequeueChoice, requeue
from llmcrawler.core.urls.private_addresses import NameLookup
from llmcrawler.errors import ConfigError

_MAX_TOLD = 50


def prepare(  # noqa: PLR0913 - a campaign's list, and what it is put into
    file: CampaignFile, folder: Path, rows: Sequence[SiteRow], *, form: str, cores: int, most_sites: int
) -> str:
    """Add the sites that are new, in bundles; where all was over, begin another round of those to be refreshed. Return
    what was found, for people. Raises ConfigError where a known site has other arguments now.
    """
    known, known_form = file.known_sites(), file.value("form")
    if known_form not in (None, form):
        raise ConfigError(f"{folder} has its lines as {known_form}, and not as {form}: name another folder with -o")
    faults = [
        f"line {row.line}: {row.name} was crawled with other arguments: {_said(known[row.name])}"
        for row in rows
        if row.name in known and known[row.name] != dict(row.arguments)
    ]
    if faults:
        more = [f"and {len(faults) - _MAX_TOLD:,} more"] if len(faults) > _MAX_TOLD else []
        cure = "give these to go on, or name another folder with -o"
        raise ConfigError("\n  ".join([f"{folder}:", *faults[:_MAX_TOLD], *more, cure]))
    again = 0 if file.pending() else file.begin_round()
    new = [row for row in rows if row.name not in known]
    file.set_value("form", form)
    if new:
        addresses = asyncio.run(look_up(new))
        bundles = make_bundles(new, addresses, cores, most_sites)
        file.add(bundles, addresses)
    told = f"{len(new):,} new sites" if known else f"{len(new):,} sites"
    return f"{told}, {len(file.pending()):,} bundles to crawl" + (f", {again:,} of them again" if again else "")


def retry(file: CampaignFile, folder: Path, storage: CampaignStorage) -> None:
    """Let sites that are not done be tried again: those from whose start nothing came, and those given up. Raises as
    `restore_job` does.
    """
    not_done = file.not_done()
    for number, urls in not_done.items():
        jobdir = bundle_folder(folder, number)
        restore_job(storage, number, jobdir)
        with suppress(ConfigError):  # there is no job where the crawl has never begun
            requeue(jobdir, RequeueChoice(dead=True, urls=tuple(urls)))
            if not storage.is_at(folder):  # it may be crawled on another machine
                save_job(jobdir, storage, number)
    file.reopen(not_done)


async def look_up(rows: Sequence[SiteRow]) -> Mapping[str, Sequence[str]]:
    """Return the addresses of the sites' hosts, by sites; none where they cannot be had, which the crawl will see."""
    lookup = NameLookup()
    try:
        found = await asyncio.gather(*(lookup.addresses(host_of(row.name)) for row in rows))
    finally:
        lookup.close()
    return {row.name: addresses for row, addresses in zip(rows, found, strict=True)}


def _said(arguments: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in arguments.items()) or "none"
