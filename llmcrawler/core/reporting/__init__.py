"""Shows a person how a crawl goes: its progress while it runs, a summary when it ends.

`display`, the live one, is imported only where it is shown, as rich's console is slow to load.
"""

from llmcrawler.core.reporting.account import CrawlAccount, lasting_stats, plan_rows, read_figures
from llmcrawler.core.reporting.crawl_metrics import metrics_of
from llmcrawler.core.reporting.exit_status import (
    BUDGET_REACHED,
    LLM_FAILURE,
    LLM_IS_OPTIONAL,
    ExitStatus,
    count_item,
    exit_status_of,
)
from llmcrawler.core.reporting.progress import (
    CrawlProgress,
    DownloadFlow,
    HostThrottle,
    ModelWait,
    ProgressReport,
    binding_limit,
)
from llmcrawler.core.reporting.summary import WIDTH, Ending, WrittenFeed, summary
from llmcrawler.core.reporting.text import many, plain
