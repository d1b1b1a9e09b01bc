"""Builds what a crawl shares with others about the platforms of its sites."""

from __future__ import annotations

from collections.abc import Callable

from scrapy.crawler import Crawler

from llmcrawler.core.understanding.extraction import ExtractionRunner
from llmcrawler.crawl.configuration import knowledge_file
from llmcrawler.crawl.platform_knowledge import KnowledgeSaver, PlatformKnowledge
from llmcrawler.crawl.site_registry import SiteRegistry


def build_knowledge(
    crawler: Crawler, task: str, place: ExtractionRunner, sites: Callable[[], SiteRegistry]
) -> tuple[PlatformKnowledge | None, KnowledgeSaver]:
    """Return what other sites have taught, None where nobody shares it, and what teaches others."""
    file, stats = knowledge_file(crawler.settings), crawler.stats
    assert stats is not None

    def count(name: str) -> None:
        stats.inc_value(f"llmcrawler/knowledge/{name}")

    if file is None:
        return None, KnowledgeSaver(None)
    knowledge = PlatformKnowledge(file, task, lambda site: sites().platform_of(site), place, count)
    return knowledge, KnowledgeSaver(knowledge, lambda site: sites().learned_of(site))
