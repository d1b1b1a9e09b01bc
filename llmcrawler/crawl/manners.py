"""Builds from the settings what keeps to the wishes of sites: robots directives, rights, signatures."""

from __future__ import annotations

import os

from scrapy.settings import BaseSettings

from llmcrawler.core.politeness.bot_auth import RequestSigner, resolve_signer
from llmcrawler.core.politeness.rights import MODES, RESPECT, USES, RightsPolicy, SiteRights
from llmcrawler.core.politeness.rights import OFF as NO_RIGHTS
from llmcrawler.core.politeness.robots import PageRobots, product_token
from llmcrawler.core.reporting.planning.site_sample import SAMPLE_PAGES
from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.configuration import OFF
from llmcrawler.crawl.setting_checks import near_name
from llmcrawler.errors import ConfigError


def own_token(settings: BaseSettings) -> str:
    """Return the product token by which robots.txt and pages know this crawler."""
    return product_token(str(settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"] or ""))


def page_robots_of(settings: BaseSettings) -> PageRobots:
    """Return the reader of what pages say to this crawler."""
    return PageRobots(own_token(settings), settings.getbool("ROBOTS_META_OBEY"))


def rights_policy(settings: BaseSettings) -> RightsPolicy:
    """Return what is done with the rights that sites declare."""
    mode, purpose = (str(settings.get(name) or "").strip().lower() for name in ("RIGHTS_POLICY", "CRAWL_PURPOSE"))
    mode = NO_RIGHTS if mode in OFF else mode
    for name, value, known in (("RIGHTS_POLICY", mode, MODES), ("CRAWL_PURPOSE", purpose, ("", *USES))):
        if value not in known:
            near = near_name(value, known)
            meant = f"did you mean {near}? " if near else ""
            raise ConfigError(f"{name}={settings[name]!r}: {meant}it is one of {', '.join(filter(None, known))}")
    if mode == RESPECT and not purpose:
        raise ConfigError(f"RIGHTS_POLICY={RESPECT}: for which use? Say so with CRAWL_PURPOSE: {', '.join(USES)}")
    return RightsPolicy(mode, purpose or None)


def rights_of_sites(settings: BaseSettings, options: ExploreOptions) -> SiteRights:
    """Return the table of what hosts say of rights. Where it is only recorded, hosts are asked for files by crawls that
    follow links: three more requests for each single page would be too many. Of what
    comes from an archive no host is asked. A map's lines have no rights.
    """
    policy = RightsPolicy(NO_RIGHTS) if isinstance(options, MapOptions) else rights_policy(settings)
    is_archive = isinstance(options, ExtractOptions) and options.is_archive
    is_large = not options.is_list and options.depth != 0 and options.max_pages > 1
    return SiteRights(
        policy,
        own_token(settings),
        reads_files=not is_archive and (policy.mode == RESPECT or (is_large and not settings.getint(SAMPLE_PAGES))),
        reads_robots=not settings.getbool("ROBOTSTXT_OBEY"),
    )


def signer_of(settings: BaseSettings) -> RequestSigner | None:
    """Return who signs the crawl's requests; None where nobody does."""
    name = "BOT_AUTH_KEY"
    return resolve_signer(
        str(settings.get(name) or "").strip(),
        os.environ.get(name, "").strip(),
        str(settings.get("BOT_AUTH_AGENT") or "").strip(),
        as_string=settings.getbool("BOT_AUTH_AGENT_AS_STRING"),
    )
