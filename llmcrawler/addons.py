"""Scrapy add-ons: parts of this project for other projects, with their own spiders and items (docs/parts.md).

ADDONS = {"llmcrawler.addons.Politeness": 100, "llmcrawler.addons.Proxies": 200}

Each works alone and beside the others. What the project itself sets has precedence.
"""

from __future__ import annotations

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from llmcrawler import settings as ours
from llmcrawler.errors import ConfigError


class Politeness:
    """Holds the limits of each host as the server sees them, adapts to it, and obeys robots.txt from the first request.

    Scrapy's own settings say what the limits are; AUTOTHROTTLE_ENABLED=False fixes the pace where they have it.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        _share_the_parts(settings)
        for name in ("DOWNLOADER", "AUTOTHROTTLE_ENABLED", "AUTOTHROTTLE_START_DELAY", "ROBOTSTXT_PARSER"):
            settings.set(name, getattr(ours, name), "addon")
        _add(settings, "EXTENSIONS", "llmcrawler.extensions.throttle.AdaptiveThrottle")
        settings["EXTENSIONS"].set("scrapy.extensions.throttle.AutoThrottle", None, "addon")
        settings["DOWNLOADER_MIDDLEWARES"].set(
            "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware", None, "addon"
        )
        _add(
            settings,
            "DOWNLOADER_MIDDLEWARES",
            "llmcrawler.middlewares.backoff.GivenUpMiddleware",
            "llmcrawler.middlewares.robots_txt.RobotsMiddleware",
            "llmcrawler.middlewares.backoff.BackoffMiddleware",
        )


class PageUnderstanding:
    """Gives items that have a `url` and the page's `html` a page type and a record (UNDERSTANDING_FIELDS)."""

    def update_settings(self, settings: BaseSettings) -> None:
        _share_the_parts(settings)
        # Pages that wait for the model or for their template hold their responses.
        settings.set("SCRAPER_SLOT_MAX_ACTIVE_SIZE", ours.SCRAPER_SLOT_MAX_ACTIVE_SIZE, "addon")
        settings["ITEM_PIPELINES"].set("llmcrawler.pipelines.item_understanding.ItemUnderstanding", 300, "addon")


class Proxies:
    """Sends requests through proxies (PROXIES, PROXIES_FILE, PROXY_PROVIDER), and asks again for what is not the page
    (VALIDATE_RESPONSE).
    """

    def update_settings(self, settings: BaseSettings) -> None:
        _share_the_parts(settings)
        _add(
            settings,
            "DOWNLOADER_MIDDLEWARES",
            "llmcrawler.middlewares.proxies.ValidationMiddleware",
            "llmcrawler.middlewares.proxies.ProxyMiddleware",
        )


class CrashSafeQueue:
    """Keeps the requests and items of any spider in JOBDIR: a crawl that was killed goes on where it was, and its feeds
    have each item once. Without JOBDIR it does nothing.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        if not settings.get("JOBDIR"):
            return
        if (settings.getpriority("SCHEDULER") or 0) > SETTINGS_PRIORITIES["addon"]:
            raise ConfigError(
                f"SCHEDULER={settings['SCHEDULER']}: CrashSafeQueue has a scheduler of its own; leave one of them out"
            )
        settings.set("SCHEDULER", "llmcrawler.engine.request_scheduler.RequestScheduler", "addon")
        for scheme in ("", "file"):
            settings["FEED_STORAGES"].set(scheme, "llmcrawler.exporters.files.RequestFeedStorage", "addon")


def _share_the_parts(settings: BaseSettings) -> None:
    """Have the parts built that the components of all add-ons share, and end in time when the crawl is stopped; give
    the settings that Scrapy does not know their defaults.
    """
    for name, value in vars(ours).items():
        if name.isupper() and name not in settings:
            settings.set(name, value, "default")
    for path in ("llmcrawler.extensions.setup.CrawlSetup", "llmcrawler.extensions.orderly_stop.OrderlyStop"):
        settings["EXTENSIONS"].set(path, ours.EXTENSIONS_BASE[path], "addon")


def _add(settings: BaseSettings, name: str, *paths: str) -> None:
    for path in paths:
        settings[name].set(path, getattr(ours, name)[path], "addon")
