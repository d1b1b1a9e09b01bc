"""Makes what a machine crawls by: the campaign's own one, or one of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from llmcrawler.campaigns.bundle_crawls import BundleCrawls
from llmcrawler.campaigns.campaign_storage import CampaignStorage
from llmcrawler.campaigns.place import Place
from llmcrawler.campaigns.stored_campaign import work_folder
from llmcrawler.core.processes.cores import usable_cores


def crawls_of_machine(  # noqa: PLR0913 - all but the first four by keyword
    work: str | Path | None,
    machine: str,
    cores: int,
    tell: Callable[[str], None],
    *,
    storage: CampaignStorage,
    form: str,
    settings: Mapping[str, str],
    most_crawls: int,
    most_browsers: int,
    save_seconds: float,
) -> BundleCrawls:
    """Return the crawls of a machine, called there. Its jobs are in `work`, or in the user's folder for that; those of
    a `machine` of a cluster in a folder of its name in there. It uses at most so many `cores`; 0: all.
    """
    folder = Path(work) if work else work_folder(str(storage))
    if machine:
        folder = folder / "machines" / machine
        folder.mkdir(parents=True, exist_ok=True)
    place = Place(most_crawls, most_browsers, cores=min(cores or usable_cores(), usable_cores()))
    return BundleCrawls(folder, storage, place, form, settings, tell, save_seconds)
