"""What is still to be fetched: which urls come in, and in which order they go out."""

from llmcrawler.frontier.admission import Admission
from llmcrawler.frontier.mapping import LISTED_ONLY_RANK, TEST_RANK, MapAdmission, MapRules
from llmcrawler.frontier.memory import MemoryFrontier
from llmcrawler.frontier.protocol import Counts, Frontier, Lease, UrlTask
from llmcrawler.frontier.sqlite import SqliteFrontier

__all__ = [
    "LISTED_ONLY_RANK",
    "TEST_RANK",
    "Admission",
    "Counts",
    "Frontier",
    "Lease",
    "MapAdmission",
    "MapRules",
    "MemoryFrontier",
    "SqliteFrontier",
    "UrlTask",
]
