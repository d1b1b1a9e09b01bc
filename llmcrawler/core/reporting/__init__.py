"""Shows a person how a crawl goes: its progress while it runs, a summary when it ends.

`display`, the live one, is imported only where it is shown, as rich's console is slow to load.
"""

from llmcrawler.core.reporting.crawl_limits import DownloadFlow, HostThrottle, binding_limit
from llmcrawler.core.reporting.crawl_metrics import Metric, ending_of, metrics_of
from llmcrawler.core.reporting.crawl_progress import CrawlProgress, DownloadProgress, ProgressReport
from llmcrawler.core.reporting.crawl_start import CrawlStart
from llmcrawler.core.reporting.exit_status import (
    BUDGET_REACHED,
    LLM_FAILURE,
    LLM_IS_OPTIONAL,
    ExitStatus,
    count_item,
    exit_status_of,
)
from llmcrawler.core.reporting.figures import lasting_stats, read_figures
from llmcrawler.core.reporting.model_wait import ModelWait
from llmcrawler.core.reporting.plan_figures import Actual
from llmcrawler.core.reporting.summary import WIDTH, Ending, WrittenFeed, summary
from llmcrawler.core.reporting.tally import Tally
from llmcrawler.core.reporting.text import many, plain
