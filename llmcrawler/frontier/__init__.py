"""Queues of urls that are still to be fetched: which urls come in, and in which order they go out."""

from llmcrawler.frontier.admission import Admission, ungrouped
from llmcrawler.frontier.focused_crawl import FocusedCrawl
from llmcrawler.frontier.link_scorer import LinkScorer
from llmcrawler.frontier.map_admission import LISTED_ONLY_PRIORITY, TEST_PRIORITY, MapAdmission, MapRules
from llmcrawler.frontier.memory import MemoryFrontier
from llmcrawler.frontier.protocol import FIRST, Counts, Frontier, Lease, UrlTask
from llmcrawler.frontier.sqlite import SqliteFrontier

__all__ = [
    "FIRST",
    "LISTED_ONLY_PRIORITY",
    "TEST_PRIORITY",
    "Admission",
    "Counts",
    "FocusedCrawl",
    "Frontier",
    "Lease",
    "LinkScorer",
    "MapAdmission",
    "MapRules",
    "MemoryFrontier",
    "SqliteFrontier",
    "UrlTask",
    "ungrouped",
]
