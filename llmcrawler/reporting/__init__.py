"""What a person sees of a crawl: its progress while it runs, a summary when it ends.

`display`, the live one, is imported only where it is shown, as rich's console is slow to load.
"""

from llmcrawler.reporting.exit_status import BUDGET_REACHED, ExitStatus, count_line, judge
from llmcrawler.reporting.figures import Figures, LLMFigures, read_figures
from llmcrawler.reporting.limits import Flow, HostThrottle, Limit, binding_limit
from llmcrawler.reporting.metrics import Metric, ending_of, metrics_of
from llmcrawler.reporting.plan_tables import Actual
from llmcrawler.reporting.progress import FetchProgress, Progress, Report
from llmcrawler.reporting.summary import Ending, summary
from llmcrawler.reporting.tally import Tally
from llmcrawler.reporting.text import plain

__all__ = [
    "BUDGET_REACHED",
    "Actual",
    "Ending",
    "ExitStatus",
    "FetchProgress",
    "Figures",
    "Flow",
    "HostThrottle",
    "LLMFigures",
    "Limit",
    "Metric",
    "Progress",
    "Report",
    "Tally",
    "binding_limit",
    "count_line",
    "ending_of",
    "judge",
    "metrics_of",
    "plain",
    "read_figures",
    "summary",
]
