"""Files that outlive a crawl: a job's database, its folder, and the file of learned templates."""

from llmcrawler.storage.database import Database
from llmcrawler.storage.job_file import State, check_job_file, open_job_file, read_job_file
from llmcrawler.storage.keys import REQUEST_MARK
from llmcrawler.storage.ledger import Ledger, Outcome, StoredBody, StoredPage
from llmcrawler.storage.templates_file import SiteState, StoredSite, TemplatesFile
