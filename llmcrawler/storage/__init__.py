"""Files that outlive a crawl: a job's database, its folder, and the file of learned templates."""

from llmcrawler.storage.body_packer import unpack
from llmcrawler.storage.database import Database
from llmcrawler.storage.job_file import (
    REQUEUED_PRIORITY,
    REQUEUED_RANK,
    State,
    check_job_file,
    holds_job,
    open_job_file,
    read_job_file,
    refusal,
)
from llmcrawler.storage.keys import REQUEST_MARK, JobConnection, url_key
from llmcrawler.storage.knowledge_file import KnowledgeFile
from llmcrawler.storage.ledger import (
    PLAN,
    SPENT,
    STAGES,
    Ledger,
    Outcome,
    StoredBody,
    StoredPage,
    body_hash,
    id_of,
    read_value,
    return_to_queue,
    write_outcome,
    write_value,
)
from llmcrawler.storage.replacing import replace_file
from llmcrawler.storage.rights_marks import RightsCounts, marks_of
from llmcrawler.storage.shared_file import SharedFile
from llmcrawler.storage.templates_file import SiteState, StoredSite, TemplatesFile
