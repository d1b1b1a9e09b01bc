"""Files that outlive a crawl: a job's database, its folder, and the file of learned templates."""

from llmcrawler.core.storage.body_packer import unpack
from llmcrawler.core.storage.database import Database
from llmcrawler.core.storage.job_file import (
    REQUEST_MARK,
    REQUEUED_PRIORITY,
    REQUEUED_RANK,
    JobConnection,
    State,
    check_job_file,
    holds_job,
    open_job_file,
    read_job_file,
    read_value,
    refusal,
    url_key,
    write_value,
)
from llmcrawler.core.storage.ledger import (
    PLAN,
    SPENT,
    STAGES,
    Ledger,
    Outcome,
    StoredBody,
    StoredPage,
    body_hash,
    id_of,
    line_of_row,
    return_to_queue,
    write_outcome,
)
from llmcrawler.core.storage.rights_marks import RightsCounts, marks_of
from llmcrawler.core.storage.shared_file import replace_file
from llmcrawler.core.storage.templates_file import SiteState, StoredSite, TemplatesFile
