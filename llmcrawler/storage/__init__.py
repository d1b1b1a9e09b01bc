"""What outlives a crawl."""

from llmcrawler.storage.database import Database
from llmcrawler.storage.ledger import Ledger, Outcome, StoredBody, StoredPage
from llmcrawler.storage.schema import State, check_job_file, open_job_file, read_job_file
from llmcrawler.storage.templates import SiteState, StoredSite, TemplatesFile

__all__ = [
    "Database",
    "Ledger",
    "Outcome",
    "SiteState",
    "State",
    "StoredBody",
    "StoredPage",
    "StoredSite",
    "TemplatesFile",
    "check_job_file",
    "open_job_file",
    "read_job_file",
]
