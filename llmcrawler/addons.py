"""Scrapy add-ons: parts of this project for other projects, with their own spiders and items (docs/parts.md)."""

from __future__ import annotations

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from llmcrawler.errors import ConfigError


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
