"""Queues of urls that are still to be fetched: which urls come in, and in which order they go out."""

from llmcrawler.core.frontier.admission import (
    LISTED_ONLY_PRIORITY,
    TEST_PRIORITY,
    Admission,
    MapAdmission,
    MapRules,
)
from llmcrawler.core.frontier.focused_crawl import FocusedCrawl
from llmcrawler.core.frontier.link_scorer import LinkScorer
from llmcrawler.core.frontier.memory import MemoryFrontier
from llmcrawler.core.frontier.protocol import FIRST, Counts, Frontier, Lease, UrlTask
from llmcrawler.core.frontier.sqlite import SqliteFrontier
